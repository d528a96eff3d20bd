"""Partitions grouped by topic, which is how most requests carry them."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_offsets.offsets.partitions import TopicPartition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions by topic, each partition once, all in order: brokers refuse duplicates."""
    topics: dict[str, list[TopicPartition]] = {}
    for each in sorted(dict.fromkeys(partitions)):  # mostly in order already, which a set would lose
        topics.setdefault(each.topic, []).append(each)
    return topics
