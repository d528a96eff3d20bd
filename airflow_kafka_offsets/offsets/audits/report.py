"""The report of an audit: what a driver has found out about a table and a window, kept in ``<run>.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import LedgerCorruptError, number_of
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.findings import Finding, Problem, problem_words
from airflow_kafka_offsets.offsets.proof.run_result import RUN
from airflow_kafka_offsets.offsets.windows.kafka_source import Source
from airflow_kafka_offsets.offsets.windows.manifest import Manifest

FORMAT = 1
_SHOWN = 3


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
    application_id: str | None = field(default=None)

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

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields |= {
            "table": self.table.to_json(),
            "counts": dict(self.counts),
            "source": None if self.source is None else asdict(self.source),
            "findings": [each._asdict() for each in self.findings],
            "partitions": [each._asdict() for each in self.partitions],
            "written": None if self.written is None else self.written._asdict(),
        }
        return {"format": FORMAT} | fields

    def to_bytes(self) -> bytes:
        """What the ledger stores."""
        return json.dumps(self.to_json(), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`.

        :raises LedgerCorruptError: when it is something else.
        """
        try:
            if fields["format"] != FORMAT or not RUN.fullmatch(fields["run"]):
                raise ValueError(f"format {fields['format']!r}, run {fields['run']!r}")
            source, written = fields["source"], fields["written"]
            given = {name: fields[name] for name in cls.__slots__}
            given |= {
                "table": AuditedTable.from_json(fields["table"]),
                "compacted": tuple(fields["compacted"]),
                "source": None if source is None else Source(**source),
                "findings": tuple(Finding(**each) for each in fields["findings"]),
                "partitions": tuple(PartitionCounts(**each) for each in fields["partitions"]),
                "written": None if written is None else WrittenMissing(**written),
            }
            return cls(**given)
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"This is not the report of an audit: {error!r}.") from error
