"""Spark Connect: all that differs for its clients. A client has no driver at hand: no JVM, no Hadoop, no Kafka clients.

It reads a window exactly, writes it, and proves what it wrote, because that needs nothing but Spark. It writes no file
into the ledger, and can't ask Kafka: Airflow's side does both with the result that it returns. The rest is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from airflow_kafka_offsets.compat.spark_versions import condition_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication
from airflow_kafka_offsets.spark.session.files import HadoopFiles, hadoop_uri, store_error

DERIVED_ROWS = "Deriving rows, whose proof is a count that a server may leave out of its answer,"
GAPS = "A window whose offsets may have no record (allow_gaps, or a compacted topic)"
"""What is refused, each as the beginning of :func:`require_driver`'s sentence."""

_STORE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
"""Scheme and authority before a path, which Hadoop may spell differently."""
_REDACTED = "spark.sql.redaction.string.regex"
"""Spark's conf with the pattern of what it leaves out of the plans that it shows; it has none by default."""
_OPTIONS_IN_PLANS = r'key: "kafka\.[^"]*"\s*value: "(?:[^"\\]|\\.)*"'
"""A Kafka option as a server writes a plan."""


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of Spark Connect."""
    return not isinstance(spark, SparkSession)


def require_driver(spark: SparkSession, what: str) -> None:
    """Refuse what a client can't do.

    :param what: what was to be done, as the beginning of a sentence.
    :raises ConfigurationError: naming it, and what to use.
    """
    if is_connect(spark):
        raise ConfigurationError(
            f"{what} needs a session with a driver of its own, and this is a client of Spark Connect. Submit the job "
            "with KafkaSparkSubmitOperator, or use a session as spark-submit and @task.pyspark make it."
        )


def jvm_of(spark: SparkSession) -> Any:
    """The driver's JVM, to call Java; None for a client."""
    return None if is_connect(spark) else spark._jvm


def cores(spark: SparkSession) -> int | None:
    """How many tasks run at the same time; executors that haven't started yet don't count. For a client, the conf
    ``spark.default.parallelism`` gives the number, or None without it."""
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    told = spark.conf.get("spark.default.parallelism", None)
    return int(told) if told else None


def application_of(spark: SparkSession) -> SparkApplication | None:
    """The Spark application that this driver is; None for a client, which is none."""
    if is_connect(spark):
        return None
    return SparkApplication(str(spark.sparkContext.applicationId), spark.sparkContext.uiWebUrl)


def hide_options(spark: SparkSession) -> None:
    """For a client, have the server leave the options for Kafka out of the plans that it posts to its UI and its event
    log: the password may be one of them. A pattern of the session's own still applies, too."""
    if not is_connect(spark):
        return
    given = spark.conf.get(_REDACTED, None)
    if not given:
        spark.conf.set(_REDACTED, _OPTIONS_IN_PLANS)
    elif _OPTIONS_IN_PLANS not in given:
        spark.conf.set(_REDACTED, f"(?:{given})|{_OPTIONS_IN_PLANS}")


class ConnectFiles:
    """Files on any store that the server reaches; it reads and lists them with Spark jobs. Nothing is written."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def read(self, uri: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        found = list(self._found(uri, "content"))
        return bytes(found[0]["content"]) if found else None

    def names(self, folder: str) -> list[str]:
        """Names in a folder, in order: its files, and its folders that have files; empty when there is none."""
        inside = f"{_path(hadoop_uri(folder))}/"
        paths = (_path(row["path"]) for row in self._found(f"{folder}/*", "path"))
        return sorted({path.partition(inside)[2].partition("/")[0] for path in paths})

    def write(self, uri: str, content: bytes) -> None:
        """Write nothing."""

    def make_folder(self, uri: str) -> None:
        """Make nothing: the server does, when it writes there."""

    def _found(self, pattern: str, column: str) -> Iterator[Row]:
        try:
            yield from self._spark.read.format("binaryFile").load(hadoop_uri(pattern)).select(column).collect()
        except PySparkException as error:
            if condition_of(error) != "PATH_NOT_FOUND":
                raise store_error("Reading", pattern, error, None) from error


SessionFiles = HadoopFiles | ConnectFiles


def files_of(spark: SparkSession) -> SessionFiles:
    """Files as this session reaches them."""
    return ConnectFiles(spark) if is_connect(spark) else HadoopFiles(spark)


def _path(uri: str) -> str:
    return _STORE.sub("", uri, count=1)
