"""Workload: what topics, producers, transactions and groups do to a cluster while it is asked for offsets."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Protocol

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition as KafkaPartition
from kafka.errors import KafkaError, TopicAlreadyExistsError
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupDescription,
    GroupOffsets,
)
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.lag import GroupLag
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from dev import raw_client
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S, wait_until

TIMEOUT_S = 20.0
"""Deadline of a call that is to be answered."""
T0 = 1_735_689_600_000
"""2025-01-01T00:00:00Z in Unix milliseconds: when the records of old times begin."""
HOUR_MS = 3_600_000


class Kafka(Protocol):
    """A cluster or a broker."""

    @property
    def bootstrap_servers(self) -> str: ...


class HasError(Protocol):
    """An element of an answer."""

    @property
    def error(self) -> ResponseError | None: ...


def connected_client(bootstrap_servers: str, timeout_s: float = TIMEOUT_S, **config: str) -> OffsetsClient:
    """A client with some keys of librdkafka beside ``bootstrap.servers``, whose dots are underscores here."""
    keys: dict[str, object] = {"bootstrap.servers": bootstrap_servers}
    keys |= {key.replace("_", "."): value for key, value in config.items()}
    return OffsetsClient(ClientSettings.from_config(keys), timeout_s=timeout_s)


def new_name(kind: str) -> str:
    return f"{kind}-{os.urandom(4).hex()}"


def admin_of(kafka: Kafka) -> Any:
    """An administrator for a ``with`` block."""
    return closing(connect(KafkaAdminClient, bootstrap_servers=kafka.bootstrap_servers))


def new_topic(
    kafka: Kafka,
    partitions: int = 1,
    *,
    name: str | None = None,
    replicas: Sequence[Sequence[int]] | None = None,
    config: Mapping[str, str] | None = None,
) -> str:
    """A new topic, known to every broker that answers, with a leader for each partition.

    :param partitions: how many, with one replica each on whatever broker.
    :param replicas: the brokers of each partition instead, the leader first.
    """
    name = name or new_name("topic")
    layout: dict[str, Any] = {"num_partitions": partitions, "replication_factor": 1}
    if replicas is not None:
        layout = {"assignments": {number: list(each) for number, each in enumerate(replicas)}}
    # The name is new: if it exists, the client has sent its request again, as a busy broker answered late.
    with admin_of(kafka) as admin, suppress(TopicAlreadyExistsError):
        admin.create_topics({name: {**layout, "configs": {"min.insync.replicas": "1", **(config or {})}}})
    wait_until_known(kafka, name, len(replicas) if replicas is not None else partitions)
    return name


def wait_until_known(kafka: Kafka, topic: str, partitions: int) -> None:
    """Wait until every broker that answers knows so many partitions of a topic and their leaders."""

    def known() -> bool:
        for address in kafka.bootstrap_servers.split(","):
            with suppress(OSError, EOFError):
                (found,) = raw_client.metadata(address, [topic]).topics
                leaders = [each.leader_id for each in found.partitions]
                if len(leaders) != partitions or min(leaders, default=0) < 0:
                    return False
        return True

    wait_until(known, f"every broker knows {partitions} partitions of {topic}")


def produce(
    kafka: Kafka, topic: str, partition: int = 0, count: int = 1, *, timestamps: Iterable[int | None] = ()
) -> list[int]:
    """Offsets of new records, in order, each in a batch of its own.

    :param timestamps: of each record, Unix milliseconds; in place of ``count`` records of now.
    """
    stamps = list(timestamps) or [None] * count
    with closing(connect(KafkaProducer, bootstrap_servers=kafka.bootstrap_servers, acks="all")) as producer:
        return [send(producer, topic, partition, timestamps=[each])[0] for each in stamps]


def records(kafka: Kafka, topic: str, partition: int = 0, *, config: Mapping[str, Any] | None = None) -> list[Any]:
    """All records of a partition up to its high watermark, as a consumer of every record reads them."""
    key = KafkaPartition(topic, partition)
    with closing(connect(KafkaConsumer, bootstrap_servers=kafka.bootstrap_servers, **(config or {}))) as consumer:
        consumer.assign([key])
        consumer.seek_to_beginning(key)
        end = consumer.end_offsets([key])[key]
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while consumer.position(key) < end and time.monotonic() < deadline:
            found += consumer.poll(timeout_ms=200).get(key, [])
    return found


def new_compacted_topic(kafka: Kafka, *, name: str | None = None) -> str:
    """20 offsets, an hour apart, of which the cleaner has removed some records of the only key."""
    config = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
    topic = new_topic(kafka, name=name, config={**config, "delete.retention.ms": "0"})
    with closing(connect(KafkaProducer, bootstrap_servers=kafka.bootstrap_servers)) as producer:
        for number in range(20):
            stamp = T0 + number * HOUR_MS
            producer.send(topic, key=b"key", value=b"value", timestamp_ms=stamp, partition=0).get(timeout=PATIENCE_S)
    wait_until(lambda: len(records(kafka, topic)) < 20, "the cleaner has removed records")
    return topic


@contextmanager
def transactional_producer(kafka: Kafka, **config: Any) -> Iterator[Any]:
    """A producer in a transaction, which is aborted at the end if it is still open then."""
    producer = connect(
        KafkaProducer, bootstrap_servers=kafka.bootstrap_servers, transactional_id=new_name("transaction"), **config
    )
    with closing(producer):
        producer.init_transactions()
        producer.begin_transaction()
        yield producer
        with suppress(KafkaError):  # there may be none to abort
            producer.abort_transaction()


def send(producer: Any, topic: str, partition: int = 0, *, timestamps: Sequence[int | None] = (None,)) -> list[int]:
    """Offsets of what a producer has sent, once the broker has it."""
    sent = [producer.send(topic, b"value", partition=partition, timestamp_ms=each) for each in timestamps]
    return [each.get(timeout=PATIENCE_S).offset for each in sent]


@contextmanager
def group_member(kafka: Kafka, group: str, topics: Sequence[str], **options: Any) -> Iterator[Any]:
    """A classic consumer that is an active member of a group, has read nothing, and commits nothing by itself."""
    consumer = connect(
        KafkaConsumer,
        *topics,
        group_id=group,
        bootstrap_servers=kafka.bootstrap_servers,
        enable_auto_commit=False,
        **options,
    )
    with closing(consumer):
        deadline = time.monotonic() + PATIENCE_S
        # A member that doesn't know a topic yet assigns nothing of it to anybody, and is content with that.
        while not all(map(consumer.partitions_for_topic, topics)) and time.monotonic() < deadline:
            time.sleep(0.1)
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(timeout_ms=100, max_records=1)
        assert consumer.assignment()
        yield consumer


def latest(client: OffsetsClient, partitions: Iterable[TopicPartition]) -> ListedOffsets:
    """Where the logs end, undecided records included."""
    return client.list_offsets(partitions, OffsetSpec.LATEST, isolation_level=IsolationLevel.READ_UNCOMMITTED)


def commit(client: OffsetsClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    commits = CommittedOffsets(CommittedOffset(*key, offset) for key, offset in offsets.items())
    client.commit_offsets(group, commits).raise_for_errors()


def commits_of(
    client: OffsetsClient, group: str, partitions: Iterable[TopicPartition] | None = None, **options: Any
) -> GroupOffsets:
    """What one group has committed, there or everywhere."""
    found = client.committed_offsets({group: partitions}, **options).lookup(group)
    assert found is not None
    return found


def lag_of(client: OffsetsClient, group: str, **options: Any) -> GroupLag:
    found = client.group_lags([group], **options).lookup(group)
    assert found is not None
    return found


def description_of(client: OffsetsClient, group: str) -> GroupDescription:
    found = client.describe_groups([group]).lookup(group)
    assert found is not None
    return found


def error_names(answer: Iterable[HasError]) -> list[str | None]:
    """Kafka's name for each element's error, in order; None where there is none."""
    return [None if each.error is None else each.error.name for each in answer]


def coordinator_id(kafka: Kafka, group: str) -> int:
    """The broker that coordinates a group; one is found for a group that is new."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    for address in kafka.bootstrap_servers.split(","):
        with suppress(OSError, EOFError), raw_client.connected(address) as connection:
            raw_client.send(connection, request, 4)
            (found,) = raw_client.receive(connection, FindCoordinatorResponse, 4).coordinators
            if found.error_code == 0:
                return int(found.node_id)
    raise LookupError(f"no broker knows a coordinator of {group}")


def delete_records(cluster: Kafka, offsets: Mapping[TopicPartition, int]) -> None:
    """Move log starts, as retention does."""
    with closing(connect(KafkaAdminClient, bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.delete_records({KafkaPartition(*key): offset for key, offset in offsets.items()})
