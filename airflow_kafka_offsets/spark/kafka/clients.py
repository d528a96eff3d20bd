"""Kafka's own Java clients on the driver, which Spark's connector brings: for what the driver asks Kafka besides the
read.

They get the reader's own options, credentials included, so they reach the same brokers as the executors. Kafka's
clients hide credentials when they log their settings. Under Spark Connect there is no JVM, and so no client.

Whether this Kafka is the window's, the same cluster and the same topics, is asked before the read, so that a wrong
topic costs no time; and again after everything is read and written, which is the proof: see
:mod:`.windows.topic_identity`. Each time uses new clients that start from the bootstrap address. Whether a log was
truncated is asked before the result is published.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]  # comes with pyspark
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import (
    AuthenticationError,
    ConfigurationError,
    TopicChangedError,
    UncheckedSourceError,
    shorten,
)
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, by_topic
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, topics_read
from airflow_kafka_offsets.offsets.windows.topic_identity import Source, identity_problems
from airflow_kafka_offsets.spark.session.session import JAVA_ERRORS, java_classes, java_throwables, words

_PREFIX = "kafka."
_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_CONSUMER = {
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    # An assigned consumer that commits nothing needs no group, and so no ACL for one.
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "none",
}
_GROUP = ("group.id", "group.instance.id", "group.protocol")
_ERRORS = "org.apache.kafka.common.errors."
_REFUSED = tuple(f"{_ERRORS}{kind}AuthenticationException" for kind in ("", "Sasl", "Ssl"))
_SETTLES_S = 5.0
"""How long a topic must be unknown before it counts as gone, because a broker's metadata may lag behind."""
_PAUSE_S = 0.5
_UNTOLD = ("TopicAuthorizationException", "UnsupportedVersionException")


@dataclass(frozen=True, slots=True)
class KafkaClients:
    """Clients of the cluster that a reader reads; each is closed after its block. Inside the block, a failed request
    raises UncheckedSourceError, and brokers that refuse the credentials raise AuthenticationError. ``options`` are the
    reader's: those that begin with ``kafka.`` are the clients' settings."""

    spark: SparkSession
    options: Mapping[str, str] = field(repr=False)

    def admin(self) -> AbstractContextManager[Any]:
        """An ``org.apache.kafka.clients.admin.Admin``."""
        return _closed_afterwards(self._admin)

    def consumer(self) -> AbstractContextManager[Any]:
        """An ``org.apache.kafka.clients.consumer.KafkaConsumer`` without a group."""
        return _closed_afterwards(self._consumer)

    def _admin(self) -> Any:
        # The admin client would log a warning for each consumer-only setting, every time.
        consumers = self._class("org.apache.kafka.clients.consumer.ConsumerConfig").configNames()
        admins = self._class("org.apache.kafka.clients.admin.AdminClientConfig").configNames()
        settings = {
            name: value
            for name, value in self._settings().items()
            if admins.contains(name) or not consumers.contains(name)
        }
        return self._class("org.apache.kafka.clients.admin.Admin").create(settings)

    def _consumer(self) -> Any:
        settings = {name: value for name, value in self._settings().items() if name not in _GROUP} | _CONSUMER
        return self._class("org.apache.kafka.clients.consumer.KafkaConsumer")(settings)

    def _settings(self) -> dict[str, str]:
        return {name[len(_PREFIX) :]: value for name, value in self.options.items() if name.lower().startswith(_PREFIX)}

    def _class(self, name: str) -> Any:
        """A Java class, to call or for its static methods; refused if the driver doesn't have it."""
        found: Any = self.spark._jvm
        for part in name.split("."):
            found = getattr(found, part)
        if isinstance(found, JavaPackage):
            raise ConfigurationError(
                f"Spark's driver has no class {name}, which it needs to check that it reads the topics that were "
                "resolved. Spark's Kafka connector brings it (spark.jars.packages); shaded jars don't."
            )
        return found


def is_kafka_error(error: Exception, name: str) -> bool:
    """Whether Java threw this Kafka error (such as ``UnknownTopicOrPartitionException``), or it was the cause."""
    return _ERRORS + name in java_classes(error)


@contextmanager
def _closed_afterwards(make: Callable[[], Any]) -> Iterator[Any]:
    try:
        client = make()
        try:
            yield client
        finally:
            client.close()
    except JAVA_ERRORS as error:
        causes = list(java_throwables(error))
        # The innermost cause gives the reason: the others only say that something failed.
        said = str(causes[-1].toString()).splitlines()[0].rstrip(".") if causes else words(error)
        text = f"The driver can't ask Kafka: {said}"
        if not set(_REFUSED).isdisjoint(java_classes(error)):
            raise AuthenticationError(f"{text}. Check the credentials among the reader's options.") from error
        raise UncheckedSourceError(
            f"{text}. Without its answer nothing proves that the window's own records were read: nothing is "
            "published. A retry asks again."
        ) from error


