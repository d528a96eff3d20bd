"""A real schema registry, and topics whose values are written by Confluent's own serializers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark.sql import Row, SparkSession

from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.spark.load import load
from airflow_kafka_offsets.spark.pinned import pinned_window
from airflow_kafka_offsets.spark.session.conf import ATTEMPT, COMMIT, MANIFEST, PREFIX, SHA256, RunConf
from airflow_kafka_offsets.spark.session.session import held
from airflow_kafka_offsets.spark.table_load import TableLoad
from dev.kafka import Broker
from dev.schema_registry import SchemaRegistry
from tests.integration.kafka_clients import connect
from tests.unit.spark.manifests import FIVE_MS

Headers = list[tuple[str, bytes]]
Sent = tuple[bytes | None, bytes | None, Headers]
"""Key, value, headers."""


@pytest.fixture
def topic_name() -> str:
    """A topic's name that is in no subject yet."""
    return f"typed-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def send(admin: Any, broker: Broker, topic_name: str) -> Callable[..., None]:
    """Make the topic, or another one, with these records in its only partition."""

    def make(records: Sequence[Sent], topic: str = topic_name) -> None:
        options = {"num_partitions": 1, "replication_factor": 1}
        admin.create_topics({topic: options}, wait_for_metadata=True)
        with closing(connect(KafkaProducer, bootstrap_servers=broker.bootstrap_servers)) as producer:
            for key, value, headers in records:
                producer.send(topic, value, key, partition=0, timestamp_ms=FIVE_MS, headers=headers)
            producer.flush()

    return make


@pytest.fixture
def run_load(spark: SparkSession, registry: SchemaRegistry) -> Callable[..., RunResult]:
    """Run the ready-made load as its driver does, with the confs of a run and a command line."""

    def run(conf: RunConf, *words: str, url: str | None = None, **options: str) -> RunResult:
        confs = {
            MANIFEST: conf.manifest_uri,
            SHA256: conf.sha256,
            ATTEMPT: str(conf.attempt),
            COMMIT: str(conf.commit),
            **{PREFIX + name: value for name, value in conf.kafka.items()},
            f"{PREFIX}registry.url": url or registry.url,
            **{PREFIX + name: value for name, value in options.items()},
        }
        with ExitStack() as stack:
            for name, value in confs.items():
                stack.enter_context(held(spark, name, lambda _, value=value: value))  # type: ignore[misc]
            return load(pinned_window(spark), TableLoad.of_words(words))

    return run


def plain(value: Any) -> Any:
    """A value as Python has it, without Spark's types."""
    if isinstance(value, Row):
        return {name: plain(one) for name, one in value.asDict().items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value


def folder_of(table: str) -> Path:
    """A table's folder."""
    return Path(table.removeprefix("file://"))
