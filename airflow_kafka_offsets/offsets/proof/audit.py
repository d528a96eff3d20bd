"""The audit: what a run read and wrote, counted, and the verdict against the manifest.

Writing is counted per partition by one scan of three columns. Where every offset has a record, that is all: it has to
hold each offset once. Where offsets may be without one, and with strict time, reading is summed up over the whole run
too, in the same pass (a Spark ``Observation`` can't group). Equal checksums make the two the same set of (topic,
partition, offset), so what holds per partition for the one holds for the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from operator import xor
from typing import Any, Self

from airflow_kafka_offsets.errors import LedgerCorruptError, shorten
from airflow_kafka_offsets.offsets.answers.log_contents import GapCauses
from airflow_kafka_offsets.offsets.proof.publication import ATTEMPT_NAME, Publication
from airflow_kafka_offsets.offsets.proof.shortfall import counted_twice, difference, shortfall
from airflow_kafka_offsets.offsets.windows.kafka_source import Source, source_problems, unknowable
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class Tally:
    """Rows summed up.

    :param count: number of rows.
    :param checksum: xor of a 64-bit hash of each row's partition and offset, and of its topic where the window has
        several; signed, as Spark gives it.
    :param outside_window: rows whose timestamp lies outside the window's two instants (late or early records); None
        where they weren't counted once, as by a read that was sorted and so read twice.
    :param bytes_per_record: mean size of key and value, of a sample of them; None where none was in the sample.
    :param starts: sum of a hash of the record that each task began with; None where every offset has a record, and
        nobody needs it.
    :param counted: it was counted. Else it is what reading every offset once gives, which the output has to hold.
    """

    count: int = 0
    checksum: int = 0
    outside_window: int | None = 0
    bytes_per_record: float | None = None
    starts: int | None = None
    counted: bool = True

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Read what :func:`dataclasses.asdict` wrote."""
        return cls(**{name: fields[name] for name in cls.__slots__ if name in fields})

    def same_rows(self, other: Tally) -> bool:
        """Whether both are sums over the same set of rows."""
        return (self.count, self.checksum) == (other.count, other.checksum)


@dataclass(frozen=True, slots=True)
class PartitionTally:
    """Rows of one partition summed up.

    :param topic: topic name.
    :param partition: partition number.
    :param count: number of rows.
    :param min_offset: smallest offset.
    :param max_offset: largest offset, inclusive.
    :param offset_sum: sum of the offsets.
    :param checksum: as in :class:`Tally`.
    """

    topic: str
    partition: int
    count: int
    min_offset: int
    max_offset: int
    offset_sum: int
    checksum: int


