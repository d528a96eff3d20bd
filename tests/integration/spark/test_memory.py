"""What a session keeps of the windows that it has read."""

from __future__ import annotations

import logging
import uuid

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.kafka import reader
from airflow_kafka_offsets.spark.session.conf import GIVEN_BACK
from dev.kafka import Broker
from tests.benchmarks.spark_memory import held_mib, write_large


@pytest.mark.nightly("drivers with a small heap; the test below has what a session is told of its confs")
class TestManyWindowsInOneSession:
    def test_a_small_heap_holds_however_many_come_after_each_other(self, broker: Broker) -> None:
        """Four were too many while executors kept for minutes what each task had fetched last."""
        topic = f"large-{uuid.uuid4().hex[:8]}"
        write_large(broker.bootstrap_servers, topic)
        held = held_mib("ours", broker.bootstrap_servers, topic, partitions=12, records=4_000, loads=12, heap="512m")
        assert held is not None, "out of memory"
        assert held < 256


def test_the_user_is_told_once_which_confs_to_start_the_session_with(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(type(spark.sparkContext), "getConf", lambda _: SparkConf(loadDefaults=False))
    monkeypatch.setattr(reader, "_told", set())
    with caplog.at_level(logging.WARNING):
        reader.tell_to_give_back(spark)
        reader.tell_to_give_back(spark)
    (line,) = caplog.messages
    assert all(f"--conf {name}={value}" in line for name, value in GIVEN_BACK.items())
