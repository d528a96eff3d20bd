"""A Spark session: what Java throws in it, confs that are set temporarily, and several things done at once.

It may be a client of Spark Connect, which has no driver at hand: no JVM, no Hadoop, no Kafka clients. A client reads a
window exactly, writes it, and proves what it wrote, because that needs nothing but Spark. It writes no file into the
ledger, and can't ask Kafka: Airflow's side does both with the result that it returns. The rest is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_kafka_offsets.compat.spark_versions import alongside, confs_of
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication

R = TypeVar("R")

_CONDITION = re.compile(r"\[[A-Z_0-9.]+\] ")
JAVA_ERRORS = (Py4JJavaError, PySparkException)
"""Java's errors as they reach Python: unchanged, or as PySpark's own error if it knows the class."""
_SIDE_BY_SIDE = 4
"""Most of the time of a short job isn't Spark's tasks."""
DERIVED_ROWS = "Deriving rows, which are made of records that Spark keeps on its executors' disks,"
GAPS = "A window whose offsets may have no record (allow_gaps, or a compacted topic)"
"""What is refused, each as the beginning of :func:`require_driver`'s sentence."""

_REDACTED = "spark.sql.redaction.string.regex"
"""Spark's conf with the pattern of what it leaves out of the plans that it shows; it has none by default."""
_OPTIONS_IN_PLANS = r'key: "kafka\.[^"]*"\s*value: "(?:[^"\\]|\\.)*"'
"""A Kafka option as a server writes a plan."""


def words(error: Exception) -> str:
    """The first line of what Java said, without its stack; and further conditions that Spark names as its reasons."""
    text = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    first, *others = filter(str.strip, text.splitlines())
    if first.rstrip().endswith(":") and others:  # the class alone
        first += others[0]
    return " ".join([first, *(line for line in others if _CONDITION.match(line))]).rstrip(".")


def java_throwables(error: Exception) -> Iterator[Any]:
    """What Java threw, then its causes, the innermost last; nothing if Python raised the error."""
    thrown = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()


def java_classes(error: Exception) -> list[str]:
    """Class names of what Java threw and of its causes; empty if Python raised the error."""
    return [str(thrown.getClass().getName()) for thrown in java_throwables(error)]


@dataclass(slots=True)
class _Held:
    """A conf that is held: by how many, the session's own value, and whether the value is changed meanwhile."""

    holders: int
    given: str | None
    changed: bool


_held: dict[tuple[str, str], _Held] = {}
_one_at_a_time = Lock()


@contextmanager
def held(spark: SparkSession, name: str, meanwhile: Callable[[str | None], str | None]) -> Iterator[None]:
    """Change a conf while the block runs: it applies to what Spark plans in the block, not to the user's other work.
    Threads of one session may overlap: the first one sets the conf, and the last one restores it.

    :param meanwhile: maps the session's own value to the value to set; None leaves the conf as it is.
    """
    connected: Any = spark
    key = str(getattr(connected, "session_id", None) or connected._jsparkSession.sessionUUID()), name
    with _one_at_a_time:
        if key not in _held:
            given = confs_of(spark).get(name)
            wanted = meanwhile(given)
            if wanted is not None:
                spark.conf.set(name, wanted)
            _held[key] = _Held(0, given, changed=wanted is not None)
        _held[key].holders += 1
    try:
        yield
    finally:
        with _one_at_a_time:
            found = _held[key]
            found.holders -= 1
            if not found.holders:
                del _held[key]
                if found.changed and found.given is None:
                    spark.conf.unset(name)
                elif found.changed:
                    spark.conf.set(name, str(found.given))


def side_by_side(spark: SparkSession, works: Mapping[str, Callable[[], R]]) -> dict[str, R]:
    """Do several things that each wait for Spark, or for a store, a few at once. Returns what they return. The first
    error ends it: what has begun by then ends, and the rest doesn't begin."""
    if len(works) < 2:
        return {name: work() for name, work in works.items()}
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        begun = {name: pool.submit(alongside(spark, work)) for name, work in works.items()}
        try:
            return {name: each.result() for name, each in begun.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


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
