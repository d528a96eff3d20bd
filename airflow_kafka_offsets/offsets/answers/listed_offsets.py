"""Listed offsets: leaders' answers to ListOffsets (key 2), and what "no such record" means (E1)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from airflow_kafka_offsets.compat.python_versions import Self, StrEnum
from airflow_kafka_offsets.errors import InstantError, OffsetsError, ResponseError, shorten
from airflow_kafka_offsets.offsets.answers.logs import LogExtents
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords
from airflow_kafka_offsets.offsets.partitions import PartitionMap, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec


class ListOutcome(StrEnum):
    """What an answer means."""

    FOUND = "found"
    """An offset satisfies the spec."""
    EMPTY_LOG = "empty_log"
    """No record satisfies the spec: the log is empty (E1)."""
    ALL_OLDER = "all_older"
    """No record satisfies the spec: all are older than the instant (E1)."""
    NOT_VISIBLE = "not_visible"
    """A record satisfies the spec, or may, but isn't visible yet: it lies at or above the high watermark, or, under
    ``read_committed``, above the last stable offset (E1)."""
    NO_TIMESTAMPS = "no_timestamps"
    """The log holds records, none of which has a timestamp: no instant is before or after them (E42)."""
    NO_RECORD = "no_record"
    """No record satisfies the spec. For a timestamp: the broker is too old (before 3.0) to say which of the three."""
    OLDER_THAN_ASKED = "older_than_asked"
    """The broker matched a record before the instant. Apache Kafka never does this; don't trust the answer (E37)."""
    ERROR = "error"
    """Kafka answered with an error, for example because the partition has no leader (E26)."""


OLDER_THAN_ASKED = ResponseError("INVALID_TIMESTAMP", 32, False, "the broker matched a record older than asked")
"""The error for that outcome, for callers that need an offset."""
_TOO_OLD = "UNSUPPORTED_VERSION"
"""The error of brokers before Kafka 3.0 when they are asked for the newest timestamp."""


class ListedOffset(NamedTuple):
    """What a leader answered for one partition and one spec.

    :param spec: what was asked.
    :param outcome: what the answer means.
    :param offset: first offset that satisfies the spec; None when there is none (see ``outcome``).
    :param timestamp_ms: the matched record's timestamp, Unix milliseconds; None for latest and earliest.
    :param leader_epoch: leader epoch of the record at that offset (v4+, KIP-320); from some brokers (Redpanda), and for
        a record that was found by reading the log, the leader's own; None from older brokers.
    :param error: Kafka's error for this partition alone; ``offset`` is then None.
    """

    topic: str
    partition: int
    spec: OffsetSpec
    outcome: ListOutcome
    offset: int | None = None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None
    error: ResponseError | None = None


class ListedOffsets(PartitionMap[ListedOffset]):
    """Answers to one spec, by partition."""

    asked = "Listing offsets"

    def unmatched(self) -> list[TopicPartition]:
        """The partitions where no record satisfies the spec."""
        return self.with_outcome(ListOutcome.NO_RECORD)

    def with_outcome(self, outcome: ListOutcome) -> list[TopicPartition]:
        """The partitions with this outcome, in order."""
        return [TopicPartition.of(listed) for listed in self if listed.outcome is outcome]

    def refuse_older_answers(self) -> Self:
        """Return self when no broker matched a record older than asked (E37).

        :raises OffsetsError: naming the partitions.
        """
        older = [(str(key), OLDER_THAN_ASKED) for key in self.with_outcome(ListOutcome.OLDER_THAN_ASKED)]
        if older:
            raise OffsetsError("Looking up the instant", older)
        return self

    def refuse_untimed(self) -> Self:
        """Return self when each log that holds records has one with a timestamp (E42).

        :raises InstantError: naming the partitions, where no window of time can hold the records.
        """
        untimed = self.with_outcome(ListOutcome.NO_TIMESTAMPS)
        if untimed:
            raise InstantError(
                f"The records of {shorten(map(str, untimed))} have no timestamps, so no instant is before or after "
                "them, and no window of time can hold them. Load them by increments (KafkaResolveIncrementOperator), "
                "or have brokers stamp what is written from now on (message.timestamp.type=LogAppendTime)."
            )
        return self

    def with_untimed(self, untimed: Collection[TopicPartition]) -> ListedOffsets:
        """The same, where some logs hold no record with a timestamp."""
        return ListedOffsets(
            each._replace(outcome=ListOutcome.NO_TIMESTAMPS)
            if each.offset is None and each.error is None and TopicPartition.of(each) in untimed
            else each
            for each in self
        )


