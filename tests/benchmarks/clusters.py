"""The brokers that benchmarks use, with their topics, records and groups; each is created when it is first needed.

Set-up isn't measured. KRaft refuses to create more than a few thousand partitions in one request, so a large topic
grows in steps; and a topic of 10,000 partitions has small indexes, because Kafka preallocates them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from dev.cluster import KafkaCluster
from dev.kafka import Broker, BrokerSettings

LATENCY_MS = 5.0
"""Latency in each direction, if there is a network between client and cluster."""
GROUPS = [f"group-{number:04}" for number in range(1_000)]
INSTANT_MS = 1_700_000_000_000
"""The instant of snapshots: half of the records are older."""
HOUR_MS = 3_600_000
USUAL_RECORDS = 4_000_000
"""How many records the windows of Spark's benchmarks have."""

_STEP = 4_000
"""How many partitions are created in one request."""
_COMMITTERS = 8
_COMMITS = 2_000
"""How many commits are in one request: a coordinator writes them as one batch of at most 1 MB."""
_DEADLINE_S = 120
_PATIENT = {
    "log.index.size.max.bytes": "4096",
    # Brokers that create 10,000 partitions on a busy machine are late, not dead.
    "broker.session.timeout.ms": "20000",
    "controller.quorum.fetch.timeout.ms": "10000",
    "controller.quorum.election.timeout.ms": "5000",
}

Say = Callable[[str], None]
"""Shows a line of progress."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to measure on.

    :param name: topic name.
    :param partitions: how many.
    :param records: in each partition that has any, an hour apart. In every other one, all are before
        :data:`INSTANT_MS` (the nearest by half an hour), and in the rest all are after it.
    :param every: only every n-th partition has records.
    :param groups: these groups have committed on every partition: offsets 0 and 1 in turn, or 0 if there is no record.
    """

    name: str
    partitions: int
    records: int = 1
    every: int = 1
    groups: Sequence[str] = ()

    def pieces(self) -> list[TopicPartition]:
        """All partitions."""
        return [TopicPartition(self.name, number) for number in range(self.partitions)]

    def with_records(self) -> range:
        """Numbers of the partitions that have records."""
        return range(0, self.partitions, self.every)


