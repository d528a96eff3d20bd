"""A topic that is re-created under a client that remembers what it has read of the old one (E24)."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaAdminClient
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from dev.kafka import Broker
from tests.integration.client.pieces import A0, Pieces
from tests.integration.client.scripted_answers import batches_are, offsets_are
from tests.integration.conftest import MakeTopic, Produce
from tests.patience import wait_until

T0 = 1_795_240_800_000
LATE_MS = T0 + 3_600_000


def first_late(client: OffsetsClient, topic: str) -> int | None:
    """Offset of the first record from an hour after T0 on."""
    (found,) = client.first_records([ReadPosition(topic, 0, 0)], at_or_after_ms=LATE_MS).raise_for_errors()
    return found.offset


def let_pass(client: OffsetsClient, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the client take its metadata for older than it is."""
    opened = client._opened
    assert opened is not None
    monkeypatch.setattr(opened.leaders, "now_s", lambda: time.monotonic() + seconds)


def test_what_was_not_in_the_old_log_is_found_in_the_new_one(
    broker: Broker, admin: KafkaAdminClient, topic: MakeTopic, produce: Produce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leader and leader epoch are the same. That there was no record before the end is remembered for long."""
    name = topic()
    produce(name, 0, [(T0, None, b"x")] * 3)
    with OffsetsClient(ClientSettings((broker.bootstrap_servers,)), timeout_s=15) as client:
        assert first_late(client, name) is None
        admin.delete_topics([name])
        wait_until(lambda: name not in admin.list_topics(), "the topic is gone")
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        produce(name, 0, [(LATE_MS, None, b"x")] * 3)
        let_pass(client, 61, monkeypatch)
        assert first_late(client, name) == 0


def test_whether_it_is_the_same_one_is_asked_once_a_minute(one: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    one.broker.on(ListOffsetsRequest, offsets_are(0))
    one.broker.on(FetchRequest, batches_are({}, end=0))
    asked = []
    for seconds in (0, 59, 61, 61, 119, 123):
        if seconds:
            let_pass(one.client, seconds, monkeypatch)
        assert first_late(one.client, A0.topic) is None
        asked.append(len(one.asked(MetadataRequest)))
    assert asked == [1, 1, 2, 2, 2, 3]
