"""Idle consumers: what Spark's Kafka source keeps on its executors once a task has read its range, and for how long.

It pools the consumers (64 an executor) and, without any bound, the records that each task's last poll brought, for five
minutes. Each read has a group id of its own, by which both pools go, so that nobody ever asks for them again but
another part of the same partition, moments later. With the fast settings they are some 8 MiB a task: two hundred tasks
within five minutes fill Spark's default heap of 1 GiB.

The pools are made when an executor first reads Kafka, from the confs that it was started with.
"""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.conf import GIVEN_BACK
from airflow_kafka_offsets.spark.files.hadoop import is_connect

_EVICTOR = "kafka-fetched-data-cache-evictor"
"""The thread by which a Java process shows that it has made the pools."""
_told: set[str] = set()
"""Applications whose user was told."""

log = logging.getLogger(__name__)


def give_back_soon(spark: SparkSession) -> None:
    """Have the executors give back memory as soon as it is idle, where that can still be said: in local mode, before
    Kafka is read for the first time. Elsewhere tell the user once which confs to start the session with.

    The server of Spark Connect has its own confs, which no client sees.
    """
    if is_connect(spark):
        return
    confs = spark.sparkContext.getConf()
    if all(confs.contains(name) for name in GIVEN_BACK):
        return
    if not _said_in_time(spark) and spark.sparkContext.applicationId not in _told:
        _told.add(spark.sparkContext.applicationId)
        missing = " ".join(f"--conf {name}={each}" for name, each in GIVEN_BACK.items() if not confs.contains(name))
        log.warning(
            "Spark's executors keep what each task fetched last, some 8 MiB, for five minutes: many tasks or windows "
            "in one session can fill them. Start the session with %s.",
            missing,
        )


def _said_in_time(spark: SparkSession) -> bool:
    """Whether driver and executor are one process, whose pools have these confs or will have them."""
    master = str(spark.sparkContext.master)
    if not master.startswith("local") or master.startswith("local-cluster"):
        return False
    jvm = spark._jvm
    assert jvm is not None, "the session is not one of Spark Connect"
    system, environment = jvm.java.lang.System, jvm.org.apache.spark.SparkEnv.get().conf()
    # A later session of this process finds them among Java's properties, as the pools outlive a session.
    said = all(system.getProperty(name) for name in GIVEN_BACK)
    if not said and _EVICTOR in str(jvm.java.lang.Thread.getAllStackTraces().keySet()):
        return False
    for name, value in GIVEN_BACK.items():
        environment.setIfMissing(name, value)
        system.setProperty(name, environment.get(name))
    return True
