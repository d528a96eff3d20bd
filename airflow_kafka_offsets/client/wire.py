"""Wire formats: -1 for None, and partitions as the rows that kafka-python accepts instead of its own objects."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic


def or_none(number: int | None) -> int | None:
    """None for -1, and for a field that the version doesn't have."""
    return None if number is None or number < 0 else number


def or_minus_one(number: int | None) -> int:
    """-1 for None."""
    return -1 if number is None else number


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """A row per topic: its name and its partition numbers, in order."""
    return [(topic, [piece.partition for piece in pieces]) for topic, pieces in by_topic(partitions).items()]
