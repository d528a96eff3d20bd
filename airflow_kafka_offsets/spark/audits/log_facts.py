"""What Kafka says about an audited window's partitions: where their logs start, and how far the writer's group is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError, TopicChangedError, shorten
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, by_topic
from airflow_kafka_offsets.spark.kafka.java_clients import KafkaClients


def log_starts(clients: KafkaClients, ranges: Collection[LogRange]) -> dict[TopicPartition, int]:
    """The first offset that each log of some ranges still has (ListOffsets, key 2).

    :raises TopicChangedError: when a log ends before a range does.
    """
    java: Any = clients.spark._jvm
    ends = {TopicPartition.of(each): each.end_offset for each in sorted(ranges)}
    places = {key: java.org.apache.kafka.common.TopicPartition(*key) for key in ends}
    with clients.consumer() as consumer:
        starts, now = (ask(list(places.values())) for ask in (consumer.beginningOffsets, consumer.endOffsets))
        found = {key: (int(starts.get(place)), int(now.get(place))) for key, place in places.items()}
    short = [f"{key} (at {found[key][1]}, before {end})" for key, end in ends.items() if found[key][1] < end]
    if short:
        raise TopicChangedError(
            f"Logs end before the window does: {shorten(short)}. They were truncated, by an unclean leader election or "
            "because their topic was re-created, so nobody can tell what they had there. kafka-offsets ledger restart "
            "begins them anew."
        )
    return {key: start for key, (start, _) in found.items()}


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
