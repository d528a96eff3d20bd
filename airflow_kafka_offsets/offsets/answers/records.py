"""What was found by reading a log (Fetch, key 1): its first visible record and its age, or what is at each offset.

Offsets alone don't tell whether there is anything left to read: transaction markers, aborted records and compaction
leave offsets that no reader gets (E11, E12), and a timestamp look-up may match a marker (E41). Reading the log does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_offsets.errors import ConfigurationError, ResponseError, shorten
from airflow_kafka_offsets.offsets.instants import is_from_future, iso_instant
from airflow_kafka_offsets.offsets.partitions import AnswerSet, PartitionMap


class ReadPosition(NamedTuple):
    """A reader's position in a partition. Sorts by topic, partition and offset.

    :param offset: the next offset to read, which is what a group commits.
    """

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.topic}-{self.partition}"


class FirstRecord(NamedTuple):
    """The first visible record at or after a position, if there is one.

    With neither a record nor an error, no visible record lies in ``[position, searched_to)``.

    :param position: the offset that was asked about.
    :param offset: the record's offset; above ``position`` when the offsets in between are markers, aborted, compacted
        away, older than requested, or deleted (``position`` below the log start).
    :param timestamp_ms: the record's timestamp, Unix milliseconds; None when it has none (before Kafka 0.10, or a
        negative one), or when it can't be read because the batch's codec isn't installed or the batch unpacks to too
        much.
    :param searched_to: when no record was found, the end of the visible log at that time: last stable offset under
        read_committed, high watermark under read_uncommitted; below ``position`` when that lies past the end. None
        with a record or an error.
    :param error: Kafka's error for this position alone; nothing else is then known.
    :param missing_codec: codec that the timestamp needs and that isn't installed on this machine; otherwise empty.
    """

    topic: str
    partition: int
    position: int
    offset: int | None = None
    timestamp_ms: int | None = None
    searched_to: int | None = None
    error: ResponseError | None = None
    missing_codec: str = ""

    @property
    def why_unread(self) -> str:
        """Why there is a record whose timestamp can't be read here, in words; empty if it can."""
        if not self.missing_codec:
            return ""
        return (
            f"is compressed with {self.missing_codec}, whose library isn't installed on this machine (pip install "
            "'airflow-kafka-offsets[codecs]')"
        )


class FirstRecords(AnswerSet[FirstRecord]):
    """First records by position; iterates in order of topic, partition and position."""

    asked = "Reading the first record"

    @staticmethod
    def key(element: FirstRecord) -> ReadPosition:
        return ReadPosition(element.topic, element.partition, element.position)

    def __contains__(self, position: ReadPosition) -> bool:
        return position in self._elements

    def lookup(self, topic: str, partition: int, position: int) -> FirstRecord | None:
        """The element of one position; None when it wasn't asked for."""
        return self._elements.get((topic, partition, position))

    def nothing_before(self, position: ReadPosition, end_offset: int) -> bool:
        """Whether it is known that no visible record lies in ``[position, end_offset)``."""
        found = self._elements.get(position)
        if found is None or found.error is not None:
            return False
        reached = found.searched_to if found.offset is None else found.offset
        return reached is not None and reached >= end_offset


Runs = tuple[tuple[int, int], ...]
"""Offsets that follow each other without a gap, in order: the first one of each run, and one past its last."""
MOST_RUNS = 20_000
"""How many runs of a range are kept at most: a transaction of a few records makes one."""


