"""The rows of an audited table: topic, partition and offset of those that belong to some windows, and their sums over
the windows' cells. That is one pass over three of the table's columns, however many windows are audited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.cells import CellKey, Cells, Sums, SumsByCell
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.proof.checksum import Checksum, hash_sql
from airflow_kafka_offsets.offsets.windows.manifest import left_of
from airflow_kafka_offsets.spark.session.session import words
from airflow_kafka_offsets.spark.window.counts import in_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
    from airflow_kafka_offsets.offsets.audits.census import Census
    from airflow_kafka_offsets.offsets.windows.manifest import Manifest


_WHOLE = ("float", "double", "decimal")
"""Types that may hold what is no whole number, and so no offset."""
SALTED = hash_sql("`salt`, `hashed`")
"""What a row adds to its window's checksum."""


def placed_rows(spark: SparkSession, table: AuditedTable, topics: Collection[str]) -> DataFrame:
    """Topic, partition and offset of a table's rows; null where a row doesn't tell. ``own`` is false if it tells that
    it is from another source.

    :param topics: the windows' topics.
    :raises ConfigurationError: when Spark can't read the table, or an expression isn't one of its columns'.
    """
    columns = table.columns
    with _explained(table):
        rows = _read(spark, table)
        if table.where is not None:
            rows = rows.where(table.where)
        found = rows.selectExpr(
            f"cast({table.topic_of(sorted(topics))} AS string) AS `topic`",
            f"{columns.partition} AS `partition`",
            f"{columns.offset} AS `offset`",
            f"coalesce({table.source or 'true'}, true) AS `own`",
        )
        kinds = dict(found.dtypes)
        partition, offset = _number("partition", "int", kinds), _number("offset", "bigint", kinds)
        return found.selectExpr("`topic`", partition, offset, "`own`")


def _number(column: str, kind: str, kinds: Mapping[str, str]) -> str:
    """A column as a number; null where it isn't one, as a cast would cut off its fraction."""
    number = f"try_cast(`{column}` AS {kind})"
    whole = f"IF(`{column}` = floor(`{column}`), {number}, NULL)"
    return f"{whole if kinds[column].startswith(_WHOLE) else number} AS `{column}`"


def in_windows(rows: DataFrame, windows: Sequence[tuple[Checksum, Collection[LogRange]]]) -> DataFrame:
    """The rows whose offsets lie in windows' ranges, each with the place of its window, and what is hashed with it. If
    windows share an offset, its rows are there for each.

    :param windows: in order of their places.
    """
    ranges = [
        (each, place, checksum.salt, each.topic if checksum.with_topic else None)
        for place, (checksum, own) in enumerate(windows)
        for each in own
    ]
    added = {"window": "int", "salt": "bigint", "hashed": "string"}
    return in_ranges(near(rows, [each for each, *_ in ranges]), ranges, added).drop("start", "end")


def near(rows: DataFrame, ranges: Collection[LogRange]) -> DataFrame:
    """The rows of some ranges, and of little else: the source may skip files by the condition."""
    low = min((each.start_offset for each in ranges), default=0)
    high = max((each.end_offset for each in ranges), default=0)
    topics, partitions = sorted({each.topic for each in ranges}), sorted({each.partition for each in ranges})
    between = F.expr(f"`offset` >= {low}L AND `offset` < {high}L")
    return rows.where(F.col("topic").isin(topics) & F.col("partition").isin(partitions) & between)


def sums_by_cell(rows: DataFrame, size: int) -> tuple[SumsByCell, SumsByCell]:
    """The sums of rows by cell, in one pass: of those that are from the windows' source, and of the others.

    :param rows: :func:`in_windows`, with ``own``.
    :param size: offsets of a cell.
    """
    cell = F.expr(f"`offset` div {size}").alias("cell")
    grouped = rows.groupBy("own", "window", "topic", "partition", cell)
    own, others = dict[CellKey, Sums](), dict[CellKey, Sums]()
    for row in grouped.agg(F.count(F.lit(1)).alias("rows"), F.expr(f"bit_xor({SALTED})").alias("checksum")).collect():
        key = CellKey(row["window"], row["topic"], row["partition"], row["cell"])
        (own if row["own"] else others)[key] = Sums(row["rows"], row["checksum"])
    return own, others


def require_places(placed: DataFrame, table: AuditedTable) -> None:
    """Refuse a table with rows of which none tells its place: an expression is wrong, which would look like a table
    without any of the window's rows.

    :raises ConfigurationError: naming the expressions.
    """
    told = "`topic` IS NOT NULL AND `partition` IS NOT NULL AND `offset` IS NOT NULL"
    if placed.where(told).isEmpty() and not placed.isEmpty():
        topic, partition, offset = table.columns
        raise ConfigurationError(
            f"No row of {table.name} tells topic, partition and offset, by topic={topic!r}, partition={partition!r} "
            f"and offset={offset!r}. Correct these expressions, or the preset."
        )


def _read(spark: SparkSession, table: AuditedTable) -> DataFrame:
    if table.query is not None:
        return spark.sql(table.query)
    if table.table is not None:
        return spark.table(table.table)
    return spark.read.format(str(table.format)).options(**(table.options or {})).load(table.path)


@contextmanager
def _explained(table: AuditedTable) -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        raise ConfigurationError(f"{table.name} can't be read as it was described: {words(error)}.") from error


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
        counted = None if self.census is None else self.census.partitions.get(TopicPartition.of(whole))
        return counted is not None and counted.records < whole.span


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
