"""The split plan is what Spark makes of a window: number of tasks, and the offsets of each, read from a real broker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from tests.integration.spark.conftest import MakeFlights, OpenWindow
from tests.unit.spark.manifests import manifest_of

RECORDS = {0: 903, 1: 0, 2: 101, 3: 7}
"""A hot partition, an empty one, and two smaller ones."""


@pytest.fixture(scope="module")
def skewed(make_flights: MakeFlights) -> str:
    return make_flights(RECORDS)


@pytest.fixture
def window(open_window: OpenWindow, skewed: str) -> PinnedWindow:
    return open_window(manifest_of([(skewed, partition, 0, count) for partition, count in RECORDS.items()]))


def tasks_of_spark(window: PinnedWindow, **options: str) -> list[LogRange]:
    """What Spark's tasks have read: offsets are dense here, so that the first and the last one are a task's range."""
    rows = window.read(**options)
    bounds = rows.groupBy(F.spark_partition_id(), "topic", "partition").agg(F.min("offset"), F.max("offset")).collect()
    tasks = [LogRange(topic, partition, first, last + 1) for _, topic, partition, first, last in bounds]
    assert rows.rdd.getNumPartitions() == len(tasks), "a task reads one partition, and none is empty"
    return sorted(tasks, key=_place)


def _place(task: LogRange) -> tuple[int, int]:
    return task.partition, task.start_offset


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"minPartitions": "7"},
        {"maxRecordsPerPartition": "300"},
        {"MAXRECORDSPERPARTITION": "301", "minPartitions": "9"},
    ],
    ids=lambda options: ", ".join(f"{name} {value}" for name, value in options.items()) or "nothing",
)
def test_spark_makes_the_tasks_of_the_plan(window: PinnedWindow, options: dict[str, str]) -> None:
    planned = window.plan(**options)

    assert tasks_of_spark(window, **options) == sorted(planned.tasks, key=_place)


def test_the_default_plan_splits_a_hot_partition(window: PinnedWindow) -> None:
    """S29: were its records large; of these few, nothing is worth splitting."""
    assert window.plan().options == {}
    window._conf = replace(window._conf, bytes_per_record=1024.0 * 1024)

    planned = window.plan()

    assert planned.options == {"maxRecordsPerPartition": "127"}, "an eighth of the run, on two cores"
    assert tasks_of_spark(window) == sorted(planned.tasks, key=_place)
    assert len(planned.tasks) == 10
