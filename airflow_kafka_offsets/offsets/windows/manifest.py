"""The manifest: a window written out as exact ranges per partition, ``[start, end)``. It is all that a Spark run is
given.

Its bytes are canonical JSON, so the same window always has the same sha256. It contains nothing that differs between
two runs of the same window.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    IntervalError,
    LedgerCorruptError,
    TopicChangedError,
    shorten,
)
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts
from airflow_kafka_offsets.offsets.partitions import LogRange, SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import LEDGER_ID, PIPELINE_NAME, is_window, window_id
from airflow_kafka_offsets.offsets.windows.snapshots import (
    AsOfKind,
    Boundary,
    Evidence,
    OffsetSnapshot,
    snapshot_warnings,
)
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics


@dataclass(frozen=True, slots=True)
class OffsetRange(plain_json.Row):
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


@dataclass(frozen=True, slots=True)
class Manifest:
    """A window's exact ranges.

    :param pipeline: its pipeline's name, for people: other ledgers may have pipelines of the same name.
    :param ledger_id: identity of the ledger that it was pinned in.
    :param window: the window's name, from its two instants.
    :param start_ms: start instant, Unix milliseconds, inclusive.
    :param end_ms: end instant, Unix milliseconds, exclusive.
    :param cluster_id: the cluster that the offsets belong to.
    :param isolation_level: which records counted as visible; the reader must use the same (S9).
    :param topics: facts by topic name, as of the end snapshot.
    :param ranges: one for each partition, in order, empty ones included.
    :param timed: whether both snapshots are as of instants, so that a record's timestamp lies inside or outside.
    """

    pipeline: str
    ledger_id: str
    window: str
    start_ms: int
    end_ms: int
    cluster_id: str
    isolation_level: IsolationLevel
    topics: Mapping[str, TopicFacts]
    ranges: tuple[OffsetRange, ...]
    timed: bool = True

    @property
    def title(self) -> str:
        return f"window {self.window}"

    @property
    def span(self) -> int:
        """Offsets in all ranges: exactly the number of records on plain topics, an upper bound otherwise."""
        return sum(each.span for each in self.ranges)

    def non_empty(self) -> tuple[OffsetRange, ...]:
        """The ranges with at least one offset: what Spark is asked to read (S6)."""
        return tuple(each for each in self.ranges if each.span)

    @classmethod
    def of(cls, pipeline: str, ledger_id: str, start: OffsetSnapshot, end: OffsetSnapshot) -> Self:
        """The manifest of a window between two stored snapshots. Raises as :func:`ranges_between`."""
        return cls(
            pipeline=pipeline,
            ledger_id=ledger_id,
            window=window_id(start.timestamp_ms, end.timestamp_ms),
            start_ms=start.timestamp_ms,
            end_ms=end.timestamp_ms,
            cluster_id=end.cluster_id,
            isolation_level=end.isolation_level,
            topics=end.topics,
            ranges=ranges_between(start, end),
            timed=start.as_of.kind is end.as_of.kind is AsOfKind.INSTANT,
        )

    def to_bytes(self) -> bytes:
        """The bytes that are hashed."""
        return plain_json.to_bytes(self)

    @property
    def sha256(self) -> str:
        return digest(self.to_bytes())

    @classmethod
    def from_bytes(cls, content: bytes, sha256: str | None = None) -> Self:
        """Read a manifest.

        :param sha256: the digest that the content must have; None to skip the check.
        :raises LedgerCorruptError: when the content was changed, is cut short, or isn't a manifest of a known format.
        """
        if sha256 is not None and digest(content) != sha256:
            raise LedgerCorruptError(
                f"The manifest was changed after it was pinned: its sha256 is {digest(content)}, expected {sha256}. "
                "Nothing was read. Restore the file as it was."
            )
        return plain_json.from_bytes(cls, content, "a manifest")

    def check_read(self) -> None:
        """Refuse names of another form: they become folders and parts of SQL and table properties, and a file mustn't
        inject anything by them."""
        names: dict[str, Callable[[str], object]]
        names = {"pipeline": PIPELINE_NAME.fullmatch, "ledger_id": LEDGER_ID.fullmatch, "window": is_window}
        for name, has_form in names.items():
            if not has_form(getattr(self, name)):
                raise ValueError(f"{name} {getattr(self, name)!r}")


def digest(content: bytes) -> str:
    """Sha256 of some content, in hex."""
    return hashlib.sha256(content).hexdigest()


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


def left_of(manifest: Manifest, lost: Collection[LogRange] = ()) -> tuple[LogRange, ...]:
    """What an attempt reads, in order, without empty ranges: read + lost = window. Kafka loses records at a log's start
    alone (retention, DeleteRecords), so one range of each partition is left.

    :param lost: what Kafka no longer had when the attempt began: all offsets of a partition up to one.
    """
    starts = {TopicPartition.of(each): each.end_offset for each in lost}
    ranges = (each.log_range for each in manifest.non_empty())
    rest = (
        each._replace(start_offset=max(each.start_offset, starts.get(TopicPartition.of(each), 0))) for each in ranges
    )
    return tuple(each for each in rest if each.span > 0)


def topics_read(manifest: Manifest) -> list[str]:
    """The topics that a window has offsets of, in order."""
    return sorted({each.topic for each in manifest.non_empty()})


def ends_seen(manifest: Manifest) -> list[SeenOffset]:
    """Ends of the ranges that are read."""
    return [
        SeenOffset(each.topic, each.partition, each.end_offset, each.end_leader_epoch) for each in manifest.non_empty()
    ]


def starts_seen(manifest: Manifest) -> list[SeenOffset]:
    """Starts of the ranges that are read, if their end doesn't cover them already. A log that is unchanged up to the
    end is unchanged up to the start; but if the end has a later epoch, the log may have been truncated between them."""
    return [
        SeenOffset(each.topic, each.partition, each.start_offset, each.start_leader_epoch)
        for each in manifest.non_empty()
        if (epoch := each.start_leader_epoch) is not None
        and (each.end_leader_epoch is None or epoch < each.end_leader_epoch)
    ]


def unknowable(manifest: Manifest) -> list[str]:
    """What nobody can tell about a window's source, in words; empty when the brokers are Kafka 2.8 or later."""
    found = [f"the id of {topic}" for topic in topics_read(manifest) if manifest.topics[topic].topic_id is None]
    without = sum(  # below offset 0 there is nothing to truncate
        each.end_leader_epoch is None or (each.start_offset > 0 and each.start_leader_epoch is None)
        for each in manifest.non_empty()
    )
    return found + ([f"the leader epochs of {without} partitions"] if without else [])
