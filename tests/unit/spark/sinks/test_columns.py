"""Columns that are added, and those whose type may not change."""

from __future__ import annotations

import re

import pytest
from pyspark.sql.types import ArrayType, DataType, DecimalType, IntegerType, LongType, MapType, StringType, StructType

from airflow_kafka_offsets.errors import ColumnChangedError
from airflow_kafka_offsets.spark.sinks.columns import Widens, added, is_wider, refuse_changed

BEFORE = (
    StructType()
    .add("offset", "long")
    .add("value", StructType().add("id", "integer").add("Tags", ArrayType(StringType())))
    .add("prices", MapType(StringType(), DecimalType(10, 2)))
)


def value(kind: DataType, name: str = "id") -> StructType:
    return StructType().add("value", StructType().add(name, kind))


@pytest.mark.parametrize(
    "now",
    [
        BEFORE,
        StructType().add("offset", LongType(), nullable=False),
        StructType().add("added", "integer").add("OFFSET", "long"),
        value(StringType(), "new_field"),
        value(ArrayType(StringType(), containsNull=False), "tags"),
    ],
)
def test_columns_and_fields_may_come_and_go(now: StructType) -> None:
    refuse_changed("file:/out", BEFORE, now, widens=lambda *_: False)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (StructType().add("offset", "integer"), "offset is bigint there and int in these rows"),
        (value(LongType()), "value.id is int there and bigint in these rows"),
        (value(IntegerType(), "TAGS"), "value.TAGS is array<string> there and int in these rows"),
        (value(ArrayType(IntegerType()), "Tags"), "value.Tags.element is string there and int in these rows"),
        (
            StructType().add("prices", MapType(StringType(), DecimalType(12, 4))),
            "prices.value is decimal(10,2) there and decimal(12,4)",
        ),
        (StructType().add("value", "string"), "value is struct<id:int,Tags:array<string>> there and string in these"),
    ],
)
def test_a_column_keeps_its_type_wherever_it_is_nested(now: StructType, words: str) -> None:
    with pytest.raises(ColumnChangedError, match=re.escape(words)):
        refuse_changed("file:/out", BEFORE, now, widens=lambda *_: False)


@pytest.mark.parametrize(
    ("before", "now", "holds"),
    [
        (IntegerType(), LongType(), True),
        (LongType(), IntegerType(), False),
        (DecimalType(10, 2), DecimalType(12, 2), True),
        (DecimalType(10, 2), DecimalType(12, 3), False),
        (IntegerType(), StringType(), False),
    ],
)
def test_where_a_table_can_do_so_a_column_becomes_wider_but_never_narrower(
    before: DataType, now: DataType, holds: bool
) -> None:
    widens: Widens = is_wider
    if holds:
        refuse_changed("lake.t", value(before), value(now), widens)
        return
    with pytest.raises(ColumnChangedError, match=r"value\.id"):
        refuse_changed("lake.t", value(before), value(now), widens)


def test_what_a_window_lacks_is_still_known_to_the_next_one() -> None:
    second = added(
        BEFORE, StructType().add("extra", "integer").add("value", value(StringType(), "late")["value"].dataType)
    )
    assert second.fieldNames() == ["offset", "value", "prices", "extra"]
    third = added(second, StructType().add("offset", "long"))
    with pytest.raises(ColumnChangedError, match=r"value\.late is string there and int in these rows"):
        refuse_changed("file:/out", third, value(IntegerType(), "late"), widens=lambda *_: False)
