"""The audit of a table: does it have each record of a window, once, and no other row of it?

The table is read first. A cell (:mod:`~airflow_kafka_offsets.offsets.audits.cells`) whose sums are those of all its
offsets is complete: if every offset has a record, Kafka isn't asked at all. Of the others, the log's offsets are summed
up too, and where these sums differ, rows and records are compared one by one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import DataLossError, SparkFailedError
from airflow_kafka_offsets.offsets.audits.cells import CellKey, Cells, Sums, SumsByCell, read_together
from airflow_kafka_offsets.offsets.audits.findings import UNCONFIRMED, Finding, Known, Problem
from airflow_kafka_offsets.offsets.audits.report import AuditReport, PartitionCounts
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, merged
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.offsets.proof.left import left_of, span_of
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.audits.comparison import Differences, of_census, of_kafka
from airflow_kafka_offsets.spark.audits.log_facts import commits_of, log_starts
from airflow_kafka_offsets.spark.audits.missing_records import write_missing
from airflow_kafka_offsets.spark.audits.table_rows import placed_rows, require_places, rows_of, sums_by_cell
from airflow_kafka_offsets.spark.session.connect import application_of, require_driver
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
    from airflow_kafka_offsets.offsets.audits.census import Census
    from airflow_kafka_offsets.offsets.audits.report import WrittenMissing
    from airflow_kafka_offsets.offsets.windows.kafka_source import Source
    from airflow_kafka_offsets.spark.session.conf import RunConf

_KAFKA = "Comparing a table with Kafka's log"


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What is asked about a window.

    :param run: the audit's own name, 8 hex digits.
    :param writer_group: the consumer group of the table's writer: what is above its commits isn't missing yet. None if
        it has none: then all that isn't in the table is missing.
    :param missing_to: folder to write the missing records to; None to write none.
    :param census: which offsets of the window have a record; None if that wasn't counted.
    """

    run: str
    table: AuditedTable
    writer_group: str | None = None
    missing_to: str | None = None
    census: Census | None = None


def audit_table(spark: SparkSession, manifest: Manifest, conf: RunConf, request: AuditRequest) -> AuditReport:
    """Compare a table with a window.

    :raises ConfigurationError: when the table can't be read as it was described, or a session without a driver would
        have to ask Kafka.
    :raises TopicChangedError: when the records have to be looked at, and a topic isn't the one that was resolved.
    :raises SparkFailedError: when Kafka deleted records while they were looked at. Another audit knows what is left.
    :raises UncheckedSourceError: when Kafka can't be asked.
    """
    started = time.monotonic()
    try:
        audit = _Audit(spark, manifest, conf, request)
        found = audit.compared()
    except DataLossError as error:
        raise SparkFailedError(
            f"Kafka has deleted records of window {manifest.window} while they were compared with "
            f"{request.table.name}: audit again, to compare what is left. {error}"
        ) from error
    application = application_of(spark)
    return AuditReport(
        run=request.run,
        window=manifest.window,
        manifest_sha256=manifest.sha256,
        table=request.table,
        counts={problem: found.counts[problem] for problem in Problem if found.counts.get(problem)},
        findings=tuple(each for each in found.findings if each.problem != UNCONFIRMED),
        partitions=audit.partitions(found.of_log),
        looked_at=found.looked_at,
        unconfirmed=found.counts.get(UNCONFIRMED, 0),
        source=found.source,
        written=found.written,
        application_id=None if application is None else application.id,
        seconds=round(time.monotonic() - started, 3),
        audited_ms=now_ms(),
    )


