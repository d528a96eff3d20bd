"""Completeness: has a moment passed on every partition of a topic?

Kafka has no such answer; evidence has to do. A record at or after the instant shows that its partition has got there. A
partition without one is idle, and the user says what idle means. A partition whose end an open transaction holds isn't
complete either way: what stands behind it isn't decided yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.offsets.answers.logs import LogExtents, Producers, holder_text
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

IdlePolicy = Literal["wait", "assume_after", "require_heartbeat", "fail"]
"""What a partition without a record at or after the instant means (E8): see :class:`.conditions.window_complete`."""

CLOCK_MARGIN_MS = 60_000
"""How far the clocks of brokers and of this machine may be apart, and how long an appended record may take to become
visible, in milliseconds. On LogAppendTime topics a moment that is longer ago has passed on all partitions (E6)."""


@dataclass(frozen=True, slots=True)
class Completeness:
    """How far some topics have passed an instant. Each partition is in one of the lists.

    :param passed: partitions with a record at or after it.
    :param by_clock: partitions of LogAppendTime topics that have passed by the brokers' time (E6).
    :param assumed: idle partitions that count as passed by the user's policy (E8).
    :param idle: the other idle partitions.
    :param undecided: partitions with records that aren't visible yet: an open transaction holds them back (E13), or
        they aren't replicated.
    """

    passed: tuple[TopicPartition, ...]
    by_clock: tuple[TopicPartition, ...] = ()
    assumed: tuple[TopicPartition, ...] = ()
    idle: tuple[TopicPartition, ...] = ()
    undecided: tuple[TopicPartition, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether no partition is waited for."""
        return not self.idle and not self.undecided

    def describe(self, producers: Producers) -> str:
        """In words.

        :param producers: whose transactions are open on the undecided partitions.
        """
        passed = len(self.passed) + len(self.by_clock)
        total = passed + len(self.assumed) + len(self.idle) + len(self.undecided)
        text = f"{passed} of {total} partitions have passed"
        if self.assumed:
            text += f"; assumed idle: {shorten(map(str, self.assumed))}"
        if self.idle:
            text += f"; no record that late on {shorten(map(str, self.idle))}"
        if self.undecided:
            text += f"; not decided yet: {shorten(holder_text(partition, producers) for partition in self.undecided)}"
        return text


def sort_by_evidence(
    passed: Iterable[TopicPartition],
    others: LogExtents,
    *,
    not_visible: Iterable[TopicPartition],
    isolation_level: IsolationLevel,
    append_time_topics: Iterable[str],
    elapsed_ms: int,
) -> Completeness:
    """Sort partitions by whether the instant has passed on them; what idle means is yet to be said.

    :param passed: partitions with a record at or after the instant.
    :param others: the logs of all other partitions, both ends, asked after the instant was looked up.
    :param not_visible: partitions that have such a record, which isn't visible yet.
    :param append_time_topics: topics whose records bear their broker's time.
    :param elapsed_ms: how long ago the instant is, in milliseconds.
    :raises OffsetsError: when the end of a log isn't known.
    """
    clocked = set(append_time_topics) if elapsed_ms >= CLOCK_MARGIN_MS else set()
    pending, stable = set(not_visible), isolation_level is IsolationLevel.READ_COMMITTED
    undecided: list[TopicPartition] = []
    by_clock: list[TopicPartition] = []
    idle: list[TopicPartition] = []
    for extent in others.raise_for_errors():
        partition = TopicPartition.of(extent)
        if partition in pending or (stable and extent.last_stable_offset != extent.high_watermark):
            undecided.append(partition)
        else:
            (by_clock if extent.topic in clocked else idle).append(partition)
    return Completeness(tuple(passed), tuple(by_clock), (), tuple(idle), tuple(undecided))
