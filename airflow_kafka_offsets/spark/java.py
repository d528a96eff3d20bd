"""Java beneath PySpark: whether a session has it at hand, and what comes of its errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

JAVA_ERRORS = (Py4JJavaError, PySparkException)
"""What comes of Java through Python: as it is, or as PySpark's own error where it knows the class."""


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of Spark Connect, which has no driver at hand: no JVM, no Hadoop."""
    return not isinstance(spark, SparkSession)


def words(error: Exception) -> str:
    """The first line of what Java said, without its stack."""
    text = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().splitlines()[0].rstrip(".")


def java_throwables(error: Exception) -> Iterator[Any]:
    """What Java threw, and its causes, the innermost last; nothing where Python threw it."""
    thrown = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()


def java_classes(error: Exception) -> list[str]:
    """The class of what Java threw, and those of its causes; empty where Python threw it."""
    return [str(thrown.getClass().getName()) for thrown in java_throwables(error)]
