"""A pipeline with every kind of trouble, which is what people who are on call open the page for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import Boundary, Evidence, OffsetSnapshot
from tests.integration.ledger.loads import begin, pin, publish_result, store_result, verify
from tests.integration.ledger.results import result_of
from tests.unit.offsets.builders import HOUR_MS, snapshot

PIPELINE = "orders"
TOPICS = {"orders": 12, "<script>": 2}
"""Partitions by topic. The second one's name is one that Kafka refuses, and a file could hold."""
HOURS = 30
RETENTION_MS = 48 * HOUR_MS
FIRST = 100_000
HOLE, AGAIN, LOST, FAILED, LOADING, PROVED, PUBLISHED, PINNED = 8, 12, 22, 25, 26, 27, 28, 29
"""The hours that aren't simply verified; one was loaded again."""
LOST_OFFSETS = 25
RUNNING_MS = 12 * 60_000
"""How long ago the load began that is running."""
MESSAGE = "The output has 957 of 982 rows."
"""What the driver said whose load failed."""


@cache
def t0_ms() -> int:
    """Where the first hour starts: the last one has just ended when this is asked for first, as the ledgers are made.
    The module may have been imported long before."""
    return now_ms() // HOUR_MS * HOUR_MS - HOURS * HOUR_MS


def hour_ms(hour: int) -> int:
    """When an hour starts."""
    return t0_ms() + hour * HOUR_MS


def window(hour: int) -> str:
    return window_id(hour_ms(hour), hour_ms(hour + 1))


def offset_at(partition: int, hour: int) -> int:
    """Where an hour starts on a partition of ``orders``: some are busier than others, and so are days."""
    return FIRST + sum(40 + 7 * partition + 30 * (each % 24 in range(6, 18)) for each in range(hour))


def make_orders(
    root: str,
    pipeline: str = PIPELINE,
    topics: Mapping[str, int] = TOPICS,
    *,
    hours: Sequence[int] = range(HOURS),
    trouble: bool = True,
) -> Ledger:
    """Some hours of some topics, the newest of which ended in this hour.

    :param topics: partitions by name; the busy one is called ``orders``.
    :param trouble: without it, every hour is verified.
    """
    ledger = Ledger(ObjectStoragePath(root), pipeline)
    ledger.create(tuple(topics), "cluster-1", IsolationLevel.READ_COMMITTED)
    for hour in hours:
        if not trouble:
            _prove(ledger, _pin(ledger, topics, hour), hour)
        elif hour != HOLE:
            _bring_on(ledger, _pin(ledger, topics, hour), hour)
    return ledger


def _pin(ledger: Ledger, topics: Mapping[str, int], hour: int) -> Window:
    return pin(ledger, _snapshot(topics, hour), _snapshot(topics, hour + 1))


def _bring_on(ledger: Ledger, pinned: Window, hour: int) -> None:
    """As far as the hour's load has come."""
    if hour == LOADING:
        begin(ledger, pinned, _run(hour), begun_ms=now_ms() - RUNNING_MS)
    elif hour == FAILED:
        attempt = begin(ledger, pinned, _run(hour), begun_ms=_begun_ms(hour))
        files = ledger.attempt(pinned.name, attempt.number)
        files.record_failure(FailureNote("UnprovenError", MESSAGE))
    elif hour == PROVED:
        attempt = begin(ledger, pinned, _run(hour))
        store_result(ledger, pinned, result_of(ledger, pinned, attempt, **_output(pinned)))
    elif hour == PUBLISHED:
        _publish(ledger, pinned, hour)
    elif hour == LOST:
        start = offset_at(3, hour)
        _prove(ledger, pinned, hour, (LogRange("orders", 3, start, start + LOST_OFFSETS),))
    elif hour != PINNED:
        _prove(ledger, pinned, hour)
    if hour == AGAIN:
        ledger.change(lambda state: load_decisions.reload(state, [pinned.name]))
        _prove(ledger, pinned, hour)


def _prove(ledger: Ledger, pinned: Window, hour: int, lost: tuple[LogRange, ...] = ()) -> None:
    _publish(ledger, pinned, hour, lost)
    verify(ledger, ledger.window(pinned.name))


def _publish(ledger: Ledger, pinned: Window, hour: int, lost: tuple[LogRange, ...] = ()) -> None:
    attempt = begin(ledger, pinned, _run(hour), lost, _begun_ms(hour))
    publish_result(
        ledger, pinned, result_of(ledger, pinned, attempt, **_output(pinned)), at_ms=_begun_ms(hour) + 60_000
    )


def _begun_ms(hour: int) -> int:
    """Four minutes after an hour's end its load begins, and takes one more."""
    return hour_ms(hour + 1) + 4 * 60_000


def _run(hour: int) -> dict[str, object]:
    return {"dag_id": "orders_hourly", "run_id": f"scheduled__{hour:02}", "task_id": "load", "try_number": 1}


def _output(pinned: Window) -> dict[str, object]:
    return {"output": f"s3://lake/orders/{pinned.name}", "files": ("part-00000.parquet",), "seconds": 41.0}


def _snapshot(topics: Mapping[str, int], hour: int) -> OffsetSnapshot:
    at_ms = hour_ms(hour)
    taken = snapshot({0: 0}, at_ms=at_ms, resolved_at_ms=at_ms + 60_000)
    boundaries = {
        TopicPartition(topic, number): _boundary(topic, number, hour)
        for topic, count in topics.items()
        for number in range(count)
    }
    facts = {
        topic: TopicFacts(topic, f"id-{topic}", count, "delete", RETENTION_MS, -1, "CreateTime")
        for topic, count in topics.items()
    }
    return replace(taken, topics=facts, boundaries=boundaries, cluster_id="cluster-1")


def _boundary(topic: str, number: int, hour: int) -> Boundary:
    offset = offset_at(number, hour) if topic == "orders" else 10 * hour
    log_start = offset_at(number, max(0, hour - RETENTION_MS // HOUR_MS)) if topic == "orders" else 0
    end = offset + 60  # the log has gone on while the snapshot was made
    return Boundary(topic, number, offset, Evidence.MATCHED, hour_ms(hour), 1, log_start, end, end)
