"""Window complete: a moment has passed on every partition of some topics."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from airflow_kafka_offsets.conditions.condition import Condition, Progress, Steps
from airflow_kafka_offsets.conditions.policies import one_of
from airflow_kafka_offsets.conditions.questions import (
    Extents,
    Facts,
    Listed,
    Question,
    Records,
    Writers,
    ask,
    ask_partitions,
)
from airflow_kafka_offsets.errors import ConditionFailedError, ConfigurationError, shorten
from airflow_kafka_offsets.offsets.completeness import CLOCK_MARGIN_MS, Completeness, IdlePolicy, sort_by_evidence
from airflow_kafka_offsets.offsets.extents import LogExtents
from airflow_kafka_offsets.offsets.first_records import FirstRecords, Position
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.listed import ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.producers import Producers
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class WindowComplete(Condition):
    """A moment has passed on every partition of the topics.

    The evidence is a visible record at or after it; a transaction marker, which bears its broker's time, is none (E41).
    Under ``read_committed`` all that lies before such a record is decided: it stands below the last stable offset.
    On LogAppendTime topics a minute of the brokers' time past the moment is evidence too (E6).

    :param topics: topic names.
    :param instant_ms: the moment, Unix milliseconds.
    :param allowed_lateness_ms: records may be so late, in milliseconds: the evidence is a record at or after the
        moment and this (E7).
    :param idle: what a partition without such a record means. ``wait``: it is waited for. ``assume_after``: it counts
        as passed once the moment (with lateness) is ``idle_after_ms`` ago. ``require_heartbeat``: so it does, if
        another partition of its topic has a record that late, so that its producers are known to have been alive.
        ``fail``: the task fails then.
    :param idle_after_ms: for these three, in milliseconds.
    :param isolation_level: which records count.
    """

    kind: ClassVar[str] = "window_complete"

    topics: tuple[str, ...]
    instant_ms: int
    allowed_lateness_ms: int = 0
    idle: IdlePolicy = "wait"
    idle_after_ms: int | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    def __post_init__(self) -> None:
        if not self.topics:
            raise ConfigurationError("Name at least one topic to wait for; topics is empty.")
        one_of("idle", self.idle, "wait", "assume_after", "require_heartbeat", "fail")
        if (self.idle == "wait") != (self.idle_after_ms is None):
            raise ConfigurationError(
                f"idle_after= says when idle={self.idle!r} takes effect: give it with 'assume_after', "
                "'require_heartbeat' and 'fail', and with nothing else."
            )
        for name, duration in {"idle_after": self.idle_after_ms, "allowed_lateness": self.allowed_lateness_ms}.items():
            if duration is not None and duration < 0:
                raise ConfigurationError(f"{name} is a duration of 0 or more.")

    def steps(self) -> Steps:
        instant = iso_instant(self.instant_ms)
        elapsed_ms = now_ms() - self._looked_up_ms
        if elapsed_ms < 0:
            return Progress(False, f"{instant}: lies ahead, looking from {iso_instant(self._looked_up_ms)} on", {})
        partitions, _ = yield from ask_partitions(self.topics)
        listed = yield from self._look_up(partitions, self._looked_up_ms)
        passed = yield from self._with_record(listed, self._looked_up_ms)
        found = yield from self._sort(listed, passed, elapsed_ms)
        found = yield from self._apply_policy(found, elapsed_ms)
        producers = (yield from ask(Writers.about(found.undecided))) if found.undecided else Producers()
        result = {
            "instant": instant,
            "partitions_passed": len(found.passed) + len(found.by_clock),
            "assumed_idle": [str(each) for each in found.assumed],
        }
        return Progress(found.complete, f"{instant}: {found.describe(producers)}", result)

    @property
    def _looked_up_ms(self) -> int:
        return self.instant_ms + self.allowed_lateness_ms

    def _look_up(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> Generator[Question[Any], Any, ListedOffsets]:
        spec = OffsetSpec.at(timestamp_ms)
        listed = yield from ask(Listed.about(partitions, spec=spec, isolation_level=self.isolation_level))
        return listed.raise_for_errors().refuse_older_answers()

    def _with_record(
        self, listed: ListedOffsets, timestamp_ms: int
    ) -> Generator[Question[Any], Any, set[TopicPartition]]:
        """The partitions where a visible record was found, and no marker or aborted one with old records behind it."""
        found = [Position(each.topic, each.partition, each.offset) for each in listed if each.offset is not None]
        records = yield from self._read(found)
        others = [Position(*each[:3]) for each in records if each.offset != each.position]
        late = yield from self._read(others, at_or_after_ms=timestamp_ms)
        passed = [each for each in records if each.offset == each.position]
        passed += [each for each in late if each.offset is not None]
        return {TopicPartition(each.topic, each.partition) for each in passed}

    def _read(
        self, positions: list[Position], at_or_after_ms: int | None = None
    ) -> Generator[Question[Any], Any, FirstRecords]:
        if not positions:
            return FirstRecords()
        question = Records.about(positions, isolation_level=self.isolation_level, at_or_after_ms=at_or_after_ms)
        return (yield from ask(question)).raise_for_errors()

    def _sort(
        self, listed: ListedOffsets, passed: set[TopicPartition], elapsed_ms: int
    ) -> Generator[Question[Any], Any, Completeness]:
        others = [each for each in listed.partitions() if each not in passed]
        extents = (yield from ask(Extents.about(others))) if others else LogExtents()
        append_time: list[str] = []
        if others and elapsed_ms >= CLOCK_MARGIN_MS:
            facts = yield from ask(Facts.about(each.topic for each in others))
            append_time = [each.topic for each in facts.values() if each.timestamp_type == _APPEND_TIME]
        return sort_by_evidence(
            sorted(passed),
            extents,
            not_visible=listed.with_outcome(ListOutcome.NOT_VISIBLE),
            isolation_level=self.isolation_level,
            append_time_topics=append_time,
            elapsed_ms=elapsed_ms,
        )

    def _apply_policy(self, found: Completeness, elapsed_ms: int) -> Generator[Question[Any], Any, Completeness]:
        if not found.idle or self.idle_after_ms is None or elapsed_ms < self.idle_after_ms:
            return found
        if self.idle == "fail":
            raise ConditionFailedError(
                f"No record at or after {iso_instant(self._looked_up_ms)} on {shorten(map(str, found.idle))}, "
                f"{elapsed_ms / 1000:.0f} s later (idle='fail'). Is a producer down?"
            )
        alive = {each.topic for each in found.idle}
        if self.idle == "require_heartbeat":
            alive = yield from self._alive(alive)
        assumed = tuple(each for each in found.idle if each.topic in alive)
        return replace(found, assumed=assumed, idle=tuple(each for each in found.idle if each.topic not in alive))

    def _alive(self, topics: Iterable[str]) -> Generator[Question[Any], Any, set[str]]:
        """The topics where somebody wrote as late as an idle partition needs it."""
        assert self.idle_after_ms is not None
        partitions, _ = yield from ask_partitions(topics)
        timestamp_ms = self._looked_up_ms + self.idle_after_ms
        listed = yield from self._look_up(partitions, timestamp_ms)
        return {each.topic for each in (yield from self._with_record(listed, timestamp_ms))}
