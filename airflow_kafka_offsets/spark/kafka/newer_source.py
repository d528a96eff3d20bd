"""Spark's newer interface to its sources (version 2), for Kafka. The older one, which is Spark's default there, makes
an object of every record and takes it apart again.

Which one it is gets decided each time Spark resolves a plan: when a frame is made, and again when it is written. So the
conf is set around both, and no longer, as a session's other reads of Kafka are the user's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.spark.files.hadoop import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDER_SOURCES = "spark.sql.sources.useV1SourceList"
"""Spark's conf with the sources that it reads by the older interface, with commas between."""

_held: Counter[str] = Counter()
"""How many threads have set the conf, by session."""
_one_at_a_time = Lock()


@contextmanager
def newer_source(spark: SparkSession) -> Iterator[None]:
    """Have what is resolved meanwhile read Kafka by the newer interface, where the session doesn't say otherwise.

    Threads of one session may overlap. Under Spark Connect the server resolves a plan each time that it runs, with the
    session's confs.
    """
    connected: Any = spark
    session = str(connected.session_id if is_connect(spark) else spark._jsparkSession.sessionUUID())
    with _one_at_a_time:
        ours = bool(_held[session]) or OLDER_SOURCES not in spark.conf.getAll
        if ours and not _held[session]:
            sources = spark.conf.get(OLDER_SOURCES) or ""
            spark.conf.set(OLDER_SOURCES, ",".join(each for each in sources.split(",") if each != "kafka"))
        _held[session] += ours
    try:
        yield
    finally:
        with _one_at_a_time:
            _held[session] -= ours
            if not _held[session]:
                del _held[session]
                if ours:
                    spark.conf.unset(OLDER_SOURCES)