@dataclass(slots=True)
class _Found:
    """What a comparison has found.

    :param of_log: the sums of the log's records in the cells that were looked at, without those that it no longer has
        all of.
    """

    counts: dict[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    of_log: SumsByCell = field(default_factory=dict)
    looked_at: int = 0
    source: Source | None = None
    written: WrittenMissing | None = None

    def add_gone(self, cells: Iterable[LogRange], known: Mapping[TopicPartition, Known]) -> None:
        """Add the offsets that the log no longer has, and that nobody can judge."""
        gone = merged(
            cell._replace(end_offset=cut.start_offset)
            for cell in cells
            if (cut := _cut(cell, known)).start_offset > cell.start_offset
        )
        if gone:
            self.findings += tuple(Finding(Problem.UNKNOWABLE, *each, each.span) for each in gone)
            self.counts[Problem.UNKNOWABLE] = span_of(gone)


class _Audit:
    """One window and one table. The table's rows are summed up when this is made, after the writer's group was asked:
    what it had committed by then should be in the table."""

    def __init__(self, spark: SparkSession, manifest: Manifest, conf: RunConf, request: AuditRequest) -> None:
        self._spark, self._manifest, self._conf, self._request = spark, manifest, conf, request
        self._ranges = left_of(manifest)
        self._keys = [TopicPartition.of(each) for each in self._ranges]
        self._checksum, self._cells = Checksum.of(manifest), Cells.of(self._ranges)
        self._written_to = self._commits()
        self._rows, self._of_table = self._table_sums()
        self._suspect = self._not_shown_complete()

    def compared(self) -> _Found:
        """Where table and log differ, if they do."""
        return self._look(self._suspect) if self._suspect else _Found()

    def partitions(self, of_log: SumsByCell) -> tuple[PartitionCounts, ...]:
        """The counts of each partition.

        :param of_log: the sums of the log's records in the cells that were looked at.
        """
        suspect = set(self._suspect)
        cells: dict[TopicPartition, list[CellKey]] = defaultdict(list)
        for key in self._cells.ranges:
            cells[TopicPartition(*key[:2])].append(key)
        made = []
        for whole in self._ranges:
            keys = cells[TopicPartition.of(whole)]
            sums = [of_log.get(key) if key in suspect else self._of_table[key] for key in keys]
            known = [each for each in sums if each is not None]
            is_known = len(known) == len(keys)
            records = sum(each.rows for each in known) if is_known else None
            checksum = reduce(xor, (each.checksum for each in known), 0) if is_known else None
            rows = sum(self._of_table.get(key, Sums()).rows for key in keys)
            made.append(PartitionCounts(*whole, rows, records, checksum))
        return tuple(made)

    def _not_shown_complete(self) -> list[CellKey]:
        """The cells that the table's own sums don't show to be complete. If offsets may be without a record, that is
        every cell: one with all offsets would have rows too many."""
        if self._reader(self._ranges).may_have_gaps:
            return list(self._cells.ranges)
        return self._cells.unlike_every_offset(self._of_table, self._checksum)

    def _table_sums(self) -> tuple[DataFrame | None, SumsByCell]:
        if not self._ranges:
            return None, {}
        table = self._request.table
        placed = placed_rows(self._spark, table, self._manifest.topics)
        rows = rows_of(placed, self._ranges)
        sums = sums_by_cell(rows, self._cells.size, self._checksum)
        if not sums:
            require_places(placed, table)
        return rows, sums

    def _commits(self) -> dict[TopicPartition, int]:
        group = self._request.writer_group
        if group is None or not self._ranges:
            return {}
        require_driver(self._spark, _KAFKA)
        return commits_of(self._reader_of(self._ranges).clients(), group, self._keys)

    def _look(self, suspect: Sequence[CellKey]) -> _Found:
        """Compare the log's offsets with the table's where the table alone doesn't tell. Where they were counted, Kafka
        isn't asked."""
        known = self._known_by_census()
        counted = [key for key in suspect if TopicPartition(*key[:2]) in known]
        asked = {key: self._cells.ranges[key] for key in suspect if TopicPartition(*key[:2]) not in known}
        found, left = _Found(), dict[CellKey, LogRange]()
        if asked:
            known |= self._ask(asked.values())
            left = {key: cut for key, cell in asked.items() if (cut := _cut(cell, known)).span}
            found.looked_at = span_of(left.values())
        whole = [key for key, cell in left.items() if cell == asked[key]]
        found.of_log = {**self._sums_by_census(counted), **self._sums_by_kafka(left.values(), whole)}
        same = {key for key, sums in found.of_log.items() if sums == self._of_table.get(key, Sums())}
        differing = [key for key in suspect if key not in same]
        if differing:
            self._compare(found, differing, left, known)
        found.add_gone(asked.values(), known)
        if asked:
            found.source = self._reader_of(asked.values()).source_check().after()
        return found

    def _known_by_census(self) -> dict[TopicPartition, Known]:
        """The partitions whose records were counted: nothing of them is gone."""
        census, topics = self._request.census, self._manifest.topics
        return {
            key: Known(whole.start_offset, self._written_to.get(key), compacted=False)
            for key, whole in zip(self._keys, self._ranges, strict=True)
            if census is not None and key in census.runs and not topics[key.topic].compacted
        }

    def _ask(self, cells: Collection[LogRange]) -> dict[TopicPartition, Known]:
        """What is to be known of the cells' partitions before their records are read."""
        require_driver(self._spark, _KAFKA)
        read, topics = self._reader_of(cells), self._manifest.topics
        read.source_check().before()
        starts = log_starts(read.clients(), {TopicPartition.of(each) for each in cells})
        return {
            key: Known(start, self._written_to.get(key), topics[key.topic].compacted) for key, start in starts.items()
        }

    def _sums_by_census(self, counted: Collection[CellKey]) -> SumsByCell:
        census = self._request.census
        return {} if census is None else census.sums(self._cells, counted, self._checksum)

    def _sums_by_kafka(self, left: Collection[LogRange], whole: Iterable[CellKey]) -> SumsByCell:
        """The sums of the log's records in each cell that it still has all offsets of."""
        if not left:
            return {}
        read = self._reader_of(left)
        with read.reading():
            found = sums_by_cell(read.frame({}), self._cells.size, self._checksum)
        return {key: found.get(key, Sums()) for key in whole}

    def _compare(
        self,
        found: _Found,
        differing: Collection[CellKey],
        left: dict[CellKey, LogRange],
        known: dict[TopicPartition, Known],
    ) -> None:
        """Compare cells offset by offset.

        :param left: what Kafka still has of those that it is asked about.
        """
        assert self._rows is not None, "cells have offsets"
        census = self._request.census
        runs = [
            run
            for key in differing
            if census is not None and key not in left and TopicPartition(*key[:2]) in census.runs
            for run in census.records_in(self._cells.ranges[key])
        ]
        read = self._reader_of([left[key] for key in differing if key in left])
        with read.reading():
            log = of_kafka(read.frame({}))
            if runs:
                log = log.unionAll(of_census(self._spark, runs))
            differences = Differences.of(self._rows, log, differing, self._cells.size, known)
            found.findings, found.counts = differences.findings(len(self._keys))
            if self._request.missing_to is not None and found.counts.get(Problem.MISSING):
                found.written = self._write(differences, [self._cells.ranges[key] for key in differing])

    def _write(self, differences: Differences, cells: Collection[LogRange]) -> WrittenMissing:
        """Write the missing records, as far as Kafka still has them."""
        known = self._ask(cells)
        starts = [(*key, each.log_start) for key, each in known.items()]
        read = self._reader_of([_cut(cell, known) for cell in cells])
        with read.reading():
            missing = differences.missing(starts)
            request = self._request
            return write_missing(missing, read.frame({}), str(request.missing_to), request.run, self._manifest)

    def _reader_of(self, cells: Collection[LogRange]) -> PinnedRead:
        """A read of some cells, and of little else."""
        read = self._reader(read_together(each for each in cells if each.span))
        read.frame({})
        return read

    def _reader(self, ranges: Iterable[LogRange]) -> PinnedRead:
        """A read of some of the window's offsets."""
        own = {TopicPartition.of(each): each for each in self._manifest.ranges}
        parts = (
            replace(own[TopicPartition.of(each)], start_offset=each.start_offset, end_offset=each.end_offset)
            for each in ranges
        )
        return PinnedRead(self._spark, replace(self._manifest, ranges=tuple(parts)), self._conf)


def _cut(cell: LogRange, known: Mapping[TopicPartition, Known]) -> LogRange:
    """What the log still has of a cell; an empty range if nothing."""
    start = min(max(cell.start_offset, known[TopicPartition.of(cell)].log_start), cell.end_offset)
    return cell._replace(start_offset=start)
