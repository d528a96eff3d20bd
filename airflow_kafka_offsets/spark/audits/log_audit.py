"""The windows of one log, as far as a table's own sums don't tell whether it is complete: compared with what was
counted of the log, or with the log itself, whose offsets are read only where the table's sums are not those of its
records.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, functions as F

from airflow_kafka_offsets.errors import DataLossError, KafkaOffsetsError, SparkFailedError, UnprovenError
from airflow_kafka_offsets.offsets.audits.cells import CellKey, Sums, read_together, sums_of, total
from airflow_kafka_offsets.offsets.audits.report import Finding, Known, Problem, WrittenMissing
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition, merged, span_of
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.spark.audits.comparison import (
    MOST_RANGES,
    Differences,
    Place,
    findings_of,
    from_elsewhere,
    in_cells,
    of_census,
    of_kafka,
    of_table,
)
from airflow_kafka_offsets.spark.audits.table_rows import in_windows, near, sums_by_cell
from airflow_kafka_offsets.spark.kafka.clients import log_facts
from airflow_kafka_offsets.spark.session.files import files_of, hadoop_uri
from airflow_kafka_offsets.spark.session.session import require_driver
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead

if TYPE_CHECKING:
    from airflow_kafka_offsets.offsets.windows.manifest import Manifest
    from airflow_kafka_offsets.offsets.windows.topic_identity import Source
    from airflow_kafka_offsets.spark.audits.table_rows import AuditRequest, TableSums
    from airflow_kafka_offsets.spark.session.conf import RunConf


log = logging.getLogger(__name__)

KAFKA = "Comparing a table with Kafka's log"
_PLACES = "topic string, partition int, offset bigint"
_KEY = ["topic", "partition", "offset"]
_MASK = (1 << 64) - 1


class LogAudit:
    """The comparison of some windows of one log. All that it finds but the sums is by the window's place.

    :param places: the windows' places, in order of time.
    :param commits: how far the writer's group has come, by partition.
    :ivar findings: the first ranges of each problem in each partition.
    :ivar counts: amounts of all, by problem.
    :ivar looked_at: offsets that were read from Kafka.
    :ivar counted: offsets at which the table was compared with a count of records.
    :ivar of_log: the sums of the log's records in the cells that were looked at, without those that it no longer has
        all of.
    :ivar source: what Kafka said about itself after the read; None when nothing was read.
    """

    def __init__(
        self,
        table: TableSums,
        places: Sequence[int],
        conf: RunConf,
        request: AuditRequest,
        commits: Mapping[TopicPartition, int],
    ) -> None:
        self._table, self._conf, self._request, self._commits = table, conf, request, commits
        self._spark, self._places = table.rows.sparkSession, set(places)
        manifests = [table.windows[place].manifest for place in places]
        self._manifest = manifests[-1]
        self.compacted = {topic for each in manifests for topic, facts in each.topics.items() if facts.compacted}
        """Topics that are compacted, or were when a window was resolved."""
        self._own = {TopicPartition.of(each): each for manifest in manifests for each in manifest.ranges}
        self._left: dict[CellKey, LogRange] = {}
        """What Kafka still has of the cells that it was asked about; some may be empty."""
        self._known: dict[Place, Known] = {}
        self.suspect: set[CellKey] = set()
        """The cells that the table's own sums don't show to be complete, as far as is known."""
        self.findings: dict[int, list[Finding]] = {}
        self.counts: dict[int, dict[str, int]] = {}
        self.looked_at = Counter[int]()
        self.counted = Counter[int]()
        self.written: dict[int, WrittenMissing] = {}
        self.of_log: dict[CellKey, Sums] = {}
        self.source: Source | None = None
        self._outdated: set[str] = set()
        """Topics whose records were counted, and that have become compacted since: what compaction takes isn't
        missing."""

    def compare(self, suspect: Iterable[CellKey]) -> None:
        """Find out where table and log differ.

        :param suspect: the cells that the table's own sums don't show to be complete.
        :raises TopicChangedError: when records have to be looked at, and a topic isn't the one that was resolved.
        :raises SparkFailedError: when Kafka has deleted records meanwhile, or the table has changed.
        :raises UncheckedSourceError: when Kafka can't be asked.
        """
        own = self._table.own
        try:
            while more := set(suspect) - self.suspect:
                self.suspect |= more
                self._look(sorted(more))
                suspect = self._with_gaps(more)
            self._look_again()
            self._name([key for key in sorted(self.suspect) if self.of_log.get(key) != own.get(key, Sums())])
        except DataLossError as error:
            raise SparkFailedError(
                f"Kafka has deleted records of the windows while they were compared with {self._request.table.name}: "
                f"audit again, to compare what is left. {error}"
            ) from error
        self._add_gone()
        if self._left:
            asked = (self._table.cells.ranges[key] for key in self._left)
            self.source = self._reader(asked).source(is_read=True)

    def _look(self, suspect: Sequence[CellKey]) -> None:
        """Sum up the log's records in some cells. Where they were counted, Kafka isn't asked."""
        cells = self._table.cells.ranges
        asked = []
        for key in suspect:
            counted = self._counted(key)
            if counted is None:
                asked.append(key)
                continue
            self.counted[key.window] += cells[key].span
            self._known[key[:3]] = Known(0, self._commits.get(TopicPartition.of(key)), compacted=False)
            self.of_log[key] = sums_of(counted, self._table.checksums[key.window])
        if not asked:
            return
        starts = self._ask([cells[key] for key in asked])
        for key in asked:
            of, whole = TopicPartition.of(key), cells[key]
            self._known[key[:3]] = Known(starts[of], self._commits.get(of), key.topic in self.compacted)
            self._left[key] = _cut(whole, starts)
            self.looked_at[key.window] += self._left[key].span
        there = {key: self._left[key] for key in asked if self._left[key].span}
        if there:
            read = self._reader(there.values())
            with read.reading():
                sums, _ = sums_by_cell(self._records(read), self._table.cells.size)
            whole_cells = (key for key, cut in there.items() if cut == cells[key])
            self.of_log |= {key: sums.get(key, Sums()) for key in whole_cells}

    def _counted(self, key: CellKey) -> list[LogRange] | None:
        """The records of a cell, as they were counted; None if they weren't, or the count is outdated."""
        census = self._table.windows[key.window].census
        counted = None if census is None else census.partitions.get(TopicPartition.of(key))
        if census is None or counted is None or counted.runs is None or key.topic in self._outdated:
            return None
        return list(census.records_in(self._table.cells.ranges[key]))

    def _look_again(self) -> None:
        """Look at the log itself where the table differs from what was counted, if the topic is compacted by now.
        Who can't be asked leaves the count as it is: there may be no Kafka any more."""
        own = self._table.own
        counted = [key for key in sorted(self.suspect) if self._counted(key) is not None]
        differing = [key for key in counted if self.of_log[key] != own.get(key, Sums())]
        if not differing:
            return
        try:
            self._ask([self._table.cells.ranges[key] for key in differing])
        except KafkaOffsetsError as error:
            log.info("Whether topics that were counted are compacted by now can't be asked: %s", error)
            return
        self._outdated = self.compacted & {key.topic for key in differing}
        again = [key for key in counted if key.topic in self._outdated]
        for key in again:
            self.counted[key.window] -= self._table.cells.ranges[key].span
            del self.of_log[key]
        self._look(again)

    def _with_gaps(self, looked_at: Collection[CellKey]) -> list[CellKey]:
        """All cells of the topics that have just been found to lack records at some offsets: they are written in
        transactions, though nobody has said so. Then a cell with a row at each offset proves nothing: all its records
        may be aborted ones."""
        cells, of_log = self._table.cells.ranges, self.of_log
        gaps = {key.topic for key in looked_at if key in of_log and of_log[key].rows < cells[key].span}
        return [key for key in cells if key.window in self._places and key.topic in gaps]

    def _ask(self, cells: Collection[LogRange]) -> Mapping[TopicPartition, int]:
        """The first offset that each log still has, before records are read."""
        require_driver(self._spark, KAFKA)
        read = self._reader(cells)
        read.source(is_read=False)
        facts = log_facts(read.clients(), cells, self._manifest.isolation_level)
        self.compacted.update(facts.compacted)
        return facts.starts

    def _name(self, differing: Sequence[CellKey]) -> None:
        """Compare cells offset by offset, and name the offsets that differ."""
        table = self._table
        strays = [key for key in table.others if key.window in self._places]
        if not differing and not strays:
            return
        named = []
        if strays:
            places = ", ".join(map(str, self._places))
            named.append(from_elsewhere(table.rows.where(f"NOT `own` AND `window` IN ({places})")))
        read = self._reader([self._left[key] for key in differing if key in self._left])
        differences = self._differences(read, differing) if differing else None
        if differences is not None:
            named.append(differences.offsets)
        partitions = len({key[:3] for key in (*differing, *strays)})
        with read.reading():
            self.findings, self.counts = findings_of(reduce(DataFrame.unionAll, named), partitions)
        if differences is None:
            return
        if differences.read_sums() != total(map(table.own.get, differing)):
            raise SparkFailedError(
                f"{self._request.table.name} has changed at the offsets of the windows while it was audited: audit "
                "again, once its writer has passed them."
            )
        for place in sorted(self._places):
            if self._request.missing_to is not None and self.counts.get(place, {}).get(Problem.MISSING):
                cells = [table.cells.ranges[key] for key in differing if key.window == place]
                if (written := self._write(differences, place, cells)).rows:
                    self.written[place] = written

    def _differences(self, read: PinnedRead, differing: Collection[CellKey]) -> Differences:
        table, size = self._table, self._table.cells.size
        asked = [key for key in differing if key in self._left]
        runs = [(key.window, run) for key in differing for run in self._counted(key) or ()]
        rows = near(table.rows.where("`own`"), [table.cells.ranges[key] for key in differing])
        sides = [of_table(in_cells(rows, differing, size))]
        if any(self._left[key].span for key in asked):
            sides.append(of_kafka(in_cells(self._records(read), asked, size)))
        if runs:
            sides.append(of_census(self._spark, runs))
        return Differences.of(sides, self._known)

    def _write(self, differences: Differences, place: int, cells: Collection[LogRange]) -> WrittenMissing:
        """Write a window's missing records, as far as Kafka still has them."""
        starts = self._ask(cells)
        read = self._reader([_cut(cell, starts) for cell in cells])
        with read.reading():
            missing = differences.missing(place, starts)
            request, manifest = self._request, self._table.windows[place].manifest
            return write_missing(missing, read.frame({}), str(request.missing_to), manifest)

    def _add_gone(self) -> None:
        """Add the offsets that the log no longer has, and that nobody can judge."""
        gone = defaultdict[int, list[LogRange]](list)
        for key, cut in self._left.items():
            cell = self._table.cells.ranges[key]
            if cut.start_offset > cell.start_offset:
                gone[key.window].append(cell._replace(end_offset=cut.start_offset))
        for place, cells in gone.items():
            ranges = merged(cells)
            named = [Finding(Problem.UNKNOWABLE, *each, each.span) for each in ranges[:MOST_RANGES]]
            self.findings.setdefault(place, []).extend(named)
            self.counts.setdefault(place, {})[Problem.UNKNOWABLE] = span_of(ranges)

    def _records(self, read: PinnedRead) -> DataFrame:
        """The log's records, in their windows."""
        table = self._table
        own = [each if place in self._places else () for place, each in enumerate(table.ranges)]
        rows = read.frame({}).withColumn("own", F.lit(True))
        return in_windows(rows, list(zip(table.checksums, own, strict=True)))

    def _reader(self, cells: Iterable[LogRange]) -> PinnedRead:
        """A read of some cells, and of little else."""
        parts = (
            replace(self._own[TopicPartition.of(each)], start_offset=each.start_offset, end_offset=each.end_offset)
            for each in read_together(each for each in cells if each.span)
        )
        read = PinnedRead(self._spark, replace(self._manifest, ranges=tuple(parts)), self._conf)
        read.frame({})
        return read


