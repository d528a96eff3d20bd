"""Window complete: a moment has passed on every partition of some topics.

Kafka can't say this, so evidence has to do. A record at or after the moment shows that its partition has got there. A
partition without one is idle, and the user says what idle means. A partition whose end is held back by an open
transaction isn't complete, whatever the user says: the records behind the transaction's start aren't decided yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, Literal, Self

from airflow_kafka_offsets.arguments import as_milliseconds, as_names, check_choice, check_count, refuse_text
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.conditions.condition import (
    Answers,
    Condition,
    Extents,
    Facts,
    Listed,
    Progress,
    Records,
    Topics,
    Writers,
)
from airflow_kafka_offsets.errors import ConditionFailedError, ConfigurationError, shorten
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.answers.logs import Producers, holder_text
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.instants import duration_text, is_from_future, iso_instant, to_datetime
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

IdlePolicy = Literal["wait", "assume_after", "require_heartbeat", "fail"]
"""How a partition without a record at or after the moment counts (E8)."""
CLOCK_MARGIN_MS = 60_000
"""How far apart the clocks of brokers and this machine may be, and how long an appended record may take to become
visible, in milliseconds. On LogAppendTime topics, a moment longer ago than this has passed on all partitions (E6)."""


@dataclass(frozen=True, slots=True)
class Completeness:
    """How far some topics have passed a moment. Each partition is in one of the lists.

    :param passed: partitions with a record at or after it.
    :param by_clock: partitions of LogAppendTime topics that count as passed by this machine's clock (E6).
    :param assumed: idle partitions that the user's policy counts as passed (E8).
    :param idle: the other idle partitions.
    :param undecided: partitions with records that aren't visible yet: an open transaction holds them back (E13), or
        they aren't replicated.
    """

    passed: tuple[TopicPartition, ...]
    by_clock: tuple[TopicPartition, ...] = ()
    assumed: tuple[TopicPartition, ...] = ()
    idle: tuple[TopicPartition, ...] = ()
    undecided: tuple[TopicPartition, ...] = ()

    def describe(self, producers: Producers) -> str:
        """These numbers in words.

        :param producers: the producers with open transactions on the undecided partitions.
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