def say_why_unmatched(listed: ListedOffsets, extents: LogExtents, newest: ListedOffsets) -> ListedOffsets:
    """Replace ``NO_RECORD`` with the reason why there is no record at or after the instant (E1), or with the error for
    which it isn't known whether that is true: Kafka can be wrong about it, which extent and newest record would show.

    :param listed: answers to a timestamp.
    :param extents: where the logs of the unmatched partitions start and end, high watermark included.
    :param newest: answers to ``max-timestamp`` under ``read_uncommitted`` for the same partitions.
    """
    return ListedOffsets(
        _explained(answer, extents, newest) if answer.outcome is ListOutcome.NO_RECORD else answer for answer in listed
    )


def contradicted(
    listed: ListedOffsets, extents: LogExtents, newest: ListedOffsets, isolation_level: IsolationLevel
) -> list[TopicPartition]:
    """Partitions for which "no record at or after the instant" can't be true: the record with the newest timestamp is
    at or after the instant, and below the end of the visible log. For the parameters, see :func:`say_why_unmatched`.
    """
    found = []
    for key in listed.unmatched():
        extent, top, asked = extents.lookup(*key), newest.lookup(*key), listed.lookup(*key)
        if extent is None or top is None or asked is None or extent.is_empty:
            continue
        end, instant_ms = extent.end_offset(isolation_level), asked.spec.timestamp_ms
        if end and top.offset is not None and top.offset < end and (top.timestamp_ms or 0) >= (instant_ms or 0):
            found.append(key)
    return found


def put_in_records(listed: ListedOffsets, records: FirstRecords, extents: LogExtents) -> ListedOffsets:
    """Replace leaders' answers with what was found by reading the logs from their start, for the partitions read.

    :param extents: where these logs end, high watermark included.
    """
    return ListedOffsets([*listed, *(_listed(record, listed, extents) for record in records)])


def _listed(record: FirstRecord, listed: ListedOffsets, extents: LogExtents) -> ListedOffset:
    said, extent = listed.lookup(record.topic, record.partition), extents.lookup(record.topic, record.partition)
    assert said is not None and extent is not None, "only what was listed is read"
    if record.error is not None:
        return said._replace(outcome=ListOutcome.ERROR, error=record.error)
    if record.offset is not None:
        found = said._replace(outcome=ListOutcome.FOUND, offset=record.offset, timestamp_ms=record.timestamp_ms)
        return found._replace(leader_epoch=extent.leader_epoch)
    whole = record.searched_to is not None and record.searched_to >= (extent.high_watermark or 0)
    return said._replace(outcome=ListOutcome.ALL_OLDER if whole else ListOutcome.NOT_VISIBLE)


def _explained(listed: ListedOffset, extents: LogExtents, newest: ListedOffsets) -> ListedOffset:
    extent = extents.lookup(listed.topic, listed.partition)
    newest_record = newest.lookup(listed.topic, listed.partition)
    assert listed.spec.timestamp_ms is not None, "only timestamps are looked into"
    assert extent is not None and newest_record is not None, "both were asked for"
    if extent.is_empty:
        return listed._replace(outcome=ListOutcome.EMPTY_LOG)
    error = extent.error or newest_record.error
    if error is not None and error.name != _TOO_OLD:
        return listed._replace(outcome=ListOutcome.ERROR, error=error)
    if error is not None:
        return listed
    timestamp_ms = newest_record.timestamp_ms
    # A log that isn't empty has a newest record. If the leader can't name it, it lies above the high watermark.
    visible_and_older = timestamp_ms is not None and timestamp_ms < listed.spec.timestamp_ms
    return listed._replace(outcome=ListOutcome.ALL_OLDER if visible_and_older else ListOutcome.NOT_VISIBLE)
