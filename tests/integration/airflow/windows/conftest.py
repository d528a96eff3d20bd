"""What tests of windows share: the tasks that make them, what they hold, and a program in Spark's place."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol

import pytest
from kafka import KafkaAdminClient, TopicPartition

from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.operators.resolve import KafkaOffsetSnapshotOperator, KafkaResolveIncrementOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.references import WindowRef
from tests.integration.airflow.conftest import T0_MS, Context, split
from tests.integration.conftest import Record

XCom = dict[str, Any]
Increment = Callable[..., XCom]
Snapshot = Callable[..., XCom]
Said = Callable[[], str]


class DeleteBefore(Protocol):
    def __call__(self, topic: str, offset: int, partition: int = 0) -> None:
        """Move the log start of a partition, as retention does."""


HOUR_S = 3600


def load(window: XCom, **arguments: Any) -> KafkaSparkSubmitOperator:
    return KafkaSparkSubmitOperator(
        task_id="load", window=window, **({"application_args": ["--output", "file:///t"]} | arguments)
    )


def manifest_of(window: XCom) -> Manifest:
    """The manifest that a task's XCom refers to."""
    ref = WindowRef.from_json(window)
    ledger = ref.ledger()
    return ledger.pinned(ref.window_in(ledger)).manifest


def ranges(window: XCom) -> list[tuple[int, int, int]]:
    """Partition, start and end of each range of a window."""
    return [(each.partition, each.start_offset, each.end_offset) for each in manifest_of(window).ranges]


def evidence(window: XCom) -> list[tuple[str, str]]:
    """Why the start and the end of each range are believed."""
    return [(str(each.start_evidence), str(each.end_evidence)) for each in manifest_of(window).ranges]


def stamped(*seconds: float) -> list[Record]:
    """Records so many seconds after T0."""
    return [(T0_MS + int(each * 1000), None, b"x") for each in seconds]


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Said:
    """What tasks have logged since this was last asked."""
    return lambda: "".join(capfd.readouterr())


@pytest.fixture
def delete_before(admin: KafkaAdminClient) -> DeleteBefore:
    def delete(topic: str, offset: int, partition: int = 0) -> None:
        admin.delete_records({TopicPartition(topic, partition): offset})

    return delete


@pytest.fixture
def increment(context: Context) -> Increment:
    """Run the increment operator for a topic, in a Dag run of some name."""

    def run(topic: str, run_id: str, **arguments: Any) -> XCom:
        ti = SimpleNamespace(dag_id="d", run_id=run_id, task_id="t", map_index=-1, try_number=1, max_tries=0)
        of, own = split(arguments)
        pipeline = KafkaPipeline("loads", topic, **of)
        return KafkaResolveIncrementOperator(task_id="t", pipeline=pipeline, **own).execute({**context, "ti": ti})

    return run


@pytest.fixture
def snapshot(context: Context) -> Snapshot:
    """Run the snapshot operator for a topic."""

    def run(topic: str, pipeline: str = "loads", **arguments: Any) -> XCom:
        of, own = split(arguments)
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline=KafkaPipeline(pipeline, topic, **of), **own)
        return operator.execute(context)

    return run