@dataclass(frozen=True, slots=True)
class UnreadRecord:
    """A record of the window that Kafka has, and that no task of the run came to.

    :param topic: topic name.
    :param partition: partition number.
    :param offset: its offset.
    """

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one attempt read and wrote; ``results/<attempt>.json`` in the ledger.

    :param attempt: the attempt's name.
    :param manifest_sha256: the manifest that it was given.
    :param application_id: Spark's own id of the application; None where a client of Spark Connect doesn't know it.
    :param output: where the rows were written; None for an empty window, which writes none.
    :param sink: what kind of output it is, as :class:`.publication.Publication` says.
    :param apart: the attempt's rows have a place of their own, so that none replaces another's.
    :param read: what was read, over all partitions; where nothing counted it, what the output has to hold. Where it
        wasn't counted once, and the output holds every offset once, what that proves.
    :param written: what the output holds, per partition.
    :param seconds: wall-clock time of the job within Spark.
    :param allow_gaps: the run was told that offsets without a record are expected, as transactions leave them.
    :param strict_time: the rows whose timestamp lies outside the window are kept apart.
    :param outside_written: with strict time, how many rows the output keeps apart; else None.
    :param files: the files that hold the rows, each by its path within ``output``; none for a table.
    :param source: what Kafka said after the read of the cluster and topics that were read; None where nobody asked: of
        a window without offsets nothing is read, and a client of Spark Connect has nothing to ask with.
    :param started_ms: when the attempt began, Unix milliseconds. Of two that write to one place, the rows are those of
        the one that began later.
    :param written_by: the attempt whose rows the output holds: an earlier one when it had committed to a table and died
        before it could say so.
    :param task_starts: what ``read.starts`` has to be, were each task read once, by what was written; None where every
        offset has a row.
    :param unread: records at the ends of what the tasks wrote that Kafka has, as it was asked after the write, one for
        each partition; None where nobody asked, as every offset has a row or something else is wrong.
    """

    attempt: str
    manifest_sha256: str
    application_id: str | None
    output: str | None
    sink: str
    apart: bool
    read: Tally
    written: tuple[PartitionTally, ...]
    seconds: float
    started_ms: int
    written_by: str
    allow_gaps: bool = False
    strict_time: bool = False
    outside_written: int | None = None
    files: tuple[str, ...] = ()
    source: Source | None = None
    task_starts: int | None = None
    unread: tuple[UnreadRecord, ...] | None = None

    @property
    def rows_written(self) -> int:
        """Rows in the output."""
        return sum(each.count for each in self.written)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, lists for tuples: an XCom keeps the difference."""
        fields: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {"format": 1} | fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`.

        :raises LedgerCorruptError: when it is something else.
        """
        try:
            nested = ("read", "written", "files", "source", "unread")
            plain = {name: fields[name] for name in cls.__slots__ if name not in nested}
            for name in (plain["attempt"], plain["written_by"]):
                if not ATTEMPT_NAME.fullmatch(name):
                    raise ValueError(f"attempt {name!r}")
            written = tuple(PartitionTally(**each) for each in fields["written"])
            source = None if fields["source"] is None else Source.from_json(fields["source"])
            unread = None if fields["unread"] is None else tuple(UnreadRecord(**each) for each in fields["unread"])
            files = tuple(str(each) for each in fields["files"])
            read = Tally.from_json(fields["read"])
            return cls(**plain, read=read, written=written, files=files, source=source, unread=unread)
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is not the result of a run: {error!r}.") from error


def published_counts(publication: Publication, content: bytes | None, uri: str) -> RunResult:
    """What a published attempt has counted.

    :param content: of its result's file; None where there is none.
    :param uri: of that.
    :raises LedgerCorruptError: when it is missing, or was changed since.
    """
    attempt, recorded = publication.attempt, publication.result_sha256
    if content is None:
        raise LedgerCorruptError(
            f"Attempt {attempt} is published, but its counts are missing: {uri}. Restore the file."
        )
    if digest(content) != recorded:
        raise LedgerCorruptError(
            f"{uri} was changed after it was published: its sha256 is {digest(content)}, expected {recorded}. Restore "
            "the file."
        )
    return RunResult.from_json(json.loads(content))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run is proved.

    :param read_problems: where the rows read don't fit the manifest.
    :param written_problems: where the rows written aren't the rows read.
    :param gaps: offsets in range without a record: transaction markers, aborted or compacted records. None are possible
        on a plain topic.
    :param explained: what the log says of them; None where nobody asked it.
    :param unknowable: what Kafka couldn't tell of where the rows were read, in words; brokers of 2.8 and later can.
    :param may_pass: nothing is wrong but what another attempt may not find: rows that were counted more than once.
    """

    read_problems: tuple[str, ...]
    written_problems: tuple[str, ...]
    gaps: int
    explained: GapCauses | None = None
    unknowable: tuple[str, ...] = ()
    may_pass: bool = False

    @property
    def proved(self) -> bool:
        """Nothing lost, nothing doubled."""
        return not self.read_problems and not self.written_problems

    def __str__(self) -> str:
        if not self.proved:
            return shorten(self.read_problems + self.written_problems)
        gaps = f", {self.gaps} offsets without a record" if self.gaps else ""
        causes = f" ({self.explained})" if self.gaps and self.explained else ""
        unknown = f", but Kafka doesn't tell {shorten(self.unknowable)}" if self.unknowable else ""
        return "read = written = log" + gaps + causes + unknown


def judge(manifest: Manifest, result: RunResult, publication: Publication | None = None) -> Verdict:
    """Compare a run with its manifest. Offsets without a record pass where the run or the topic allows them.

    :param publication: what was published of the run; None before that.
    """
    ranges = {(each.topic, each.partition): each for each in manifest.ranges}
    written = {(each.topic, each.partition): each for each in result.written}
    strays = [f"{topic}-{partition} isn't in the window" for topic, partition in sorted(written.keys() - ranges.keys())]
    if len(written) < len(result.written):
        strays.append("a partition's rows are counted twice")
    judged = [_judge_partition(each, written.get(key)) for key, each in ranges.items()]
    problems = strays + [problem for problem in judged if problem]
    if manifest.sha256 != result.manifest_sha256:
        problems.append(f"the run used another manifest ({result.manifest_sha256})")
    problems.extend(source_problems(manifest, result.source))
    written_rows, unread = total_of(result.written), bool(result.unread)
    different = list(difference(result.read, written_rows, manifest.span, result.task_starts, unread=unread))
    unsure = counted_twice(result.read, result.task_starts) or _sides_unknown(result)
    may_pass = not problems and not unread and unsure
    problems.extend(_misplaced(result))
    if not different:
        problems.extend(shortfall(manifest, result))
    gaps = max(0, manifest.span - result.read.count)
    written_problems = (*different, *_misstated(publication, result))
    unknown = tuple(unknowable(manifest, result.source))
    return Verdict(tuple(problems), written_problems, gaps, unknowable=unknown, may_pass=may_pass)


def total_of(written: Iterable[PartitionTally]) -> Tally:
    """Count and checksum of all partitions together."""
    rows = tuple(written)
    return Tally(sum(each.count for each in rows), reduce(xor, (each.checksum for each in rows), 0))


def every_offset_once(manifest: Manifest, written: Iterable[PartitionTally]) -> bool:
    """Whether there are as many rows as offsets, and nothing of their sums says that one of them is twice there."""
    rows = {(each.topic, each.partition): each for each in written}
    ranges = {(each.topic, each.partition): each for each in manifest.non_empty()}
    return rows.keys() == ranges.keys() and all(
        rows[key].count == each.span and _judge_partition(each, rows[key]) is None for key, each in ranges.items()
    )


def _judge_partition(pinned: OffsetRange, tally: PartitionTally | None) -> str | None:
    """What is wrong with one partition's rows, if anything: outside the range, or more of them than offsets."""
    name = f"{pinned.topic}-{pinned.partition}"
    if tally is None:
        return None
    if tally.min_offset < pinned.start_offset or tally.max_offset >= pinned.end_offset:
        return (
            f"{name} holds offsets {tally.min_offset} to {tally.max_offset}, "
            f"outside [{pinned.start_offset}, {pinned.end_offset})"
        )
    between = tally.max_offset - tally.min_offset + 1
    if tally.count > between:
        return f"{name} holds {tally.count} rows for {between} offsets"
    if tally.count == between and tally.offset_sum != _sum_of(tally.min_offset, tally.max_offset):
        return f"{name} holds the right number of rows, but not each offset once"
    return None


def _sum_of(first: int, last: int) -> int:
    """Of all offsets from one to another, both of them included."""
    return (first + last) * (last - first + 1) // 2


def _misstated(publication: Publication | None, result: RunResult) -> Iterable[str]:
    """What a publication says otherwise than the run's own counts, which it was made from."""
    if publication is None:
        return
    counted = {
        "attempt": result.attempt,
        "manifest_sha256": result.manifest_sha256,
        "output": result.output,
        "outside": result.outside_written,
        "rows": result.rows_written,
        "sink": result.sink,
    }
    for name, value in counted.items():
        if getattr(publication, name) != value:
            yield f"its publication says {name} {getattr(publication, name)}, and the run's result {value}"


def _sides_unknown(result: RunResult) -> bool:
    return result.strict_time and result.read.outside_window is None


def _misplaced(result: RunResult) -> Iterable[str]:
    """What is wrong with the two sides of an output of strict time: the rows' column may have been changed."""
    if _sides_unknown(result):
        yield (
            "Spark has read some records more than once, so that nobody knows how many lie outside the window's time, "
            "which strict time proves: sort within partitions (sortWithinPartitions) in place of the whole, or run the "
            "task again where an executor was lost"
        )
    elif result.strict_time and result.outside_written != result.read.outside_window:
        yield (
            f"{result.read.outside_window} of {result.read.count} rows lie outside its time, and the output keeps "
            f"{result.outside_written} apart: leave the column outside_window as read() made it"
        )
