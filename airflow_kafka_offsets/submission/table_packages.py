"""What a ready-made load or an audit needs of Spark beside the Kafka connector: packages and confs, by the kinds of its
table and values (``delta``, ``iceberg``, ``avro``; all other kinds need nothing).

What the user gives himself wins: a package under any version, a conf with any value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.release import SparkRelease, names_connector

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


def with_packages(
    kinds: Collection[str], release: SparkRelease, packages: Sequence[str], jars: str | None
) -> list[str]:
    """The user's packages, the Kafka connector, and what some kinds of tables and values need.

    :param jars: the user's jars, comma-separated; what is among them isn't added.
    :raises ConfigurationError: nobody knows a kind's package for this Spark.
    """
    given = (*packages, jars or "")
    added: list[str] = []
    if "avro" in kinds and not _names("avro", given):
        added.append(f"org.apache.spark:spark-avro_{release.scala}:{release.version}")
    added += [_of_table(kind, release) for kind in _TABLES if kind in kinds and not _names(kind, given)]
    connected = list(packages) if names_connector(*given) else release.with_connector(packages)
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


def table_confs(kinds: Collection[str]) -> dict[str, str]:
    """The confs that a table needs; a user's override them. Those of an Iceberg catalog are always his."""
    return {name: value for kind in kinds for name, value in _CONFS.get(kind, {}).items()}