@dataclass(frozen=True, slots=True)
class LookUp:
    """What a look-up of a timestamp shows.

    :param passed: partitions with a visible record at or after it.
    :param hidden: partitions with such a record that isn't visible yet.
    :param from_the_future: partitions where the first such record in the log is from the future (E5).
    """

    passed: frozenset[TopicPartition]
    hidden: frozenset[TopicPartition]
    from_the_future: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class WindowComplete(Condition):
    """A moment has passed on every partition of the topics.

    The evidence is a visible record at or after it (E7). A transaction marker isn't evidence, because its timestamp is
    the broker's (E41). Under ``read_committed``, everything before such a record is decided, because the record is
    below the last stable offset. On LogAppendTime topics, a minute past the moment by this machine's clock is evidence
    too (E6).

    Arguments are those of :class:`~airflow_kafka_offsets.sensors.pipeline_sensors.KafkaWindowCompleteSensor`, with
    durations in milliseconds.

    :param instant_ms: the moment, Unix milliseconds.
    """

    kind: ClassVar[str] = "window_complete"

    topics: tuple[str, ...]
    instant_ms: int
    allowed_lateness_ms: int = 0
    idle: IdlePolicy = "wait"
    idle_after_ms: int | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    @classmethod
    def given(
        cls,
        topics: Any,
        instant_ms: int,
        allowed_lateness: timedelta | float,
        idle_after: timedelta | float | None,
        **others: Any,
    ) -> Self:
        """From a user's arguments: topics, one or several; timedeltas or seconds."""
        lateness_ms = as_milliseconds(allowed_lateness, "allowed_lateness") or 0
        idle_after_ms = as_milliseconds(idle_after, "idle_after")
        return cls(as_names(topics, "topics"), instant_ms, lateness_ms, idle_after_ms=idle_after_ms, **others)

    def __post_init__(self) -> None:
        refuse_text("topics", self.topics)
        check_choice("idle", self.idle, "wait", "assume_after", "require_heartbeat", "fail")
        if self.idle == "wait" and self.idle_after_ms is not None:
            raise ConfigurationError(
                "idle_after= has no effect with idle='wait': drop it, or say what should happen then, for "
                "example idle='assume_after'."
            )
        if self.idle != "wait" and self.idle_after_ms is None:
            raise ConfigurationError(f"idle={self.idle!r} needs idle_after=: how long after the end it takes effect.")
        check_count(self.idle_after_ms, "idle_after_ms")
        check_count(self.allowed_lateness_ms, "allowed_lateness_ms")

    @property
    def awaited(self) -> str:
        text = f"every partition has a record at or after {iso_instant(self._looked_up_ms)}"
        return f"{text}; {self._idle_text}" if self._idle_text else text

    @property
    def topic_names(self) -> tuple[str, ...]:
        return self.topics

    def judge(self, answers: Answers) -> Progress:
        elapsed_ms = answers.at_ms - self._looked_up_ms
        if elapsed_ms < 0:
            nothing_yet = f"nothing to look for before {iso_instant(self._looked_up_ms)}"
            return Progress(False, f"{iso_instant(self.instant_ms)}: {nothing_yet}", {})
        partitions = partitions_of(answers[Topics.of(self.topics)].raise_for_errors())
        shown = self._look_up(partitions, self._looked_up_ms, answers)
        found = self._sort(partitions, shown, elapsed_ms, answers)
        found = self._apply_policy(found, elapsed_ms, answers)
        return self._progress(found, shown, answers[Writers.of(found.undecided)])

    def _progress(self, found: Completeness, shown: LookUp, producers: Producers) -> Progress:
        result = {
            "instant": iso_instant(self.instant_ms),
            "partitions_passed": len(found.passed) + len(found.by_clock),
            "assumed_idle": list(map(str, found.assumed)),
        }
        text = f"{iso_instant(self.instant_ms)}: {found.describe(producers)}"
        if found.idle and self._idle_text:
            text += f" ({self._idle_text})"
        future = [str(partition) for partition in sorted(shown.passed & shown.from_the_future)]
        if future:
            result["from_the_future"] = future
            text += (
                "; some have passed only because of records with future timestamps, which are past the end of "
                f"every window until then: {shorten(future)}"
            )
        return Progress(not found.idle and not found.undecided, text, result)

    @property
    def _idle_text(self) -> str:
        if self.idle_after_ms is None:
            return ""
        return f"idle={self.idle!r} from {iso_instant(self._looked_up_ms + self.idle_after_ms)} on"

    @property
    def _looked_up_ms(self) -> int:
        return self.instant_ms + self.allowed_lateness_ms

    def _look_up(self, partitions: Iterable[TopicPartition], timestamp_ms: int, answers: Answers) -> LookUp:
        """Which partitions have a visible record at or after a timestamp. A marker or aborted record isn't enough."""
        spec = OffsetSpec.at(to_datetime(timestamp_ms))
        wanted = Listed.of(((spec, partition) for partition in partitions), self.isolation_level)
        listed = answers[wanted].get(spec, ListedOffsets()).raise_for_errors().refuse_older_answers().refuse_untimed()
        matched = [ReadPosition(own.topic, own.partition, own.offset) for own in listed if own.offset is not None]
        records = answers[Records.of(matched, self.isolation_level)].raise_for_errors()
        others = (ReadPosition(*record[:3]) for record in records if record.offset != record.position)
        late = answers[Records.of(others, self.isolation_level, timestamp_ms)].raise_for_errors()
        passed = [record for record in records if record.offset == record.position]
        passed += [record for record in late if record.offset is not None]
        return LookUp(
            frozenset(map(TopicPartition.of, passed)),
            frozenset(listed.with_outcome(ListOutcome.NOT_VISIBLE)),
            frozenset(TopicPartition.of(own) for own in listed if is_from_future(own.timestamp_ms, answers.at_ms)),
        )

    def _sort(
        self, partitions: Iterable[TopicPartition], shown: LookUp, elapsed_ms: int, answers: Answers
    ) -> Completeness:
        """Sort partitions by whether the moment has passed on them. The policy for idle ones isn't applied yet."""
        others = [partition for partition in partitions if partition not in shown.passed]
        logs = Extents.of(others)
        clocks = Facts.of({partition.topic for partition in others} if elapsed_ms >= CLOCK_MARGIN_MS else ())
        answers.require(logs, clocks)
        clocked = {topic.topic for topic in answers[clocks].values() if topic.timestamp_type == "LogAppendTime"}
        stable = self.isolation_level is IsolationLevel.READ_COMMITTED
        undecided: list[TopicPartition] = []
        by_clock: list[TopicPartition] = []
        idle: list[TopicPartition] = []
        for extent in answers[logs].raise_for_errors():
            partition = TopicPartition.of(extent)
            if partition in shown.hidden or (stable and extent.last_stable_offset != extent.high_watermark):
                undecided.append(partition)
            else:
                (by_clock if extent.topic in clocked else idle).append(partition)
        return Completeness(tuple(sorted(shown.passed)), tuple(by_clock), (), tuple(idle), tuple(undecided))

    def _apply_policy(self, found: Completeness, elapsed_ms: int, answers: Answers) -> Completeness:
        if not found.idle or self.idle_after_ms is None or elapsed_ms < self.idle_after_ms:
            return found
        if self.idle == "fail":
            raise ConditionFailedError(
                f"No record at or after {iso_instant(self._looked_up_ms)} on {shorten(map(str, found.idle))}, "
                f"{duration_text(elapsed_ms / 1000)} later (idle='fail'). Is a producer down?"
            )
        topics = {partition.topic for partition in found.idle}
        alive = self._alive(topics, answers) if self.idle == "require_heartbeat" else topics
        assumed = tuple(partition for partition in found.idle if partition.topic in alive)
        idle = tuple(partition for partition in found.idle if partition.topic not in alive)
        return replace(found, assumed=assumed, idle=idle)

    def _alive(self, topics: Iterable[str], answers: Answers) -> set[str]:
        """Those of some topics that have a record as late as the policy for idle partitions requires."""
        assert self.idle_after_ms is not None
        partitions = partitions_of(answers[Topics.of(self.topics)].of_keys(topics))
        shown = self._look_up(partitions, self._looked_up_ms + self.idle_after_ms, answers)
        return {partition.topic for partition in shown.passed - shown.from_the_future}
