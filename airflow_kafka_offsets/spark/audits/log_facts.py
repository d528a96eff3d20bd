"""What Kafka says about an audited window's partitions: where their logs start, whether they are compacted, and how far
the writer's group is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark

from airflow_kafka_offsets.errors import ConfigurationError, TopicChangedError, shorten
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, by_topic
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.spark.kafka.java_clients import KafkaClients, is_kafka_error

_UNTOLD = ("TopicAuthorizationException", "UnsupportedVersionException")


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
