"""Packages that fit the installed PySpark: Spark's Kafka connector, tables and file formats, by Maven coordinates.

jars_of("connector")  # retrieved once, as spark.jars and --jars take them
"""

from __future__ import annotations

from pathlib import Path

import pyspark

from dev import jars

VERSION = pyspark.__version__


def scala_of(version: str) -> str:
    """The Scala version that a Spark is built with."""
    return "2.12" if version.startswith("3.") else "2.13"


def coordinates_of(version: str) -> str:
    """The Maven coordinates of a Spark's Kafka connector."""
    return f"org.apache.spark:spark-sql-kafka-0-10_{scala_of(version)}:{version}"


SCALA = scala_of(VERSION)
CONNECTOR = coordinates_of(VERSION)
_MINOR = VERSION.rpartition(".")[0]
_DELTA = {"3.5": "3.2.1", "4.0": "4.0.0"}
DELTA = f"io.delta:delta-spark_{SCALA}:{_DELTA[_MINOR]}"
AVRO = f"org.apache.spark:spark-avro_{SCALA}:{VERSION}"


def jars_of(package: str) -> str:
    """The jars of a package, separated by commas.

    :param package: ``connector``, ``tables`` for Delta Lake, Iceberg and PostgreSQL's driver, or ``avro``.
    """
    # The dependencies of the Avro functions are among Spark's own jars.
    pattern = "spark-avro_*.jar" if package == "avro" else "*.jar"
    return ",".join(map(str, sorted(folder_of(package).glob(pattern))))


def folder_of(package: str) -> Path:
    """The folder with the jars of a package."""
    if package == "connector":
        return connector_of(VERSION)
    if package == "avro":
        return jars.retrieve(f"spark-avro-{VERSION}", AVRO)
    coordinates = (
        DELTA,
        f"org.apache.iceberg:iceberg-spark-runtime-{_MINOR}_{SCALA}:1.10.0",
        "org.postgresql:postgresql:42.7.8",
    )
    without = "org.(scala-lang|antlr|checkerframework):.*"
    return jars.retrieve(f"spark-tables-{VERSION}", *coordinates, without=without)


def connector_of(version: str) -> Path:
    """The folder with the jars of a Spark's Kafka connector."""
    return jars.retrieve(f"spark-kafka-{version}", coordinates_of(version))