def _cut(cell: LogRange, starts: Mapping[TopicPartition, int]) -> LogRange:
    """What the log still has of a cell; an empty range if nothing."""
    return cell._replace(start_offset=min(max(cell.start_offset, starts[TopicPartition.of(cell)]), cell.end_offset))


def write_missing(missing: DataFrame, records: DataFrame, folder: str, manifest: Manifest) -> WrittenMissing:
    """Write the missing records as Parquet, with all columns of Spark's Kafka source, to a folder
    ``window=<window>/missing=<rows>-<checksum>``; and prove that they are just those that are missing. Whoever audits
    again before they were merged finds them there.

    :param missing: topic, partition and offset of those that are to be written.
    :param records: the log's records, with these among them.
    :raises UnprovenError: when the records written are others.
    :raises ConfigurationError: when the folder can't be written.
    """
    spark, wanted = missing.sparkSession, _sums(missing, manifest)
    name = f"missing={wanted[0]}-{wanted[1] & _MASK:016x}"
    place = f"{hadoop_uri(folder)}/window={manifest.window}/{name}"
    files_of(spark).make_folder(place)
    stored = spark.read.schema(_PLACES).parquet(place)
    if _sums(stored, manifest) == wanted:
        return WrittenMissing(place, *wanted)
    records.join(missing, _KEY, "left_semi").write.mode("overwrite").parquet(place)
    written = _sums(spark.read.schema(_PLACES).parquet(place), manifest)
    if wanted != written:
        raise UnprovenError(
            f"{written[0]} records were written to {place}, and {wanted[0]} are missing: Kafka or the table has "
            "changed meanwhile. Don't merge them; delete the folder, and audit again."
        )
    return WrittenMissing(place, *written)


def _sums(rows: DataFrame, manifest: Manifest) -> tuple[int, int]:
    """Number and checksum of rows, over all partitions."""
    (found,) = rows.agg(F.count(F.lit(1)), F.expr(Checksum.of(manifest).sql)).collect()
    return found[0], found[1] or 0
