"""A Dag of daily windows: resolve, load, prove. Its load stands in for Spark and publishes by the same rule.

The load reads with confluent-kafka, which shares no code with this package, and creates a window's output exclusively:
of two loads of one window, one publishes. Rows are ``[partition, offset, timestamp in ms]``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, task

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.references import WindowRef

DAG_ID = "daily"
SILENCE_S = 30.0
PATIENCE_S = 600.0

Row = tuple[int, int, int]
Range = tuple[int, int, int]
"""Partition, first offset, end offset (exclusive)."""


def daily_dag(schedule: str, bootstrap_servers: str, topic: str, output: str, first_ms: int, last_ms: int) -> DAG:
    """The Dag. It starts two days before its last window ends; a backfill reaches further back.

    The load of its first window goes on until that of its last one has begun, so that backfill and schedule overlap,
    however fast or slow the machine is.

    :param schedule: cron expression, whose ticks are a day apart.
    :param output: folder of the published windows, one file each; it exists.
    :param first_ms: where the first window starts.
    :param last_ms: where the last one ends.
    """
    last_has_begun = Path(f"{output}-last-has-begun")

    @task(multiple_outputs=False)
    def load(window: dict[str, Any]) -> dict[str, Any]:
        manifest = manifest_of(window)
        if manifest.end_ms == last_ms:
            last_has_begun.touch()
        if manifest.start_ms == first_ms:
            wait_for(last_has_begun)
        rows = list(read_exactly(bootstrap_servers, topic, pinned(window)))
        name = window["window"]
        return {"window": name, "published": publish(Path(output) / f"{name}.json", rows)}

    @task
    def prove(window: dict[str, Any], loaded: dict[str, Any]) -> int:
        rows = json.loads((Path(output) / f"{loaded['window']}.json").read_text())
        wanted = [(partition, n) for partition, start, end in pinned(window) for n in range(start, end)]
        if sorted((partition, offset) for partition, offset, _ in rows) != wanted:
            raise ValueError(f"{len(rows)} rows of window {loaded['window']} aren't its {len(wanted)} pinned offsets")
        return len(rows)

    timetable = CronDataIntervalTimetable(schedule, timezone="UTC")
    start = datetime.fromtimestamp(last_ms / 1000, UTC) - timedelta(days=2)
    with DAG(DAG_ID, schedule=timetable, start_date=start, catchup=False, max_active_runs=16) as dag:
        window = KafkaResolveWindowOperator(task_id="resolve", pipeline=KafkaPipeline(DAG_ID, topic)).output
        prove(window, load(window))
    return dag


def manifest_of(window: dict[str, Any]) -> Manifest:
    """A window's manifest in the ledger."""
    ref = WindowRef.from_json(window)
    ledger = ref.ledger()
    return ledger.pinned(ref.window_in(ledger)).manifest


def pinned(window: dict[str, Any]) -> list[Range]:
    """A window's ranges in the ledger, in order of partitions, without the empty ones."""
    ranges = manifest_of(window).ranges
    return [
        (each.partition, each.start_offset, each.end_offset) for each in ranges if each.start_offset < each.end_offset
    ]


def wait_for(file: Path) -> None:
    """Wait until there is a file.

    :raises TimeoutError: it did not come.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {file} within {PATIENCE_S:.0f} s")
        time.sleep(0.2)


def read_exactly(bootstrap_servers: str, topic: str, ranges: Sequence[Range]) -> Iterator[Row]:
    """Every record of some ranges, none of them empty, whose offsets have a record each.

    :raises TimeoutError: one did not come.
    """
    from confluent_kafka import Consumer, TopicPartition

    ends = {partition: end for partition, _, end in ranges}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, start) for partition, start, _ in ranges])
    while ends:
        record = consumer.poll(SILENCE_S)
        if record is None or record.error():
            raise TimeoutError(f"{record and record.error()}; partitions not read to their ends: {ends}")
        partition, offset = record.partition(), record.offset()
        if partition in ends and offset < ends[partition]:
            yield partition, offset, record.timestamp()[1]
        if partition in ends and offset >= ends[partition] - 1:
            del ends[partition]
    consumer.close()


def publish(target: Path, rows: list[Row]) -> bool:
    """Create a window's output, complete or not at all. Returns False where there is one."""
    attempt = target.with_name(f".{target.name}.{os.getpid()}")
    attempt.write_text(json.dumps(rows))
    try:
        target.hardlink_to(attempt)
    except FileExistsError:
        return False
    finally:
        attempt.unlink()
    return True
