"""A release of Spark, and the packages that go with it: its Kafka connector, and what a ready-made load or an audit
needs besides, by the kinds of its table and values (``delta``, ``iceberg``, ``avro``; all other kinds need nothing).

What the user gives himself wins: a package under any version, a conf with any value. Imports nothing from pyspark, so
that Airflow's side can use it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.errors import ConfigurationError

_PACKAGES: Mapping[str, Mapping[str, str]] = {
    "kafka": {"": "org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}"},
    "avro": {"": "org.apache.spark:spark-avro_{scala}:{version}"},
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
"""By Spark's minor version; empty for any. A newer Spark's are named here once they are tested."""
_ARTIFACTS = {
    "kafka": "spark-sql-kafka-0-10",
    "avro": "spark-avro",
    "delta": "delta-spark",
    "iceberg": "iceberg-spark-runtime",
}
_CONNECTOR = re.compile(_ARTIFACTS["kafka"] + r"_(?P<scala>\d+\.\d+)[:-](?P<version>\d+\.\d+)")
_EXTENSIONS = "spark.sql.extensions"
_CONFS: Mapping[str, Mapping[str, str]] = {
    "delta": {
        _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {_EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}


@dataclass(frozen=True, slots=True)
class SparkRelease:
    """A version of Spark, such as 4.0.0, and the Scala version that it was built with, such as 2.13."""

    version: str
    scala: str

    def package(self, kind: str) -> str:
        """Maven coordinates of what goes with it: ``kafka``, ``avro``, ``delta``, ``iceberg``.

        :raises ConfigurationError: nobody knows the package for this Spark.
        """
        known = _PACKAGES[kind]
        found = known.get("") or known.get(".".join(self.version.split(".")[:2]))
        if found is None:
            raise ConfigurationError(
                f"The {kind} package for Spark {self.version} isn't known here: name it in packages= (or in the conf "
                f"spark.jars.packages), such as {known['4.0'].format(scala=self.scala)} for Spark 4.0."
            )
        return found.format(scala=self.scala, version=self.version)

    def with_packages(self, kinds: Collection[str], packages: Sequence[str], jars: str | None) -> list[str]:
        """The user's packages, the Kafka connector, and what some kinds of tables and values need.

        :param jars: the user's jars, comma-separated; what is among them isn't added.
        :raises ConfigurationError: as :meth:`package`.
        """
        given, needed = ",".join([*packages, jars or ""]), {"kafka", *kinds}
        added = [kind for kind, artifact in _ARTIFACTS.items() if kind in needed and artifact not in given]
        return [*packages, *map(self.package, added)]

    def refuse_other(self, *named: str | None) -> None:
        """Refuse another Spark's Kafka connector among packages and jars: it would fail later, with Java errors about
        methods and classes."""
        for found in _CONNECTOR.finditer(",".join(filter(None, named))):
            if not self.version.startswith(f"{found['version']}.") or found["scala"] != self.scala:
                raise ConfigurationError(
                    f"The given Kafka connector is for Spark {found['version']} with Scala {found['scala']}, but the "
                    f"load runs on Spark {self.version} with Scala {self.scala}: give {self.package('kafka')} instead."
                )


def names_connector(*named: str | None) -> bool:
    """Whether packages and jars include any Spark's Kafka connector."""
    return any(_ARTIFACTS["kafka"] in each for each in named if each)


def usual_scala(version: str) -> str:
    """The Scala version that a version of Spark is usually built with."""
    return "2.12" if version.startswith("3.") else "2.13"


def packages_in(text: str | None) -> list[str]:
    """The Maven coordinates in a comma-separated list, as in ``spark.jars.packages``."""
    return list(filter(None, map(str.strip, (text or "").split(","))))


def table_confs(kinds: Collection[str]) -> dict[str, str]:
    """The confs that a table needs; a user's override them. Those of an Iceberg catalog are always his."""
    return {name: value for kind in kinds for name, value in _CONFS.get(kind, {}).items()}
