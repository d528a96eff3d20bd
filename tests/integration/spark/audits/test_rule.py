"""The rule that says what is wrong at an offset, in Spark's SQL, against an oracle that knows what became of each
record."""

from __future__ import annotations

from itertools import product

from pyspark.sql import SparkSession, functions as F

from airflow_kafka_offsets.offsets.audits.report import AMOUNT, RULE

NO, YES = False, True


def expected(*, record: bool, rows: int, gone: bool = False, late: bool = False, compacted: bool = False) -> str | None:
    """What an owner of the table wants to hear of an offset.

    :param record: whether its record is committed; otherwise it is an aborted one, a marker, or one that compaction may
        have removed.
    :param gone: the log no longer has the offset.
    :param late: the writer's group hasn't come so far.
    """
    if rows > 1 and (gone or record or compacted):
        return "doubled"
    if gone:
        return None
    if record:
        return None if rows else "not_yet" if late else "missing"
    return None if not rows else "unconfirmed" if compacted else "foreign"


def test_each_offset_is_judged_as_somebody_would_who_knows_its_fate(spark: SparkSession) -> None:
    """All there are: at offset 5, of a log that starts there or after it, with commits at 5, 6 or none. What neither
    side has isn't compared."""
    every = product((NO, YES), (0, 1, 2, 3), (NO, YES), ("NULL", "5L", "6L"), (NO, YES))
    cases = [case for case in every if case[0] or case[1]]
    values = ", ".join(
        f"({place}, 5L, {int(record and not gone)}, {rows}, {6 if gone else 5}L, {written_to}, {compacted})"
        for place, (record, rows, gone, written_to, compacted) in enumerate(cases)
    )
    names = "place, offset, in_log, in_table, log_start, written_to, compacted"
    judged = spark.sql(f"SELECT * FROM VALUES {values} AS cases({names})").withColumn("problem", F.expr(RULE))
    told = [
        expected(record=record, rows=rows, gone=gone, late=written_to == "5L", compacted=compacted)
        for record, rows, gone, written_to, compacted in cases
    ]
    rows = judged.withColumn("amount", F.expr(AMOUNT)).orderBy("place").collect()
    assert [row.problem for row in rows] == told
    amounts = {(row.problem, row.in_table): row.amount for row in rows if row.problem}
    assert amounts == {
        **{("doubled", rows): rows - 1 for rows in (2, 3)},
        **{("foreign", rows): rows for rows in (1, 2, 3)},
        ("missing", 0): 1,
        ("not_yet", 0): 1,
        ("unconfirmed", 1): 1,
    }