class LogContent(NamedTuple):
    """What a range of one partition's log holds. When in error, what was counted before the error.

    Each offset of a range is one of four things, so the four counts add up to its span: a record, an aborted record, a
    transaction marker (E12), or nothing, because the log cleaner removed it (E11).

    :param start_offset: first offset of the range, inclusive.
    :param end_offset: its end, exclusive.
    :param records: records that a reader gets at the requested isolation level.
    :param aborted: records of aborted transactions; 0 under read_uncommitted, where a reader gets them.
    :param markers: transaction markers, of commits and of aborts.
    :param missing: offsets where the log no longer has anything.
    :param offset_sum: sum of the records' offsets; None when a compacted batch hides which offsets they have.
    :param error: Kafka's error for this partition alone, which stopped the count.
    :param runs: the records' offsets; None when a compacted batch hides them, or there are more than
        :data:`MOST_RUNS`.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int = 0
    aborted: int = 0
    markers: int = 0
    missing: int = 0
    offset_sum: int | None = 0
    error: ResponseError | None = None
    runs: Runs | None = ()

    @property
    def counted_to(self) -> int:
        """One past the last offset that was counted."""
        return self.start_offset + self.records + self.aborted + self.markers + self.missing

    @property
    def is_complete(self) -> bool:
        return self.counted_to >= self.end_offset

    @property
    def is_gone(self) -> bool:
        """Whether retention or DeleteRecords removed an offset before it was counted (E9)."""
        return self.error is not None and self.error.name == "OFFSET_OUT_OF_RANGE"


class LogContents(PartitionMap[LogContent]):
    """Log contents by partition."""

    asked = "Counting what logs hold"


@dataclass(frozen=True, slots=True)
class RecordAges:
    """How old some first records are, by their timestamps and this machine's clock.

    :param oldest_ms: the highest known age, in milliseconds; None when none is known.
    :param unknown: partitions whose age nobody can tell, and why, in words.
    """

    oldest_ms: int | None = None
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, records: Iterable[FirstRecord], now_ms: int) -> RecordAges:
        """The ages of records. If none was found although the log ends further on, the age is unknown too."""
        ages, unknown = [], []
        for record in records:
            why = _why_ageless(record, now_ms)
            if why:
                unknown.append(f"{record.topic}-{record.partition} ({why})")
            else:
                assert record.timestamp_ms is not None, "or there would be a reason"
                ages.append(max(0, now_ms - record.timestamp_ms))
        return cls(max(ages, default=None), tuple(unknown))

    @classmethod
    def to_judge(cls, records: Iterable[FirstRecord], now_ms: int) -> RecordAges:
        """The ages of records, to compare with a limit.

        :raises ConfigurationError: when a timestamp can't be read because a codec isn't installed on this machine.
        """
        given = list(records)
        for record in given:
            if record.why_unread:
                place = f"{record.topic}-{record.partition} offset {record.offset}"
                raise ConfigurationError(
                    f"max_age needs the timestamp of the record at {place}, which {record.why_unread}."
                )
        return cls.of(given, now_ms)

    @classmethod
    def together(cls, parts: Iterable[RecordAges]) -> RecordAges:
        """The ages of several parts combined: unknown when nothing is known about one of them; 0 without any parts."""
        ages = list(parts)
        if RecordAges() in ages:
            return cls()
        oldest = max((age.oldest_ms for age in ages if age.oldest_ms is not None), default=None if ages else 0)
        return cls(oldest, tuple(why for age in ages for why in age.unknown))

    @property
    def known_ms(self) -> int | None:
        """Age of the oldest record; None when nobody can tell."""
        return None if self.unknown else self.oldest_ms

    def note(self, what: str) -> str:
        """For the end of a summary; empty when all ages are known."""
        return f"; the age of {what} is unknown on {shorten(self.unknown)}" if self.unknown else ""


def _why_ageless(record: FirstRecord, now_ms: int) -> str:
    """Why a record's timestamp doesn't give its age, in words; empty when it does."""
    if record.error is not None:
        return f"it can't be read: {record.error}"
    if record.why_unread:
        return f"it {record.why_unread}"
    if record.offset is None:
        return "its leader hasn't returned a record yet"
    if record.timestamp_ms is None:
        return "it has no timestamp"
    if is_from_future(record.timestamp_ms, now_ms):
        return f"its timestamp lies in the future: {iso_instant(record.timestamp_ms)}"
    return ""
