"""Columns: how those of an output may change from one window to the next.

New columns, and new fields of a struct, are added; those that a window lacks are null in its rows. A column that is
there keeps its type, as readers rely on it; a table may let it become wider, so that it holds the old values too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from airflow_kafka_offsets.errors import ColumnChangedError, shorten

Widens: TypeAlias = Callable[[DataType, DataType], bool]
"""Whether a column of one type may take values of another from now on."""
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
"""Whole numbers, from the narrowest type to the widest."""


def refuse_changed(place: str, before: StructType, now: StructType, widens: Widens) -> None:
    """Refuse rows that don't fit what an output holds; before one is written.

    :param place: the output.
    :param before: its columns.
    :param now: those of the rows to write.
    :raises ColumnChangedError: naming each field and both types.
    """
    changes = [
        f"{field} is {old.simpleString()} there and {new.simpleString()} in these rows"
        for field, old, new in _changes("", before, now, widens)
    ]
    if changes:
        raise ColumnChangedError(
            f"The rows don't fit those that {place} has: {shorten(changes)}. Nothing was written. New columns are "
            "added, but a column keeps its type: cast it, give it another name, or load into another output."
        )


def added(before: StructType, now: StructType) -> StructType:
    """The columns of an output once rows are added to it that fit."""
    known = {field.name.lower(): field for field in now.fields}
    kept = [_merged(field, known.pop(field.name.lower(), field)) for field in before.fields]
    return StructType([*kept, *known.values()])


def _merged(before: StructField, now: StructField) -> StructField:
    return StructField(before.name, _merged_type(before.dataType, now.dataType))


def _merged_type(before: DataType, now: DataType) -> DataType:
    match before, now:
        case StructType(), StructType():
            return added(before, now)
        case ArrayType(), ArrayType():
            return ArrayType(_merged_type(before.elementType, now.elementType))
        case MapType(), MapType():
            return MapType(_merged_type(before.keyType, now.keyType), _merged_type(before.valueType, now.valueType))
    return before


def is_wider(before: DataType, now: DataType) -> bool:
    """Whether a type holds all values of another, so that tables which can widen a column do so."""
    if isinstance(before, DecimalType) and isinstance(now, DecimalType):
        return now.scale == before.scale and now.precision > before.precision
    if isinstance(before, _WHOLE) and isinstance(now, _WHOLE):
        return _WHOLE.index(type(now)) > _WHOLE.index(type(before))
    return isinstance(before, FloatType) and isinstance(now, DoubleType)


def _changes(name: str, before: DataType, now: DataType, widens: Widens) -> Iterator[tuple[str, DataType, DataType]]:
    """The fields whose types differ, by their full names, and both types."""
    match before, now:
        case StructType(), StructType():
            known = {field.name.lower(): field.dataType for field in before.fields}
            for field in now.fields:
                old = known.get(field.name.lower())
                if old is not None:
                    yield from _changes(f"{name}.{field.name}".lstrip("."), old, field.dataType, widens)
        case ArrayType(), ArrayType():
            yield from _changes(f"{name}.element", before.elementType, now.elementType, widens)
        case MapType(), MapType():
            yield from _changes(f"{name}.key", before.keyType, now.keyType, widens)
            yield from _changes(f"{name}.value", before.valueType, now.valueType, widens)
        case _:
            if before != now and not widens(before, now):
                yield name, before, now
