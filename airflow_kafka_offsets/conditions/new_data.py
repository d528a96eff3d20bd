"""New data: records have arrived since some offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Self

from airflow_kafka_offsets.arguments import as_milliseconds, as_names, check_count, refuse_text
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.conditions.condition import (
    Answers,
    Condition,
    Extents,
    Progress,
    Records,
    Topics,
    note_unknowable,
    unknowable_of,
)
from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.offsets.answers.logs import LogExtents
from airflow_kafka_offsets.offsets.answers.records import ReadPosition, RecordAges
from airflow_kafka_offsets.offsets.instants import duration_text
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets

EVERYTHING_NEW = FixedOffsets("the log starts")
"""Where old data ends if there is none."""


@dataclass(frozen=True, slots=True)
class NewData(Condition):
    """At least this many new records have arrived on the topics together, or the first of them is old enough.

    Records are counted in offsets: exactly the records on plain topics, an upper bound when transactions or compaction
    leave gaps (E11). At least one of them is certainly a visible record. Before the condition passes, the logs must be
    the ones that ``since`` was seen in.

    :param topics: topic names.
    :param since: where old data ends. A partition that it lacks is new from its log start on (E23).
    :param min_records: how many records, 1 or more.
    :param max_age_ms: age of the first new record, in milliseconds, from which on fewer records are enough, by its
        timestamp and this machine's clock; None to wait for all. A record of unknown age is old enough: firing early
        only makes a smaller load.
    :param isolation_level: which records count.
    """

    kind: ClassVar[str] = "new_data"

    topics: tuple[str, ...]
    since: FixedOffsets
    min_records: int = 1
    max_age_ms: int | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    @classmethod
    def given(
        cls, topics: Any, since: FixedOffsets, *, max_age: timedelta | float | None = None, **others: Any
    ) -> Self:
        """From a user's arguments: topics, one or several; a timedelta or seconds."""
        return cls(as_names(topics, "topics"), since, max_age_ms=as_milliseconds(max_age, "max_age"), **others)

    def __post_init__(self) -> None:
        refuse_text("topics", self.topics)
        check_count(self.min_records, "min_records", least=1)
        check_count(self.max_age_ms, "max_age_ms")

    @property
    def awaited(self) -> str:
        records = "a record has" if self.min_records == 1 else f"{self.min_records:,} records have"
        text = f"{records} arrived since {self.since.source}"
        if self.max_age_ms is None or self.min_records == 1:
            return text
        return f"{text}, or the first of them is {duration_text(self.max_age_ms / 1000)} old"

    @property
    def topic_names(self) -> tuple[str, ...]:
        return self.topics

    def judge(self, answers: Answers) -> Progress:
        metadata = answers[Topics.of(self.topics)].raise_for_errors()
        extents = answers[Extents.of(partitions_of(metadata))].raise_for_errors()
        self.since.refuse_other_source(metadata.cluster_id, metadata.topic_ids)
        self.since.refuse_truncated(extents)
        new = self._new(extents)
        counts = {topic: sum(each.span for each in new if each.topic == topic) for topic in self.topics}
        real = sum(counts.values()) >= self.min_records and self._holds_record(new, answers)
        age = self._age(new, answers) if new and not real else RecordAges()
        done = real or self._is_old(age)
        unknowable = unknowable_of(self.since, metadata, answers) if done else []
        ends = FixedOffsets.of_ends(
            "the log ends", extents, self.isolation_level, metadata.cluster_id, metadata.topic_ids
        )
        text = _describe(counts, self.min_records, done) + f"; since {self.since.source}"
        if age.known_ms is not None:
            text += f"; the first of them is {duration_text(age.known_ms / 1000)} old"
        text += age.note("the new records") + note_unknowable(unknowable)
        return Progress(done, text, self._result(counts, age, unknowable), ends=ends)

    def _result(self, counts: Mapping[str, int], age: RecordAges, unknowable: list[str]) -> dict[str, Any]:
        result: dict[str, Any] = {"new": counts, "since": self.since.source} | self.since.where()
        if self.max_age_ms is not None:
            result |= {"age_s": None if age.known_ms is None else age.known_ms / 1000}
        return result | ({"unknowable": unknowable} if unknowable else {})

    def _is_old(self, age: RecordAges) -> bool:
        """Whether the first new record is old enough. One of unknown age is, and no record isn't."""
        return bool(age.unknown) or (age.known_ms is not None and age.known_ms >= (self.max_age_ms or 0))

    def _new(self, extents: LogExtents) -> list[LogRange]:
        """The new offsets of each partition that has any."""
        old = dict(self.since.items())
        found = []
        for log in extents:
            end = log.end_offset(self.isolation_level)
            assert end is not None and log.log_start_offset is not None, "an extent without error has both"
            start = max(old.get(TopicPartition(log.topic, log.partition), 0), log.log_start_offset)
            if end > start:
                found.append(LogRange(log.topic, log.partition, start, end))
        return found

    def _records(self, new: Iterable[LogRange]) -> Records:
        """The need for the first visible record of each range."""
        return Records.of((ReadPosition(*each[:3]) for each in new), self.isolation_level)

    def _holds_record(self, new: list[LogRange], answers: Answers) -> bool:
        """Whether there is a visible record among these offsets, and not only markers and aborted records.

        First the partition with the most new offsets: it usually has a record. A partition that can't be read doesn't
        matter if another one has a record.
        """
        furthest = max(new, key=lambda each: each.span)
        for records in (self._records([furthest]), self._records(new)):
            if any(record.offset is not None for record in answers[records]):
                return True
        answers[self._records(new)].raise_for_errors()
        return False

    def _age(self, new: list[LogRange], answers: Answers) -> RecordAges:
        """How old the first new record is, if that may be enough; unknown when there are only markers."""
        if self.max_age_ms is None:
            return RecordAges()
        records = answers[self._records(new)]
        age = RecordAges.to_judge((record for record in records if record.offset is not None), answers.at_ms)
        if not self._is_old(age):
            records.raise_for_errors()  # there may be an older record where one can't be read
        return age


def _describe(counts: Mapping[str, int], wanted: int, real: bool) -> str:
    total = sum(counts.values())
    text = f"{total} new of {wanted}"
    if total >= wanted and not real:
        text += ", all of them transaction markers or aborted records"
    fresh = [f"{topic} {count}" for topic, count in sorted(counts.items(), key=lambda item: -item[1]) if count]
    if fresh:
        text += f" ({shorten(fresh)})"
    if silent := sorted(topic for topic, count in counts.items() if not count):
        text += f"; nothing new: {shorten(silent)}"
    return text
