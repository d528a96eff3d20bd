"""A release of Spark, and the Kafka connector that goes with it. Airflow's side and the driver name it the same way.

Imports nothing from pyspark, so that Airflow's side can use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_offsets.errors import ConfigurationError

_NAME = "spark-sql-kafka-0-10"
_CONNECTOR = re.compile(_NAME + r"_(?P<scala>\d+\.\d+)[:-](?P<version>\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class SparkRelease:
    """A version of Spark, such as 4.0.0, and the Scala version that it was built with, such as 2.13."""

    version: str
    scala: str

    @property
    def connector(self) -> str:
        """Maven coordinates of its Kafka connector."""
        return f"org.apache.spark:{_NAME}_{self.scala}:{self.version}"

    def with_connector(self, packages: Iterable[str]) -> list[str]:
        """Packages and its Kafka connector, each once."""
        return list(dict.fromkeys([*packages, self.connector]))

    def refuse_other(self, *named: str | None) -> None:
        """Refuse another Spark's Kafka connector among packages and jars: it would fail later, with Java errors about
        methods and classes."""
        for found in _CONNECTOR.finditer(",".join(filter(None, named))):
            if not self.version.startswith(f"{found['version']}.") or found["scala"] != self.scala:
                raise ConfigurationError(
                    f"The given Kafka connector is for Spark {found['version']} with Scala {found['scala']}, but the "
                    f"load runs on Spark {self.version} with Scala {self.scala}: give {self.connector} instead."
                )


def names_connector(*named: str | None) -> bool:
    """Whether packages and jars include any Spark's Kafka connector."""
    return bool(_CONNECTOR.search(",".join(filter(None, named))))


def usual_scala(version: str) -> str:
    """The Scala version that a version of Spark is usually built with."""
    return "2.12" if version.startswith("3.") else "2.13"


def packages_in(text: str | None) -> list[str]:
    """The Maven coordinates in a comma-separated list, as in ``spark.jars.packages``."""
    return list(filter(None, map(str.strip, (text or "").split(","))))