def source_of(clients: KafkaClients, manifest: Manifest, outcome: str) -> Source:
    """The cluster and the topics that are read, as Kafka says now.

    :param outcome: what has been done by now, as a sentence for messages.
    :raises TopicChangedError: it is another cluster or topic, or may be.
    :raises UncheckedSourceError: when Kafka can't be asked.
    :raises AuthenticationError: when the brokers refuse the credentials.
    """
    with clients.admin() as admin:
        cluster_id = str(admin.describeCluster().clusterId().get())
        topic_ids = _topic_ids(admin, manifest, outcome)
    known = {name for name, topic in manifest.topics.items() if topic.topic_id is not None}
    silent = sorted(topic for topic, found in topic_ids.items() if found is None and topic in known)
    if silent and cluster_id == manifest.cluster_id:
        raise UncheckedSourceError(
            f"The broker that answered is too old to give the id of {shorten(silent)}, which another "
            f"broker of its cluster has given. {outcome} A retry may reach a newer one."
        )
    problems = list(identity_problems(manifest, topics_read(manifest), cluster_id, topic_ids))
    if problems:
        raise TopicChangedError(
            f"Window {manifest.window} isn't from the Kafka that the reader's options lead to: "
            f"{shorten(problems)}. {outcome} Correct kafka.bootstrap.servers if it is the wrong cluster. If a "
            "topic was re-created, its old records are gone: kafka-offsets ledger restart begins the new one."
        )
    return Source(cluster_id, topic_ids, now_ms())


def _topic_ids(admin: Any, manifest: Manifest, outcome: str) -> dict[str, str | None]:
    names = topics_read(manifest)
    deadline = time.monotonic() + _SETTLES_S
    while True:
        try:
            described = admin.describeTopics(names).allTopicNames().get()
            return {name: _uuid(described.get(name).topicId()) for name in names}
        except Py4JJavaError as error:
            if not is_kafka_error(error, "UnknownTopicOrPartitionException"):
                raise
            if time.monotonic() > deadline:
                raise TopicChangedError(
                    f"A topic of window {manifest.window} ({shorten(names)}) no longer exists in the Kafka "
                    f"that the reader's options lead to. {outcome} Was it deleted, or is it another cluster?"
                ) from error
        time.sleep(_PAUSE_S)


def _uuid(topic_id: Any) -> str | None:
    """Kafka's Base64 id in the usual UUID form; None for the zeros of a broker without topic ids."""
    found = UUID(bytes=urlsafe_b64decode(f"{topic_id.toString()}=="))
    return str(found) if found.int else None


class LogFacts(NamedTuple):
    """What Kafka says about the logs of some ranges.

    :param starts: the first offset that each still has.
    :param compacted: the topics that are compacted, as far as their settings may be described.
    """

    starts: Mapping[TopicPartition, int]
    compacted: Collection[str]


def log_facts(clients: KafkaClients, ranges: Collection[LogRange], level: IsolationLevel) -> LogFacts:
    """Ask about logs (ListOffsets, key 2; DescribeConfigs, key 32).

    :param level: which end counts.
    :raises TopicChangedError: when a log ends before a range does.
    """
    java: Any = clients.spark._jvm.org.apache.kafka  # type: ignore[union-attr]
    ends = {TopicPartition.of(each): each.end_offset for each in sorted(ranges)}
    specs = java.clients.admin.OffsetSpec
    places = {key: java.common.TopicPartition(*key) for key in ends}
    options = java.clients.admin.ListOffsetsOptions(java.common.IsolationLevel.valueOf(str(level).upper()))
    with clients.admin() as admin:

        def offsets(spec: Any) -> dict[TopicPartition, int]:
            found = admin.listOffsets(dict.fromkeys(places.values(), spec), options).all().get()
            return {key: int(found.get(place).offset()) for key, place in places.items()}

        starts, now = offsets(specs.earliest()), offsets(specs.latest())
        compacted = [topic for topic in by_topic(ends) if "compact" in _cleanup_policy(java, admin, topic)]
    short = [f"{key} (at {now[key]}, before {end})" for key, end in ends.items() if now[key] < end]
    if short:
        raise TopicChangedError(
            f"Logs end before the window does: {shorten(short)}. They were truncated, by an unclean leader election or "
            "because their topic was re-created, so nobody can tell what they had there. kafka-offsets ledger restart "
            "begins them anew."
        )
    return LogFacts(starts, compacted)


def _cleanup_policy(java: Any, admin: Any, topic: str) -> str:
    """Empty if it may not be described, or the broker doesn't tell."""
    place = java.common.config.ConfigResource(java.common.config.ConfigResource.Type.TOPIC, topic)
    try:
        policy = admin.describeConfigs([place]).all().get().get(place).get("cleanup.policy")
    except Py4JJavaError as error:
        if not any(is_kafka_error(error, name) for name in _UNTOLD):
            raise
        return ""
    return "" if policy is None else str(policy.value())


def commits_of(clients: KafkaClients, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """How far a group has come (OffsetFetch, key 9); 0 where it has committed nothing yet.

    :raises ConfigurationError: when it has no commit on any of these partitions.
    """
    with clients.admin() as admin:
        found = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
        commits = {
            TopicPartition(str(place.topic()), int(place.partition())): int(found[place].offset())
            for place in found
            if found[place] is not None
        }
    if commits.keys().isdisjoint(partitions):
        raise ConfigurationError(
            f"Group {group} has no commits on {', '.join(by_topic(partitions))}, so it can't be told how far the "
            "table's writer is. Is that its name? A sink connector's group is connect-<its name>. If the writer "
            "commits elsewhere, leave the group out: then what isn't in the table is missing."
        )
    return {key: commits.get(key, 0) for key in partitions}
