"""The result of a run: counts of what one driver of an attempt read and wrote, kept in ``<run>.result.json``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any, Protocol, TypeVar

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.windows.topic_identity import Source

NO_SINK = "none"
"""The kind of sink of a window that was published without a job, as it has no offsets. It has no rows in any output."""
RUN = re.compile(r"[0-9a-f]{8}", re.ASCII)
"""A driver's own name: a submitter may start several of one attempt."""
RESULT = "the result of a run"
"""What its file is, in words."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over rows.

    :param count: number of rows.
    :param checksum: a :class:`~airflow_kafka_offsets.offsets.proof.checksum.Checksum`; signed, as Spark returns it.
    :param bytes_per_record: mean size of key and value in a sample; None when the sample is empty, or nobody needed it.
    :param starts: sum of a hash of each task's first record; None when every offset has a record, since nobody needs it
        then.
    :param counted: whether this was counted. If not, it is what reading every offset once gives, which the output must
        hold.
    """

    count: int = 0
    checksum: int = 0
    bytes_per_record: float | None = None
    starts: int | None = None
    counted: bool = True

    def same_rows(self, other: Tally) -> bool:
        """Whether both are sums over the same set of rows."""
        return (self.count, self.checksum) == (other.count, other.checksum)


@dataclass(frozen=True, slots=True)
class PartitionTally:
    """Sums over the rows of one partition: their number, the smallest and the largest offset (inclusive), the sum of
    the offsets, and a checksum as in :class:`Tally`.
    """

    topic: str
    partition: int
    count: int
    min_offset: int
    max_offset: int
    offset_sum: int
    checksum: int


@dataclass(frozen=True, slots=True)
class OutputRows:
    """What one output of a window holds, and where.

    :param name: the output's name: empty for the first or only one; the topic, if each topic has an output of its own;
        or what a job calls a further one, and the ready-made load its ``dead letters``.
    :param output: where the rows are; None for a window without offsets, which has no rows.
    :param sink: the output's kind: ``parquet``, ``orc``, ``json``, ``delta``, ``iceberg``, or what a user's own sink
        calls itself; or :data:`NO_SINK`.
    :param apart: whether each attempt's rows have a place of their own, so that none replaces another's.
    :param rows: rows that the output holds.
    :param files: the files that hold them, as paths within ``output``; none for a table.
    :param columns: the columns of all files of this output so far, as Spark writes a schema in JSON; None for other
        kinds of outputs, which know their own.
    :param made: rows that a job made, counted as they were written; None if each record is a row.
    """

    name: str
    output: str | None
    sink: str
    apart: bool
    rows: int
    files: tuple[str, ...] = ()
    columns: str | None = None
    made: int | None = None


