"""The report of an audit: what a driver has found out about a table and a window, kept in ``<run>.json``. Where the
table differs from what its topic's log holds, as ranges; and the rule that says so of each offset, in Spark's SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from airflow_kafka_offsets.compat.python_versions import Self, StrEnum
from airflow_kafka_offsets.errors import LedgerCorruptError, number_of
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.proof.run_result import RUN
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.topic_identity import Source

_SHOWN = 3


class Problem(StrEnum):
    """How a table differs."""

    MISSING = "missing"
    """The log has a record there, and the table no row."""
    DOUBLED = "doubled"
    """The table has several rows of one offset."""
    FOREIGN = "foreign"
    """The table has a row, and the log no record: a marker, or a record of an aborted transaction, or none at all."""
    NOT_YET = "not_yet"
    """Missing, and the writer's group hasn't come so far."""
    UNKNOWABLE = "unknowable"
    """The log no longer has these offsets, and nobody has counted them in time."""


UNCONFIRMED = "unconfirmed"
"""Not a problem: a row of a compacted topic whose record the log doesn't have, as compaction may have removed it."""
_AMOUNTS = {
    Problem.MISSING: "record",
    Problem.DOUBLED: "row",
    Problem.FOREIGN: "row",
    Problem.NOT_YET: "record",
    Problem.UNKNOWABLE: "offset",
}
"""What is counted of each: rows too many, for those that are doubled."""


class Finding(NamedTuple):
    """A range of offsets with the same problem. Sorts by topic, partition and start, within a problem.

    :param problem: one of :class:`Problem`, or :data:`UNCONFIRMED`.
    :param start_offset: its first offset.
    :param end_offset: one past its last. Between the two, offsets without a record may lie.
    :param amount: how many records or rows, see :class:`Problem`.
    :param first_ms: the earliest timestamp of its records, Unix milliseconds; None where the log has none.
    :param last_ms: the latest.
    :param key_hash: Spark's ``xxhash64`` of the first record's key, as 16 hex digits; None without a key.
    """

    problem: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    amount: int
    first_ms: int | None = None
    last_ms: int | None = None
    key_hash: str | None = None

    def __str__(self) -> str:
        last = self.end_offset - 1
        place = f"{self.start_offset}" if last == self.start_offset else f"{self.start_offset} to {last}"
        return f"{self.topic}-{self.partition} at {place}"


class Known(NamedTuple):
    """What is known of a partition before its offsets are compared.

    :param log_start: the first offset that its log still has.
    :param written_to: the writer's commit: what is below it should be in the table. None if no group was named.
    :param compacted: whether compaction may have removed records that the table has.
    """

    log_start: int
    written_to: int | None
    compacted: bool


RULE = """CASE
  WHEN `offset` < `log_start` THEN IF(`in_table` > 1, 'doubled', NULL)
  WHEN `in_log` = 0 THEN IF(NOT `compacted`, 'foreign', IF(`in_table` > 1, 'doubled', 'unconfirmed'))
  WHEN `in_table` = 0 THEN IF(`offset` >= `written_to`, 'not_yet', 'missing')
  WHEN `in_table` > 1 THEN 'doubled'
END"""
"""What is wrong at an offset, in Spark's SQL: of columns with how often the log and the table have it, and of
:class:`Known`."""
AMOUNT = "CASE WHEN `problem` = 'doubled' THEN `in_table` - 1 WHEN `problem` = 'foreign' THEN `in_table` ELSE 1 END"
"""How much that counts."""


def problem_words(counts: Mapping[str, int]) -> str:
    """What is wrong with a table, in words: ``3 records missing, 1 row doubled``; empty for a complete one."""
    wrong = ((problem, number_of(counts.get(problem, 0), noun)) for problem, noun in _AMOUNTS.items())
    return ", ".join(f"{amount} {problem.replace('_', ' ')}" for problem, amount in wrong if counts.get(problem))


