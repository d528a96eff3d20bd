"""What Spark 3.5 lacks, and what has another name with each version. A driver takes it from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyspark import StorageLevel, inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession

from airflow_kafka_offsets.errors import ConfigurationError

Result = TypeVar("Result")
_SCALA = {"3": "2.12", "4": "2.13"}
"""What Spark is built with as a rule, by its major version."""
_EVENTS_WITHIN_MS = 60_000
"""How long Spark may take to deliver its events, milliseconds; normally none are waiting."""


def confs_of(spark: SparkSession) -> dict[str, str]:
    """All confs of a session that were set; a client of Spark Connect before 4.0 can't tell. Superfluous from Spark 4.0
    on (``spark.conf.getAll``)."""
    if hasattr(spark.conf, "getAll"):
        return dict(spark.conf.getAll)
    if not isinstance(spark, SparkSession):
        raise ConfigurationError(f"Spark Connect tells its confs from Spark 4.0 on; this client is {spark.version}.")
    java: Any = spark._jvm
    return dict(java.scala.collection.JavaConverters.mapAsJavaMap(spark._jsparkSession.conf().getAll()))


def condition_of(error: PySparkException) -> str | None:
    """The name of what an error is about, such as ``PATH_NOT_FOUND``. Superfluous from Spark 4.0 on
    (``getCondition``)."""
    found = error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass()
    return None if found is None else str(found)


def splits_by_records(spark: SparkSession) -> bool:
    """Whether Spark's Kafka source knows ``maxRecordsPerPartition`` (SPARK-49259). Superfluous from Spark 4.0 on."""
    return _major(spark) != "3"


def observes_any(spark: SparkSession) -> bool:
    """Whether an observed sum may be of what isn't deterministic. Superfluous from Spark 4.0 on: before it such a value
    has to be a column first."""
    return _major(spark) != "3"


def was_observed(spark: SparkSession, observation: Observation) -> bool:
    """Whether an action has run on observed rows. Spark reports it on another thread, so its events are waited for.

    :raises Py4JJavaError: they weren't delivered within a minute.
    """
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty(_EVENTS_WITHIN_MS)
    java_observation: Any = observation._jo
    java_class = java_observation.getClass()
    if any(method.getName() == "future" for method in java_class.getMethods()):
        return bool(java_observation.future().isCompleted())
    # Spark 3.5.1 has no future, and its own way to ask waits for ever.
    metrics = java_class.getDeclaredField("metrics")
    metrics.setAccessible(True)
    return bool(metrics.get(java_observation).isDefined())


def observation_name(observation: Observation) -> str:
    """What a plan calls the observed rows."""
    java_observation: Any = observation._jo
    return str(java_observation.name())


def alongside(spark: SparkSession, function: Callable[[], Result]) -> Callable[[], Result]:
    """A function that another thread may call, with this one's job group and the like. Superfluous from Spark 4.0 on,
    where a session is what it is made with."""
    inherits: Any = inheritable_thread_target if _major(spark) == "3" else inheritable_thread_target(spark)
    found: Callable[[], Result] = inherits(function)
    return found


def kept_on_disk(rows: DataFrame) -> DataFrame:
    """A frame whose rows are made now and lie on the executors' disks. Superfluous from Spark 4.0 on: before it Spark
    takes memory first, and disks for the rest."""
    if _major(rows.sparkSession) == "3":
        return rows.localCheckpoint(eager=True)
    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)


def drop_kept(rows: DataFrame) -> None:
    """Free the disk space of :func:`kept_on_disk`: Spark itself does so only when Java collects garbage, or never."""
    plan: Any = rows._jdf.queryExecution().logical()
    plan.rdd().unpersist(False)


def fitting(spark: SparkSession, text: str) -> str:
    """A text with ``{version}``, ``{minor}`` and ``{scala}`` in it, as 4.0.0, 4.0 and 2.13, for this session. What a
    vendor adds to the version is left out: the public registry doesn't know it."""
    version = spark.version.partition("-")[0]
    return text.format(version=version, minor=".".join(version.split(".")[:2]), scala=_scala(spark))


def connector(spark: SparkSession) -> str:
    """Maven coordinates of Spark's Kafka connector."""
    return fitting(spark, "org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}")


def _scala(spark: SparkSession) -> str:
    if not isinstance(spark, SparkSession):
        return _SCALA.get(_major(spark), "2.13")
    java: Any = spark._jvm
    return ".".join(str(java.scala.util.Properties.versionNumberString()).split(".")[:2])


def _major(spark: SparkSession) -> str:
    return spark.version.partition(".")[0]
