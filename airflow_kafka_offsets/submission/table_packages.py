"""What the ready-made load needs of Spark beside the Kafka connector: packages and confs, by its sink and formats.

What the user gives himself wins: a package under any version, a conf with any value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.release import SparkRelease, names_connector
from airflow_kafka_offsets.spark.table_load import TableLoad

_TABLES: Mapping[str, Mapping[str, str]] = {
    "delta": {
        "3.5": "io.delta:delta-spark_{scala}:3.2.1",
        "4.0": "io.delta:delta-spark_{scala}:4.0.0",
        "4.1": "io.delta:delta-spark_{scala}:4.1.0",
    },
    "iceberg": {
        "3.5": "org.apache.iceberg:iceberg-spark-runtime-3.5_{scala}:1.10.0",
        "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_{scala}:1.10.0",
        "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_{scala}:1.11.0",
    },
}
"""By kind of table and Spark's minor version. A newer Spark's are named here once they are tested."""
_ARTIFACTS = {"delta": "delta-spark", "iceberg": "iceberg-spark-runtime", "avro": "spark-avro"}
_EXTENSIONS = "spark.sql.extensions"
_CONFS: Mapping[str, Mapping[str, str]] = {
    "delta": {
        _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {_EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}


def with_packages(table: TableLoad, release: SparkRelease, packages: Sequence[str], jars: str | None) -> list[str]:
    """The user's packages, the Kafka connector, and what a table needs.

    :param jars: the user's jars, comma-separated; what is among them isn't added.
    :raises ConfigurationError: nobody knows the table's package for this Spark.
    """
    given = (*packages, jars or "")
    added: list[str] = []
    if any(form.name == "avro" for form in table.formats.values()) and not _names("avro", given):
        added.append(f"org.apache.spark:spark-avro_{release.scala}:{release.version}")
    if table.sink in _TABLES and not _names(table.sink, given):
        added.append(_of_table(table.sink, release))
    connected = list(packages) if names_connector(jars) else release.with_connector(packages)
    return [*connected, *added]


def _names(kind: str, given: Iterable[str]) -> bool:
    return any(_ARTIFACTS[kind] in each for each in given)


def _of_table(kind: str, release: SparkRelease) -> str:
    minor = ".".join(release.version.split(".")[:2])
    package = _TABLES[kind].get(minor)
    if package is None:
        raise ConfigurationError(
            f"The {kind} package for Spark {release.version} isn't known here: name it in packages= (or in the conf "
            f"spark.jars.packages), such as {_TABLES[kind]['4.0'].format(scala=release.scala)} for Spark 4.0."
        )
    return package.format(scala=release.scala)


def table_confs(table: TableLoad) -> Mapping[str, str]:
    """The confs that a table needs; a user's override them. Those of an Iceberg catalog are always his."""
    return _CONFS.get(table.sink, {})
