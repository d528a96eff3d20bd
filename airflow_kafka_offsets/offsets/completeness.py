"""Completeness: has a moment passed on every partition of a topic?

Kafka has no such answer; evidence has to do. A record at or after the instant shows that its partition has got there. A
partition without one is idle, and the user says what idle means.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.offsets.listed import ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition

_IDLE = (ListOutcome.EMPTY_LOG, ListOutcome.ALL_OLDER, ListOutcome.NO_RECORD)


@dataclass(frozen=True, slots=True)
class Completeness:
    """How far a topic has passed an instant.

    :param passed: partitions with a record at or after it.
    :param assumed: idle partitions that count as passed, since the instant is long enough ago (E8).
    :param waiting: idle partitions that don't.
    """

    passed: tuple[TopicPartition, ...]
    assumed: tuple[TopicPartition, ...]
    waiting: tuple[TopicPartition, ...]

    @property
    def complete(self) -> bool:
        """Whether no partition is waited for."""
        return not self.waiting

    def __str__(self) -> str:
        total = len(self.passed) + len(self.assumed) + len(self.waiting)
        text = f"{len(self.passed)} of {total} partitions have passed"
        if self.assumed:
            text += f"; assumed idle: {shorten(map(str, self.assumed))}"
        if self.waiting:
            text += f"; waiting for {shorten(map(str, self.waiting))}"
        return text


def judge_completeness(listed: ListedOffsets, *, elapsed_ms: int, idle_after_ms: int | None) -> Completeness:
    """Sort partitions by whether the instant has passed on them.

    :param listed: the first record at or after the instant, per partition.
    :param elapsed_ms: how long ago the instant is, in milliseconds.
    :param idle_after_ms: an idle partition counts as passed once the instant is that long ago; None never.
    :raises OffsetsError: when a partition can't be asked, or its broker answers with an older record (E37).
    """
    listed.raise_for_errors().refuse_older_answers()
    idle_counts = idle_after_ms is not None and elapsed_ms >= idle_after_ms
    # A record that isn't visible yet is no idleness: it is about to come (E13).
    assumed = _with(listed, *_IDLE) if idle_counts else ()
    passed = _with(listed, ListOutcome.FOUND)
    waiting = (key for key in listed.partitions() if key not in {*passed, *assumed})
    return Completeness(passed, assumed, tuple(waiting))


def _with(listed: ListedOffsets, *outcomes: ListOutcome) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, each.partition) for each in listed if each.outcome in outcomes)
