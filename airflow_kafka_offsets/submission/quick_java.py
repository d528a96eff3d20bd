"""Java for seconds: how the driver's Java starts for a small window.

Most of what such a load costs is Java's own start. Java spends a third of it on compiling code as well as it can, and
the load is over before that has paid off: so it only gets the fast compiler. Another third goes to loading Spark's
classes, which come from an archive (:mod:`.class_archive`). A user's own application may do heavy work
for a small window, so its Java starts as ever; and who gives Java options himself gets these alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from airflow_kafka_offsets.offsets.proof.split_plan import is_small
from airflow_kafka_offsets.spark.session.conf import BYTES_PER_RECORD
from airflow_kafka_offsets.submission.class_archive import ClassArchive
from airflow_kafka_offsets.submission.driver_bundle import LOAD_APPLICATION
from airflow_kafka_offsets.submission.driver_place import DriverPlace
from airflow_kafka_offsets.submission.spark_program import SparkProgram

DRIVER_JAVA = "spark.driver.extraJavaOptions"
FAST_COMPILER = "-XX:TieredStopAtLevel=1"
"""Known to Java 8 and later. A choice of a garbage collector would save little more, and Java doesn't start if another
one has been chosen in a place that isn't known here."""
_CONFS = (DRIVER_JAVA, "spark.driver.defaultJavaOptions")
_VARIABLES = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")


def starts_quickly(
    place: DriverPlace, program: SparkProgram, application: str, span: int, confs: Mapping[str, str]
) -> bool:
    """Whether the driver's Java is to start quickly.

    :param span: how many offsets the load reads.
    :param confs: those of the user, and the one that says how large a record is.
    """
    if place is not DriverPlace.HERE or application != LOAD_APPLICATION:
        return False
    if any(name in confs for name in _CONFS) or any(map(program.variable, _VARIABLES)):
        return False
    return is_small(span, _number(confs.get(BYTES_PER_RECORD)))


@contextmanager
def quick_java(program: SparkProgram, kept: Path) -> Iterator[str]:
    """The driver's Java options, while the block runs it.

    :param kept: the folder for what is kept on this machine.
    """
    archive = ClassArchive.of(program, kept)
    if archive is None:
        yield FAST_COMPILER
        return
    try:
        yield f"{FAST_COMPILER} {archive.options}"
        archive.keep()
    except BaseException:
        archive.drop()
        raise


def _number(text: str | None) -> float | None:
    """The number; None if there is none, or the driver is going to refuse it."""
    try:
        return float(text or "")
    except ValueError:
        return None