@dataclass(frozen=True, slots=True)
class UsedSchemas:
    """The registered schemas that decoded a window's keys or values: loading it again reads the same way.

    :param column: ``key`` or ``value``.
    :param kind: ``AVRO``, ``JSON`` or ``PROTOBUF``.
    :param subjects: the registry's subjects.
    :param reader: id of the schema whose type the column has.
    :param hashes: by id, the sha256 of each schema that records could be written with.
    """

    column: str
    kind: str
    subjects: tuple[str, ...]
    reader: int
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one driver of an attempt read and wrote.

    :param attempt: the attempt's number.
    :param run: the driver's own name.
    :param manifest_sha256: the manifest that it was given.
    :param application_id: Spark's own id of the application; None when unknown to a client of Spark Connect, and for a
        window without offsets, which needs no job.
    :param outputs: where the rows are: one output, or one for each topic, or those of a job that writes rows other than
        the records, the first one first.
    :param read: what was read, over all partitions. If nothing counted it, what the output must hold. If it wasn't
        counted exactly once but the output holds every offset once, what that proves.
    :param written: what the output holds, per partition. For a job that derives other rows, the window's records,
        counted separately from the job.
    :param seconds: wall-clock time of the job within Spark.
    :param allow_gaps: whether the run was told to expect offsets without a record, as with transactions.
    :param source: what Kafka said after the read about the cluster and topics; None when nobody asked: a window without
        offsets reads nothing, and a client of Spark Connect can't ask.
    :param task_starts: what ``read.starts`` must be if each task was read once, computed from what was written; None
        when every offset has a row.
    :param unread: records that Kafka has at the ends of tasks' ranges, before the first or after the last row written,
        at most one for each partition; asked after the write. None when nobody asked, because every offset has a row or
        something else is wrong.
    :param schemas: the registered schemas that decoded keys and values; empty if none did.
    """

    attempt: int
    run: str
    manifest_sha256: str
    application_id: str | None
    outputs: tuple[OutputRows, ...]
    read: Tally
    written: tuple[PartitionTally, ...]
    seconds: float
    allow_gaps: bool = False
    source: Source | None = None
    task_starts: int | None = None
    unread: tuple[ReadPosition, ...] | None = None
    schemas: tuple[UsedSchemas, ...] = ()

    @property
    def records(self) -> int:
        """Records of the window: those that the output holds, or that were counted separately from a job."""
        return sum(tally.count for tally in self.written)

    @property
    def derived(self) -> tuple[OutputRows, ...]:
        """The outputs of a job that writes rows other than the records; empty when each record is a row."""
        return tuple(each for each in self.outputs if each.made is not None)

    @property
    def rows_written(self) -> int:
        """Rows in the output; over all topics, if each has its own, and in the first one, if a job has several."""
        return sum(each.rows for each in main_outputs(self.outputs))

    @property
    def output(self) -> str | None:
        """Where the rows are; None for an empty window, and if several topics have outputs of their own."""
        return main_place(self.outputs)

    @property
    def apart(self) -> bool:
        """Whether the run's rows have places of their own, so that none replaces another's."""
        return all(each.apart for each in self.outputs)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with lists instead of tuples, because XCom keeps the difference."""
        return plain_json.to_json(self)

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        """The inverse of :meth:`to_json`.

        :raises LedgerCorruptError: when it is something else.
        """
        return plain_json.from_json(cls, stored, RESULT)

    def check_read(self) -> None:
        """Refuse what no driver writes."""
        if type(self.attempt) is not int or not RUN.fullmatch(self.run) or not self.outputs:
            raise ValueError(f"run {self.run!r} of attempt {self.attempt!r}, with {len(self.outputs)} outputs")


class Placed(Protocol):
    """An output, as a run or a publication has it."""

    @property
    def name(self) -> str: ...

    @property
    def output(self) -> str | None: ...


AnOutput = TypeVar("AnOutput", bound=Placed)
_TOPIC = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
"""What Kafka allows in a topic's name; that of an output beside those of topics has a space."""


def main_outputs(outputs: Sequence[AnOutput]) -> Sequence[AnOutput]:
    """The outputs that a window's rows are in if nobody names one: the first, whose name is empty; or those of all
    topics, if each has its own."""
    return [each for each in outputs if _TOPIC.fullmatch(each.name)] if outputs[0].name else outputs[:1]


def main_place(outputs: Sequence[Placed]) -> str | None:
    """Where these are, if that is one place; None if there is none, or if there are several."""
    places = {each.output for each in main_outputs(outputs)}
    return places.pop() if len(places) == 1 else None


def counted_twice(read: Tally, task_starts: int | None) -> bool:
    """Whether some rows may have been counted more than once: tasks started with records other than those written, or
    started with one of them again. A transform that drops a task's first row looks the same.

    :param task_starts: as in :class:`RunResult`.
    """
    return None not in (read.starts, task_starts) and read.starts != task_starts


def total_of(written: Iterable[PartitionTally]) -> Tally:
    """Count and checksum over all partitions."""
    rows = tuple(written)
    return Tally(sum(tally.count for tally in rows), reduce(xor, (tally.checksum for tally in rows), 0))
