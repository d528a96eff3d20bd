"""The ranges of a window: the exact offsets between two snapshots of the same topics, ``[start, end)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.errors import ConfigurationError, IntervalError, TopicChangedError, shorten
from airflow_kafka_offsets.offsets.answers.logs import Producers, holder_text
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import Boundary, Evidence, OffsetSnapshot, snapshot_warnings
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition that belong to a window.

    :param start_offset: first offset of the window, inclusive.
    :param end_offset: end of the window, exclusive; equal to ``start_offset`` when the window has no offsets here.
    :param start_evidence: why the start is believed.
    :param end_evidence: why the end is believed.
    :param start_leader_epoch: leader epoch of the log at ``start_offset``, or of the record there (KIP-320), by
        which Kafka can tell whether the log was truncated below it since; None when unknown, for example at the
        beginning of a new partition.
    :param end_leader_epoch: the same for the end.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    start_evidence: Evidence
    end_evidence: Evidence
    start_leader_epoch: int | None = None
    end_leader_epoch: int | None = None

    @property
    def log_range(self) -> LogRange:
        return LogRange(self.topic, self.partition, self.start_offset, self.end_offset)

    @property
    def span(self) -> int:
        """Number of offsets: exactly the records on a plain topic, an upper bound when there are gaps (E11)."""
        return self.end_offset - self.start_offset


def ranges_between(start: OffsetSnapshot, end: OffsetSnapshot) -> tuple[OffsetRange, ...]:
    """The range from one snapshot to a later one for each partition of the later one, in order, including empty ones.

    A partition that the start snapshot lacks begins at offset 0 if its topic isn't new, as all its records came after
    the start; or else at the log start recorded in the end snapshot (S17, E23).

    :raises IntervalError: when the end isn't after the start.
    :raises ConfigurationError: when the snapshots differ in isolation level.
    :raises TopicChangedError: when a topic or partition of the start is missing at the end, or isn't the same one.
    """
    window_id(start.timestamp_ms, end.timestamp_ms)
    if start.isolation_level is not end.isolation_level:
        raise ConfigurationError(
            f"The snapshots differ in isolation level: {start.isolation_level} and {end.isolation_level}."
        )
    check_topics(start, end.cluster_id, end.topics, all_there=False)
    gone = sorted(start.boundaries.keys() - end.boundaries.keys())
    if gone:
        raise TopicChangedError(f"{gone[0]} is in {start.title}, but not in the one as of {end.as_of}.")
    return tuple(
        _range(start.boundaries.get(key), boundary, 0 if key.topic in start.topics else boundary.log_start_offset)
        for key, boundary in sorted(end.boundaries.items())
    )


def _range(start: Boundary | None, end: Boundary, beginning: int) -> OffsetRange:
    first = min(beginning, end.offset)
    offset, evidence = (first, Evidence.NEW_PARTITION) if start is None else (start.offset, start.evidence)
    if offset > end.offset:
        raise IntervalError(
            f"{end.topic}-{end.partition} would start at offset {offset} and end at {end.offset}: these snapshots are "
            "not from one chain."
        )
    return OffsetRange(
        *(end.topic, end.partition, offset, end.offset, evidence, end.evidence),
        start_leader_epoch=None if start is None else start.leader_epoch,
        end_leader_epoch=end.leader_epoch,
    )


def window_warnings(end: OffsetSnapshot, ranges: Sequence[OffsetRange]) -> Iterator[str]:
    """Anything unexpected about a window."""
    yield from snapshot_warnings(end)
    first = [each for each in ranges if each.start_evidence is Evidence.LOG_START and each.start_offset]
    if first:
        where = _start_words(first)
        yield f"The log starts within the window on {where}: the window's earlier records, if there were any, are gone."
    added = [each for each in ranges if each.start_evidence is Evidence.NEW_PARTITION and each.start_offset]
    if added:
        yield f"New partitions start at their log start on {_start_words(added)}: records before it are gone."


def _start_words(ranges: Iterable[OffsetRange]) -> str:
    return shorten(f"{each.topic}-{each.partition} at {each.start_offset}" for each in ranges)


def held_warning(held: Iterable[TopicPartition], producers: Producers) -> str:
    """A warning about the open transactions that hold back a window's end (S10)."""
    names = shorten(holder_text(partition, producers) for partition in held)
    return f"The window ends where an open transaction begins: {names}. Records after that will be in a later window."
