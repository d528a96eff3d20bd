"""What Spark 3.5 lacks, and what has another name in each version. Driver code takes it from here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark import StorageLevel, inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.release import SparkRelease, usual_scala

Result = TypeVar("Result")


def confs_of(spark: SparkSession) -> dict[str, str]:
    """All confs that were set in a session; a Spark Connect client before 4.0 can't list them.

    Spark 4.0 has ``spark.conf.getAll``. A client of Spark Connect asks once for it, but a driver asks Java several
    times for each conf. So a driver of any version asks here once for all.
    """
    if isinstance(spark, SparkSession):
        java: Any = spark._jvm
        confs = java.scala.collection.JavaConverters.mapAsJavaMap(spark._jsparkSession.conf().getAll())
        return dict(json.loads(java.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(confs)))
    if not hasattr(spark.conf, "getAll"):
        raise ConfigurationError(f"Spark Connect lists its confs since Spark 4.0; this client is {spark.version}.")
    return dict(spark.conf.getAll)


def condition_of(error: PySparkException) -> str | None:
    """The name of an error's condition, such as ``PATH_NOT_FOUND``. Not needed from Spark 4.0 on
    (``getCondition``)."""
    found = error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass()
    return None if found is None else str(found)


def splits_by_records(spark: SparkSession) -> bool:
    """Whether Spark's Kafka source knows ``maxRecordsPerPartition`` (SPARK-49259). Not needed from Spark 4.0 on."""
    return _major(spark) != "3"


def observes_any(spark: SparkSession) -> bool:
    """Whether an observed sum may include a nondeterministic value. Not needed from Spark 4.0 on: before, such a value
    must be a column first."""
    return _major(spark) != "3"


def valid_text(value: Column) -> Column:
    """Bytes as a string; null if they aren't UTF-8. Not needed from Spark 4.0 on (``try_validate_utf8``)."""
    if hasattr(F, "try_validate_utf8"):
        return F.try_validate_utf8(value.cast("string"))
    return F.when(F.encode(F.decode(value, "UTF-8"), "UTF-8") == value, value.cast("string"))


def alongside(spark: SparkSession, function: Callable[[], Result]) -> Callable[[], Result]:
    """Make a function callable from another thread, with this thread's job group and other local properties.
    Not needed from Spark 4.0 on, where the decorator takes the session."""
    inherits: Any = inheritable_thread_target if _major(spark) == "3" else inheritable_thread_target(spark)
    found: Callable[[], Result] = inherits(function)
    return found


def kept_on_disk(rows: DataFrame) -> DataFrame:
    """A frame whose rows are computed now and kept on the executors' disks. Not needed from Spark 4.0 on: before,
    Spark takes memory first, and disks for the rest."""
    if _major(rows.sparkSession) == "3":
        return rows.localCheckpoint(eager=True)
    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)


def drop_kept(rows: DataFrame) -> None:
    """Free the disk space of :func:`kept_on_disk`: Spark itself does so only when Java collects garbage, or never."""
    plan: Any = rows._jdf.queryExecution().logical()
    plan.rdd().unpersist(False)


def fitting(spark: SparkSession, text: str) -> str:
    """Fill ``{version}``, ``{minor}`` and ``{scala}`` into a text for this session, such as 4.0.0, 4.0 and 2.13."""
    release = release_of(spark)
    return text.format(version=release.version, minor=".".join(release.version.split(".")[:2]), scala=release.scala)


def release_of(spark: SparkSession) -> SparkRelease:
    """The session's release. A vendor's suffix to the version is left out: the public registry doesn't know it."""
    return SparkRelease(spark.version.partition("-")[0], _scala(spark))


def _scala(spark: SparkSession) -> str:
    if not isinstance(spark, SparkSession):
        return usual_scala(spark.version)
    java: Any = spark._jvm
    return ".".join(str(java.scala.util.Properties.versionNumberString()).split(".")[:2])


def _major(spark: SparkSession) -> str:
    return spark.version.partition(".")[0]
