"""Java for seconds: the options with which Java starts for a small window.

Most of what such a load costs is Java's own start. Java spends half of it on compiling code as well as it can, and the
load is over before that has paid off. So the ready-made load of a small window uses only the fast compiler, in the two
processes that start here: the launcher of ``spark-submit``, and the driver. A user's own application may do heavy work
for a small window, so it starts as ever; and who gives Java options himself gets these alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow_kafka_offsets.offsets.proof.split_plan import is_small
from airflow_kafka_offsets.spark.session.conf import BYTES_PER_RECORD
from airflow_kafka_offsets.submission.driver_bundle import LOAD_APPLICATION
from airflow_kafka_offsets.submission.driver_place import DriverPlace
from airflow_kafka_offsets.submission.spark_program import SparkProgram

DRIVER_JAVA = "spark.driver.extraJavaOptions"
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Known to Java 8 and later. Java refuses a second choice of a garbage collector, so nobody else may have made one."""
_CONFS = (DRIVER_JAVA, "spark.driver.defaultJavaOptions")
_LAUNCHER = "SPARK_LAUNCHER_OPTS"


def quick_java(
    place: DriverPlace, program: SparkProgram, application: str, span: int, confs: Mapping[str, str]
) -> str | None:
    """The options for a load; None if Java starts as ever.

    :param span: how many offsets it reads.
    :param confs: those of the user, and the one that says how large a record is.
    """
    if place is not DriverPlace.HERE or application != LOAD_APPLICATION:
        return None
    if not is_small(span, _number(confs.get(BYTES_PER_RECORD))):
        return None
    if any(name in confs for name in _CONFS) or program.may_have_java_options:
        return None
    return OPTIONS


@contextmanager
def launched_with(options: str | None) -> Iterator[None]:
    """Start the launcher of ``spark-submit`` with these options while the block submits."""
    if options is None:
        yield
        return
    os.environ[_LAUNCHER] = options
    try:
        yield
    finally:
        del os.environ[_LAUNCHER]


def _number(text: str | None) -> float | None:
    """The number; None if there is none, or the driver is going to refuse it."""
    try:
        return float(text or "")
    except ValueError:
        return None