class PartitionCounts(NamedTuple):
    """One partition of an audited window.

    :param offsets: offsets of the window.
    :param rows: rows that the table has of them.
    :param checksum: the checksum of these rows.
    :param records: records that the log has of them; None when it no longer has all, and nobody has counted them in
        time.
    :param records_checksum: what the rows' checksum is if the table has each of these records once; None like
        ``records``.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    rows: int
    checksum: int
    records: int | None
    records_checksum: int | None

    @property
    def offsets(self) -> int:
        return self.end_offset - self.start_offset

    @property
    def is_alike(self) -> bool:
        """Whether the rows are the records, each once."""
        return (self.rows, self.checksum) == (self.records, self.records_checksum)


class WrittenMissing(NamedTuple):
    """The missing records in a table of their own.

    :param output: its folder.
    :param rows: its rows, counted after they were written: as many as are missing, and Kafka still has.
    :param checksum: their checksum, which is that of these offsets.
    """

    output: str
    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit has found.

    :param run: the audit's own name.
    :param window: the window's name.
    :param manifest_sha256: the manifest that it was given.
    :param table: the table.
    :param counts: amounts by :class:`~.findings.Problem`, exact; empty for a complete table.
    :param findings: the first ranges of each problem in each partition.
    :param compacted: topics that were compacted when the window was resolved, or when Kafka was asked.
    :param unconfirmed: rows of these whose records the log doesn't have.
    :param partitions: the window's partitions that have offsets, in order.
    :param looked_at: offsets whose records were read from Kafka; 0 if the table's own sums have told everything.
    :param counted: offsets at which the table was compared with the records that were counted when the log had them.
    :param source: what Kafka said about itself after that read; None when nothing was read.
    :param written: the missing records, if they were to be written, as far as Kafka still has them; None otherwise, or
        if it has none.
    :param application_id: Spark's id of the application; None for a client of Spark Connect.
    :param seconds: how long it took.
    :param audited_ms: when it ended, Unix milliseconds by the driver's clock.
    """

    run: str
    window: str
    manifest_sha256: str
    table: AuditedTable
    counts: Mapping[str, int]
    findings: tuple[Finding, ...]
    partitions: tuple[PartitionCounts, ...]
    audited_ms: int
    seconds: float
    looked_at: int = 0
    counted: int = 0
    compacted: tuple[str, ...] = ()
    unconfirmed: int = 0
    source: Source | None = None
    written: WrittenMissing | None = None
    application_id: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the table has each record of the window once, and nothing else of it."""
        return not self.counts

    @property
    def rows(self) -> int:
        """Rows that the table has of the window."""
        return sum(each.rows for each in self.partitions)

    @property
    def records(self) -> int | None:
        """Records of the window; None if that isn't known of a partition."""
        known = [each.records for each in self.partitions if each.records is not None]
        return sum(known) if len(known) == len(self.partitions) else None

    @property
    def repair(self) -> str | None:
        """Where the missing records are, as a sentence; None if none were written."""
        if self.written is None:
            return None
        missing, there = self.counts.get(Problem.MISSING, 0), self.written.rows
        if there >= missing:
            return f"The missing records are in {self.written.output}."
        verb = "is" if there == 1 else "are"
        return (
            f"{there} of the {missing} missing records {verb} in {self.written.output}; Kafka no longer has the others."
        )

    def check(self, manifest: Manifest) -> None:
        """Refuse a report that contradicts itself or the window's manifest, as a damaged one may.

        :raises LedgerCorruptError: saying how.
        """
        wrong = next(self._contradictions(manifest), None)
        if wrong is not None:
            raise LedgerCorruptError(f"The report of audit {self.run} of window {self.window} can't be right: {wrong}.")

    def _contradictions(self, manifest: Manifest) -> Iterator[str]:
        if [each[:4] for each in self.partitions] != [tuple(each.log_range) for each in manifest.non_empty()]:
            yield "its partitions aren't the window's"
        if set(self.counts) - set(Problem) or any(amount < 1 for amount in self.counts.values()):
            yield f"it counts {dict(self.counts)}"
        late = self.counts.get(Problem.MISSING, 0) + self.counts.get(Problem.NOT_YET, 0)
        more = self.counts.get(Problem.DOUBLED, 0) + self.counts.get(Problem.FOREIGN, 0)
        if self.records is not None and not self.compacted and self.rows != self.records - late + more:
            yield f"{self.rows} rows don't come from {self.records} records by what it counts"
        if self.is_complete and not self.unconfirmed and not all(each.is_alike for each in self.partitions):
            yield "it finds nothing wrong, and the rows aren't the records"

    def __str__(self) -> str:
        if self.is_complete:
            words = f"{self.table.name} is complete: {self.rows} rows, each record once{self._beyond_log()}"
            return f"{words} ({self._grounds()})"
        return f"{self.table.name} isn't complete: {problem_words(self.counts)}. {self._places()}".rstrip()

    def _grounds(self) -> str:
        """What a complete table was compared with."""
        if self.looked_at:
            return "compared with the log"
        return "compared with the records counted in time" if self.counted else "by its own counts and checksums"

    def _beyond_log(self) -> str:
        """What of a complete table's rows no record of the log stands for, as a part of a sentence."""
        if not self.unconfirmed:
            return ""
        return f", and of {number_of(self.unconfirmed, 'row')}, compaction may have removed the record"

    def _places(self) -> str:
        """The first places of each problem, as sentences."""
        sentences = []
        for problem in Problem:
            found = [each for each in self.findings if each.problem == problem]
            more = self.counts.get(problem, 0) - sum(each.amount for each in found[:_SHOWN])
            if found:
                places = ", ".join(map(str, found[:_SHOWN])) + (f" and {more} more" if more > 0 else "")
                sentences.append(f"{problem.replace('_', ' ').capitalize()}: {places}.")
        return " ".join(sentences)

    def to_bytes(self) -> bytes:
        """What the ledger stores."""
        return plain_json.to_bytes(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of :meth:`to_bytes`.

        :raises LedgerCorruptError: when it is something else.
        """
        return plain_json.from_bytes(cls, content, "the report of an audit")

    def check_read(self) -> None:
        """Refuse what no driver writes."""
        self.table.check()
        if not RUN.fullmatch(self.run):
            raise ValueError(f"run {self.run!r}")
