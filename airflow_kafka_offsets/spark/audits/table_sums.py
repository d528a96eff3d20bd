"""What is asked about a table, and the table's own sums over the windows' cells: one pass over three of its columns,
however many windows are audited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.offsets.audits.cells import CellKey, Cells, SumsByCell
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.offsets.proof.left import left_of
from airflow_kafka_offsets.spark.audits.table_rows import in_windows, placed_rows, require_places, sums_by_cell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
    from airflow_kafka_offsets.offsets.audits.census import Census
    from airflow_kafka_offsets.offsets.windows.manifest import Manifest


@dataclass(frozen=True, slots=True)
class AuditedWindow:
    """A window that a table is compared with.

    :param census: which offsets of the window have a record; None if that wasn't counted.
    """

    manifest: Manifest
    census: Census | None = None

    def may_lack_records(self, whole: LogRange) -> bool:
        """Whether offsets of a partition are known to have no record, or its topic is compacted.

        :param whole: the partition's range in the window.
        """
        if self.manifest.topics[whole.topic].compacted:
            return True
        return self.census is not None and self.census.counts.get(TopicPartition.of(whole), whole.span) < whole.span


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What is asked about a table.

    :param run: the audit's own name, 8 hex digits.
    :param writer_group: the consumer group of the table's writer: what is above its commits isn't missing yet. None if
        it has none: then all that isn't in the table is missing.
    :param missing_to: folder to write the missing records to; None to write none.
    """

    run: str
    table: AuditedTable
    writer_group: str | None = None
    missing_to: str | None = None


@dataclass(frozen=True, slots=True)
class TableSums:
    """A table's rows in some windows, and their sums.

    :param windows: in order; a window's place is that in it.
    :param ranges: each window's ranges that have offsets.
    :param checksums: each window's.
    :param rows: topic, partition, offset, ``own``, and the window of each row. Each action reads the table again.
    :param own: the sums of rows that are from the windows' source.
    :param others: the sums of rows that are from another, as the table tells.
    """

    windows: Sequence[AuditedWindow]
    ranges: Sequence[Sequence[LogRange]]
    checksums: Sequence[Checksum]
    cells: Cells
    rows: DataFrame
    own: SumsByCell
    others: SumsByCell

    @classmethod
    def of(cls, spark: SparkSession, table: AuditedTable, windows: Sequence[AuditedWindow]) -> Self:
        """Read a table.

        :raises ConfigurationError: when it can't be read as it was described.
        """
        ranges = [left_of(each.manifest) for each in windows]
        checksums = [Checksum.of(each.manifest) for each in windows]
        cells = Cells.of(ranges)
        topics = {topic for each in windows for topic in each.manifest.topics}
        placed = placed_rows(spark, table, topics)
        rows = in_windows(placed, list(zip(checksums, ranges, strict=True)))
        own, others = sums_by_cell(rows, cells.size) if cells.ranges else ({}, {})
        if cells.ranges and not own and not others:
            require_places(placed, table)
        return cls(windows, ranges, checksums, cells, rows, own, others)

    def not_shown_complete(self, *, allow_gaps: bool) -> Iterator[CellKey]:
        """The cells that the table's own sums don't show to be complete. If offsets may be without a record, that is
        every cell: one with all offsets would have rows too many.

        :param allow_gaps: all topics may have such offsets, not only those of which a window tells it.
        """
        unlike = set(self.cells.unlike_every_offset(self.own, self.checksums))
        for place, window in enumerate(self.windows):
            for whole in self.ranges[place]:
                every = allow_gaps or window.may_lack_records(whole)
                yield from (key for key in self.cells.of_partition(place, whole) if every or key in unlike)

    def logs(self) -> list[list[int]]:
        """The places of windows that are of the same logs: a topic that has begun anew has several."""
        found: dict[object, list[int]] = {}
        for place, window in enumerate(self.windows):
            manifest = window.manifest
            ids = tuple(sorted((topic, facts.topic_id or "") for topic, facts in manifest.topics.items()))
            found.setdefault((manifest.cluster_id, manifest.isolation_level, ids), []).append(place)
        return list(found.values())
