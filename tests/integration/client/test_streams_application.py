"""Kafka Streams itself (KIP-1071): the lag of its group, whose topology reads a topic of its own making, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from dev import jars
from dev.java import java_command
from dev.java_server import JavaServer
from dev.kafka import KAFKA_VERSION, Broker
from tests.integration.client.cases.workload import lag_of, new_name
from tests.integration.conftest import Produce
from tests.patience import wait_until

pytestmark = pytest.mark.nightly("an application of its own; test_streams_groups.py has such groups")

INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
"""What the word count, of Kafka's own examples, reads and writes. It groups the words by a topic of its own making."""


@pytest.fixture
def group(broker: Broker) -> str:
    return new_name("words")


@pytest.fixture
def application(broker: Broker, admin: KafkaAdminClient, group: str, tmp_path: Path) -> Iterator[JavaServer]:
    """Counts words as a member of the group."""
    topics = {name: {"num_partitions": 2, "replication_factor": 1} for name in (INPUT, OUTPUT)}
    admin.create_topics(topics, wait_for_metadata=True)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "application.id": group,
        "group.protocol": "streams",
        "commit.interval.ms": "100",
        "state.dir": str(tmp_path / "state"),
    }
    (tmp_path / "settings").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    folder = jars.retrieve(
        f"streams-{KAFKA_VERSION}",
        f"org.apache.kafka:kafka-streams-examples:{KAFKA_VERSION}",
        "org.slf4j:slf4j-simple:1.7.36",
    )
    server = JavaServer("Kafka Streams", tmp_path / "log")
    example = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
    server.launch([java_command(), "-Xmx256m", "-cp", jars.classpath(folder), example, str(tmp_path / "settings")])
    yield server
    server.kill()
    admin.delete_topics([INPUT, OUTPUT])


def told(broker: Broker, group: str) -> dict[tuple[str, int], int]:
    """Lag by topic and partition, as Kafka's tool prints it."""
    command = "org.apache.kafka.tools.streams.StreamsGroupCommand"
    text = broker.run_tool(command, "--describe", "--offsets", "--group", group)
    rows = re.findall(rf"^{group}\s+(\S+)\s+(\d+)\s+.*?(\d+)\s*$", text, re.MULTILINE)
    return {(topic, int(partition)): int(lag) for topic, partition, lag in rows}


def test_its_lag_is_on_what_it_reads_and_on_what_it_has_made(
    broker: Broker, client: OffsetsClient, produce: Produce, application: JavaServer, group: str
) -> None:
    for partition in (0, 1):
        produce(INPUT, partition, [(None, None, b"to be or not to be")] * 50)
    made = f"{group}-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"

    def has_read_all() -> bool:
        lag = lag_of(client, group)
        return {each.topic for each in lag.partitions} == {INPUT, made} and lag.total == 0

    wait_until(has_read_all, "it has read all, and what it has made of it")
    application.kill()
    produce(INPUT, 1, [(None, None, b"that is the question")] * 7)
    lag = lag_of(client, group)
    assert {(each.topic, each.partition): each.lag for each in lag.partitions} == told(broker, group)
    assert lag.total == 7
