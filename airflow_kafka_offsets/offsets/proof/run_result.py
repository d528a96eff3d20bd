"""The result of a run: what one attempt read and wrote, counted, as ``results/<attempt>.json`` keeps it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from operator import xor
from typing import Any

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.proof.publication import ATTEMPT_NAME, FurtherOutput, Publication
from airflow_kafka_offsets.offsets.windows.kafka_source import Source
from airflow_kafka_offsets.offsets.windows.manifest import digest


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

    def same_rows(self, other: Tally) -> bool:
        """Whether both are sums over the same set of rows."""
        return (self.count, self.checksum) == (other.count, other.checksum)


@dataclass(frozen=True, slots=True)
class PartitionTally:
    """Rows of one partition summed up: their number, the smallest and the largest offset (inclusive), the sum of the
    offsets, and a checksum as in :class:`Tally`.
    """

    topic: str
    partition: int
    count: int
    min_offset: int
    max_offset: int
    offset_sum: int
    checksum: int


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """What a job of the user's has made of a window's records, and where that is.

    :param name: of the output; empty for the first one, which the publication is about.
    :param output: where the rows are; None for a window without offsets, which has none.
    :param sink: what kind of output it is.
    :param apart: each attempt's rows have a place of their own.
    :param made: rows that the job made, counted as they were written.
    :param rows: rows that the output holds.
    :param read: the window's records, counted as the job got them.
    """

    name: str
    output: str | None
    sink: str
    apart: bool
    made: int
    rows: int
    read: Tally


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
    :param written: what the output holds, per partition. Of a job that derives other rows, it is the window's records,
        counted apart from the job.
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
        each partition; None where nobody asked, as every offset has a row or something else is wrong. Empty where
        ``read`` is of another read of the whole window.
    :param derived: the outputs of a job that writes other rows than the records; empty where each record is a row.
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
    unread: tuple[ReadPosition, ...] | None = None
    derived: tuple[DerivedRows, ...] = ()

    @property
    def records(self) -> int:
        """Records of the window: those that the output holds, or that were counted apart from a job."""
        return sum(tally.count for tally in self.written)

    @property
    def rows_written(self) -> int:
        """Rows in the output; of a job with several, in its first one."""
        return self.derived[0].rows if self.derived else self.records

    @property
    def further(self) -> tuple[FurtherOutput, ...]:
        """What a publication says of a job's other outputs."""
        return tuple(FurtherOutput(rows.name, rows.output, rows.sink, rows.rows) for rows in self.derived[1:])

    def same_content(self, other: RunResult) -> bool:
        """Whether both have read and written the same: records are compared by checksum, derived rows by number."""
        ours, theirs = ([(rows.name, rows.rows) for rows in result.derived] for result in (self, other))
        return self.written == other.written and self.read.same_rows(other.read) and ours == theirs

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
            nested = ("read", "written", "files", "source", "unread", "derived")
            plain = {name: fields[name] for name in cls.__slots__ if name not in nested}
            for name in (plain["attempt"], plain["written_by"]):
                if not ATTEMPT_NAME.fullmatch(name):
                    raise ValueError(f"attempt {name!r}")
            written = tuple(PartitionTally(**tally) for tally in fields["written"])
            source = None if fields["source"] is None else Source(**fields["source"])
            unread = None if fields["unread"] is None else tuple(ReadPosition(*record) for record in fields["unread"])
            files = tuple(str(file) for file in fields["files"])
            read = Tally(**fields["read"])
            derived = tuple(DerivedRows(**rows | {"read": Tally(**rows["read"])}) for rows in fields["derived"])
            return cls(**plain, read=read, written=written, files=files, source=source, unread=unread, derived=derived)
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is not the result of a run: {error!r}.") from error


def published_counts(publication: Publication, content: bytes | None, uri: str) -> RunResult:
    """What a published attempt has counted.

    :param content: of its result's file, at ``uri``; None where there is none.
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


def counted_twice(read: Tally, task_starts: int | None) -> bool:
    """Whether some rows may have been counted more than once: tasks began with other records than were written, or
    with one of them again. A transform that drops a task's first row looks the same.

    :param task_starts: as in :class:`RunResult`.
    """
    return None not in (read.starts, task_starts) and read.starts != task_starts


def total_of(written: Iterable[PartitionTally]) -> Tally:
    """Count and checksum of all partitions together."""
    rows = tuple(written)
    return Tally(sum(tally.count for tally in rows), reduce(xor, (tally.checksum for tally in rows), 0))
