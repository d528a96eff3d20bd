"""What tests of the retention watch do to a ledger and to a topic, and what they read of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.ledger import decisions
from airflow_kafka_offsets.ledger.decisions import ResolvedOffsets
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.boundaries import at_latest
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, OffsetSnapshot

Watch = Callable[..., list[dict[str, Any]]]


def store(client: OffsetsClient, ledger: Ledger, topic: str, offset: int) -> None:
    """Store a snapshot of another time, when a log ended there."""
    survey, level = client.survey([topic]), IsolationLevel.READ_COMMITTED
    boundaries = {key: replace(each, offset=offset) for key, each in at_latest(survey.extents, level).items()}
    latest = OffsetSnapshot(AsOf(AsOfKind.LATEST), survey.cluster_id, level, now_ms(), survey.facts, boundaries)
    ledger.create([topic], survey.cluster_id, level)
    asked = ResolvedOffsets(ledger.state.number, now_ms(), latest=latest)
    ledger.change(lambda state: decisions.place(state, asked, ledger.contents))


def timed(watch: Watch) -> tuple[list[dict[str, Any]], int]:
    """What the watch tells, and how many milliseconds it takes."""
    started_ms = now_ms()
    return watch(), now_ms() - started_ms


def keep_for(admin: KafkaAdminClient, topic: str, retention_ms: int) -> None:
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": str(retention_ms)})])


def log_start(client: OffsetsClient, topic: str) -> int:
    (extent,) = client.log_extents([TopicPartition(topic, 0)])
    assert extent.log_start_offset is not None
    return extent.log_start_offset


def deleted_at_ms(client: OffsetsClient, topic: str) -> int:
    """When the log start is first seen to have moved, asked every 20 ms."""
    while not log_start(client, topic):
        time.sleep(0.02)
    return now_ms()
