"""Columns of Protobuf messages: the Spark type of a message, and Arrow arrays of many messages' fields.

Imported only where ``protobuf`` and ``pyarrow`` are. A field without a value is null if the message can tell
(``optional``, messages, one of several); otherwise it has its default, as in Protobuf. An enum's value is its name; an
unsigned number is of the next larger type; a message within itself is its JSON, and so is a message that is there to
hold any JSON (``google.protobuf.Struct``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

ColumnOf = Callable[[list[Any]], pa.Array]
"""Makes an array of values, in which None is null."""

UNFIT = (ValueError, OverflowError, TypeError, json_format.Error)
"""What making columns raises for a value that none can have: text that isn't UTF-8, which proto2 allows; a timestamp
after the year 294,246; JSON of an unknown type within an ``Any``."""

_TIMESTAMP = "google.protobuf.Timestamp"
_JSON = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
_WRAPPERS = "google.protobuf."
_WRAPPED = frozenset(
    f"{_WRAPPERS}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_INT = (IntegerType(), pa.int32())
_LONG = (LongType(), pa.int64())
_UNSIGNED = (DecimalType(20, 0), pa.decimal128(20, 0))
_F = FieldDescriptor
_SCALARS: dict[int, tuple[DataType, pa.DataType]] = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), _INT),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), _LONG),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), _LONG),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), _UNSIGNED),
    _F.TYPE_FLOAT: (FloatType(), pa.float32()),
    _F.TYPE_DOUBLE: (DoubleType(), pa.float64()),
    _F.TYPE_BOOL: (BooleanType(), pa.bool_()),
    _F.TYPE_STRING: (StringType(), pa.string()),
    _F.TYPE_BYTES: (BinaryType(), pa.binary()),
    _F.TYPE_ENUM: (StringType(), pa.string()),
}
_MESSAGES = (_F.TYPE_MESSAGE, _F.TYPE_GROUP)


def spark_type(message: Descriptor, within: tuple[str, ...] = ()) -> DataType:
    """The type of a column of a message.

    :param within: full names of the messages that it is in.
    """
    if message.full_name == _TIMESTAMP:
        return TimestampType()
    if message.full_name in _WRAPPED:
        return _SCALARS[message.fields_by_name["value"].type][0]
    if _is_text(message, within):
        return StringType()
    inner = (*within, message.full_name)
    return StructType([StructField(field.name, _type_of_field(field, inner)) for field in message.fields])


def _type_of_field(field: FieldDescriptor, within: tuple[str, ...]) -> DataType:
    if _is_map(field):
        key, value = _entry(field)
        return MapType(_type_of_value(key, within), _type_of_value(value, within))
    kind = _type_of_value(field, within)
    return ArrayType(kind) if _is_repeated(field) else kind


def _type_of_value(field: FieldDescriptor, within: tuple[str, ...]) -> DataType:
    return spark_type(field.message_type, within) if field.type in _MESSAGES else _SCALARS[field.type][0]


def struct_of(message: Descriptor, within: tuple[str, ...] = ()) -> ColumnOf:
    """How a column of messages is made. Arguments as for :func:`spark_type`."""
    if message.full_name == _TIMESTAMP:
        return _timestamps
    if message.full_name in _WRAPPED:
        return _wrapped(message)
    if _is_text(message, within):
        return _texts
    inner = (*within, message.full_name)
    names = [field.name for field in message.fields]
    columns = [_column_of_field(field, inner) for field in message.fields]

    def make(messages: list[Any]) -> pa.Array:
        missing = pa.array([each is None for each in messages], pa.bool_())
        return pa.StructArray.from_arrays([column(messages) for column in columns], names=names, mask=missing)

    return make


def _column_of_field(field: FieldDescriptor, within: tuple[str, ...]) -> ColumnOf:
    """How the column of one field is made from messages, some of which are None."""
    get, name = attrgetter(field.name), field.name
    if _is_map(field):
        return _maps(field, within)
    column = _column_of_value(field, within)
    if _is_repeated(field):
        return lambda messages: _lists([None if each is None else get(each) for each in messages], column)
    if field.has_presence:
        return lambda messages: column(
            [None if each is None or not each.HasField(name) else get(each) for each in messages]
        )
    return lambda messages: column([None if each is None else get(each) for each in messages])


def _column_of_value(field: FieldDescriptor, within: tuple[str, ...]) -> ColumnOf:
    if field.type in _MESSAGES:
        return struct_of(field.message_type, within)
    kind = _SCALARS[field.type][1]
    if field.type == _F.TYPE_ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda values: pa.array([None if each is None else names.get(each, str(each)) for each in values], kind)
    if kind == _UNSIGNED[1]:
        return lambda values: pa.array([None if each is None else Decimal(each) for each in values], kind)
    return lambda values: pa.array(values, kind)


def _lists(values: list[Any], column: ColumnOf) -> pa.Array:
    return pa.ListArray.from_arrays(_starts(values), column([one for each in values if each for one in each]))


def _maps(field: FieldDescriptor, within: tuple[str, ...]) -> ColumnOf:
    key, value = _entry(field)
    keys, values, name = _column_of_value(key, within), _column_of_value(value, within), field.name

    def make(messages: list[Any]) -> pa.Array:
        found = [None if each is None else getattr(each, name) for each in messages]
        names = [one for each in found if each for one in each]
        items = [each[one] for each in found if each for one in each]
        return pa.MapArray.from_arrays(_starts(found), keys(names), values(items))

    return make


def _starts(values: Iterable[Any]) -> pa.Array:
    """Where each list begins among all their elements; null for no list."""
    starts: list[int | None] = []
    at = 0
    for each in values:
        starts.append(None if each is None else at)
        at += len(each or ())
    return pa.array([*starts, at], pa.int32())


def _timestamps(values: list[Any]) -> pa.Array:
    micros = [None if each is None else each.seconds * 1_000_000 + each.nanos // 1_000 for each in values]
    return pa.array(micros, pa.timestamp("us", tz="UTC"))


def _wrapped(message: Descriptor) -> ColumnOf:
    column = _column_of_value(message.fields_by_name["value"], ())
    return lambda values: column([None if each is None else each.value for each in values])


def _texts(values: list[Any]) -> pa.Array:
    written = partial(json_format.MessageToJson, indent=None, preserving_proto_field_name=True)
    return pa.array([None if each is None else written(each) for each in values], pa.string())


def _is_text(message: Descriptor, within: tuple[str, ...]) -> bool:
    return message.full_name in within or message.full_name in _JSON or not message.fields


def _is_repeated(field: FieldDescriptor) -> bool:
    found = getattr(field, "is_repeated", None)  # not before protobuf 6
    return bool(field.label == _F.LABEL_REPEATED if found is None else found)


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.type == _F.TYPE_MESSAGE and field.message_type.GetOptions().map_entry)


def _entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor]:
    entry = field.message_type.fields_by_name
    return entry["key"], entry["value"]