POLLED = Topic("polled", 100, records=4, groups=GROUPS)
"""The topic for polls of very many groups."""
WAITED = Topic("waited", 20, records=4, groups=GROUPS[:50])
"""The topic that deferred tasks wait for."""
THOUSAND = Topic("thousand", 1_000, groups=("reader-of-thousand",))
WIDE = Topic("wide", 10_000, every=4, groups=("reader-of-wide",))


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of Spark's benchmarks.

    :param records: how many records the windows have.
    :param rounds: how many rounds are counted.
    """

    records: int = USUAL_RECORDS
    rounds: int = 7

    def part(self, usual: int) -> int:
        """``usual``, scaled to the number of records; at least 1."""
        return max(1, usual * self.records // USUAL_RECORDS)


class Clusters:
    """Brokers, alone and behind proxies: a context manager, which ends those that were started.

    :param say: shows progress.
    """

    def __init__(self, say: Say, sizes: Sizes = Sizes()) -> None:
        self.say = say
        self.sizes = sizes
        self._running = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @cached_property
    def single(self) -> Broker:
        """One broker, with :data:`POLLED` and its groups."""
        self.say("starting one broker")
        broker = self._running.enter_context(Broker(BrokerSettings(name="bench", heap_mb=1024)))
        self._fill(broker.bootstrap_servers, POLLED)
        return broker

    @cached_property
    def records(self) -> Broker:
        """One broker, for very many records."""
        self.say("starting one broker for records")
        return self._running.enter_context(Broker(BrokerSettings(name="bench-records", heap_mb=1024)))

    @cached_property
    def proxied(self) -> Broker:
        """One broker behind a proxy, with :data:`WAITED` and its groups."""
        self.say("starting one broker behind a proxy")
        broker = self._running.enter_context(Broker(BrokerSettings(name="bench-waits", proxied=True)))
        self._fill(broker.bootstrap_servers, WAITED)
        return broker

    @cached_property
    def three(self) -> KafkaCluster:
        """Three brokers behind proxies, with all topics and groups."""
        self.say("starting three brokers")
        cluster = KafkaCluster(name="bench", properties=_PATIENT, proxied=True, heap_mb=1024)
        self._running.enter_context(cluster)
        self._fill(cluster.bootstrap_servers, POLLED, THOUSAND, WIDE)
        return cluster

    def _fill(self, bootstrap_servers: str, *topics: Topic) -> None:
        self.say(f"creating {sum(each.partitions for each in topics):,} partitions")
        for topic in topics:
            create(bootstrap_servers, topic)
        wait_for_leaders(bootstrap_servers, topics)
        self.say("writing records")
        write(bootstrap_servers, topics)
        self.say(f"committing for {sum(len(each.groups) for each in topics):,} groups")
        for topic in topics:
            commit(bootstrap_servers, topic)


def client(bootstrap_servers: str, timeout_s: float = 60.0) -> OffsetsClient:
    """One of our clients."""
    return OffsetsClient(ClientSettings(tuple(bootstrap_servers.split(","))), timeout_s=timeout_s)


def create(bootstrap_servers: str, topic: Topic, configs: Mapping[str, str] | None = None) -> None:
    """Create a topic without replicas, step by step."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    asked = {"num_partitions": min(topic.partitions, _STEP), "replication_factor": 1}
    admin.create_topics(
        {topic.name: asked | {"configs": {"min.insync.replicas": "1", **(configs or {})}}},
        timeout_ms=_DEADLINE_S * 1000,
    )
    for count in range(2 * _STEP, topic.partitions + _STEP, _STEP):
        admin.create_partitions({topic.name: min(count, topic.partitions)}, timeout_ms=_DEADLINE_S * 1000)
    admin.close()


def wait_for_leaders(bootstrap_servers: str, topics: Iterable[Topic]) -> None:
    """Wait until every partition answers: the leader of a new partition may not know yet that it is the leader.

    :raises TimeoutError: when some partitions don't answer in time.
    """
    give_up = time.monotonic() + _DEADLINE_S
    with client(bootstrap_servers, timeout_s=30.0) as ours:
        while True:
            extents = ours.log_extents(piece for topic in topics for piece in topic.pieces())
            if not extents.failures():
                return
            if time.monotonic() > give_up:
                raise TimeoutError(f"partitions have no leader after {_DEADLINE_S} s: {extents.failures()[:3]}")
            time.sleep(0.5)


def write(bootstrap_servers: str, topics: Iterable[Topic]) -> None:
    """Write the records of some topics."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=50)
    for topic in topics:
        for turn, partition in enumerate(topic.with_records()):
            first_ms = INSTANT_MS + (HOUR_MS // 2 if turn % 2 else -HOUR_MS // 2)
            for number in range(topic.records):
                # Away from the instant: where the first record is older, all are.
                moment_ms = first_ms + number * HOUR_MS * (1 if turn % 2 else -1)
                producer.send(topic.name, b"record", partition=partition, timestamp_ms=moment_ms)
    producer.flush(timeout=_DEADLINE_S)
    producer.close()


def commit(bootstrap_servers: str, topic: Topic) -> None:
    """Commit for the groups of a topic, several groups at a time."""
    filled = set(topic.with_records())
    pieces = [CommittedOffset(*key, int(key.partition in filled) * (key.partition % 2)) for key in topic.pieces()]
    requests = [CommittedOffsets(pieces[start : start + _COMMITS]) for start in range(0, len(pieces), _COMMITS)]

    def work(groups: Sequence[str]) -> None:
        with client(bootstrap_servers) as ours:
            for group in groups:
                for request in requests:
                    ours.commit_offsets(group, request).raise_for_errors()

    shares = [topic.groups[start::_COMMITTERS] for start in range(_COMMITTERS)]
    with ThreadPoolExecutor(_COMMITTERS) as threads:
        list(threads.map(work, [share for share in shares if share]))
