"""Left to read: whether a group that is behind has records left, or only transaction markers and aborted records.

Offsets alone don't tell (E12, E13): no consumer's commit ever passes those at a log's end. So where it may change the
result, the log is read from the group's position on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self

from airflow_kafka_offsets.conditions.condition import Answers, Records
from airflow_kafka_offsets.errors import ConditionFailedError, OffsetsError
from airflow_kafka_offsets.offsets.answers.records import FirstRecords, ReadPosition, RecordAges
from airflow_kafka_offsets.offsets.lag import LagStatus, PartitionLag
from airflow_kafka_offsets.offsets.specs import IsolationLevel

_CAN_NOT_READ = {
    "TOPIC_AUTHORIZATION_FAILED": "(the ACL Read is missing)",
    "MESSAGE_TOO_LARGE": "(a batch unpacks to too much)",
    "UNSUPPORTED_COMPRESSION_TYPE": "(a codec is missing: pip install 'airflow-kafka-offsets[codecs]')",
}
"""Errors after which offsets are still counted, as an upper bound on records."""


class Behind(NamedTuple):
    """A partition that a group is behind on.

    :param position: where it would continue reading.
    :param end_offset: the end that its lag was measured against.
    :param lag: offsets between its commit and the end; for a share group, those that aren't finished.
    :param lost: how many of them were deleted before it read them (E9).
    """

    position: ReadPosition
    end_offset: int
    lag: int
    lost: int = 0

    @classmethod
    def of(cls, partition: PartitionLag, isolation_level: IsolationLevel) -> Self:
        """Where a group is on a partition whose lag is known.

        :param isolation_level: which end the lag was measured against.
        """
        start, end = partition.log_start_offset, partition.end_offset(isolation_level)
        assert partition.lag is not None and start is not None and end is not None, "or it would have no lag"
        position = ReadPosition(partition.topic, partition.partition, max(partition.committed_offset or 0, start))
        return cls(position, end, partition.lag, partition.lost)

    @property
    def is_in_order(self) -> bool:
        """Whether nothing after the position is finished, so that the first record there is the first unread one. Only
        a share group may have finished some."""
        return self.lag - self.lost >= self.end_offset - self.position.offset

    def __str__(self) -> str:
        return f"{self.position.topic}-{self.position.partition}"


def out_of_order(behind: Behind) -> RecordAges:
    """The age of a share group's first unread record, which may not be the first one after its position."""
    return RecordAges(None, (f"{behind} (a share group, which has finished some records after its position)",))


def worst(partitions: Iterable[Behind]) -> str:
    """The three partitions that are furthest behind, in words."""
    furthest = sorted(partitions, key=lambda behind: -behind.lag)[:3]
    return ", ".join(f"{behind} {behind.lag}" for behind in furthest)


def refuse_commits_of_other_logs(group: str, partitions: Iterable[PartitionLag]) -> None:
    """Refuse to wait on commits that don't say what the group has read of the present logs (E17, S15).

    :raises ConditionFailedError: naming a partition.
    """
    for own in partitions:
        if own.status is LagStatus.AHEAD_OF_LOG:
            raise ConditionFailedError(
                f"The commit of group {group} on {own.topic}-{own.partition} is past the log's end "
                "(OFFSET_OUT_OF_RANGE): the topic was truncated or re-created, or the commit was copied. It doesn't "
                "say what the group has read. Use kafka-offsets reset to move the group."
            )
        if own.status is LagStatus.LOG_TRUNCATED:
            raise ConditionFailedError(
                f"The log of {own.topic}-{own.partition} was truncated below the commit of group {group} and has grown "
                "past it again (unclean leader election): the group hasn't read the records that are now before its "
                "commit. Use kafka-offsets reset --backwards to move the group."
            )


def is_clear(behind: Behind, records: FirstRecords) -> bool:
    """Whether it is known that nothing is left to read on a partition, and nothing was lost.

    :param records: the first records from groups' positions on.
    """
    return not behind.lost and records.nothing_before(behind.position, behind.end_offset)


def age_of(behind: Behind, records: FirstRecords, now_ms: int) -> RecordAges:
    """How old the first unread record of a partition is; 0 if nothing is left to read.

    :param records: the first records from groups' positions on.
    """
    if behind.lost:
        return RecordAges(None, (f"{behind} (records were deleted before they were read)",))
    if is_clear(behind, records):
        return RecordAges(0)
    found = records.lookup(*behind.position)
    assert found is not None, "every position was asked for"
    age = RecordAges.of([found], now_ms)
    return age if behind.is_in_order or age.unknown else out_of_order(behind)


def note_unread(records: FirstRecords) -> str:
    """Which topics can't be read, and why, for the end of a summary; empty when all can."""
    why = {f"{found.topic} {_CAN_NOT_READ[found.error.name]}" for found in records if found.error is not None}
    return f"; transaction markers count as lag on {', '.join(sorted(why))}" if why else ""


def left_to_read(
    groups: Sequence[Sequence[Behind]],
    isolation_level: IsolationLevel,
    allowed: Callable[[Sequence[Behind]], bool],
    answers: Answers,
) -> FirstRecords:
    """The first records that groups have left to read, where that may change the result.

    First the partition of each group that is furthest behind: it usually has a record, and that settles it.

    :param groups: the partitions that each group is behind on.
    :param allowed: whether it is acceptable to be behind on just these partitions.
    :raises OffsetsError: when a log can't be read for a reason that may pass.
    """
    doubtful = [group for group in groups if group and not allowed(group)]
    furthest = [max(group, key=lambda behind: behind.lag) for group in doubtful]
    first = read_from(furthest, isolation_level, answers)
    tops = zip(doubtful, furthest, strict=True)
    unsettled = [(group, top) for group, top in tops if is_clear(top, first) or allowed([top])]
    others = (behind for group, top in unsettled for behind in group if behind is not top)
    rest = read_from(others, isolation_level, answers)
    return FirstRecords([*first, *rest])


def read_from(partitions: Iterable[Behind], isolation_level: IsolationLevel, answers: Answers) -> FirstRecords:
    """The first records left to read on all of these partitions; raises as :func:`left_to_read` does."""
    records = answers[Records.of((behind.position for behind in partitions), isolation_level)]
    failures = [(what, error) for what, error in records.failures() if error.name not in _CAN_NOT_READ]
    if failures:
        raise OffsetsError("Reading from the group's position", failures)
    return records
