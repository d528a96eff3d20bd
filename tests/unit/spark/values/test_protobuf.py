"""Protobuf on an executor: frames that are malformed, and values that no column can have. None stops a load."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from airflow_kafka_offsets.spark.values.protobuf import Messages, _Decoder, message_class
from airflow_kafka_offsets.spark.values.protobuf_columns import spark_type

F = descriptor_pb2.FieldDescriptorProto
GOOGLES = ("timestamp", "struct", "any")
FRAME = b"\x00\x00\x00\x00\x07"
MALFORMED = "the position of its message is cut short or malformed"
UNFIT = "it has a value that fits no column: "


def field(name: str, number: int, kind: int, of: str = "") -> Any:
    return F(name=name, number=number, type=kind, type_name=of or None, label=F.LABEL_OPTIONAL)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def needed() -> Messages:
    """Of proto2, which lets text be any bytes."""
    file = descriptor_pb2.FileDescriptorProto(name="schema-7.proto", package="shop", syntax="proto2")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in GOOGLES)
    order = file.message_type.add(name="Order")
    order.field.extend(
        [
            *(field("text", 1, F.TYPE_STRING), field("at", 2, F.TYPE_MESSAGE, ".google.protobuf.Timestamp")),
            *(field("any", 3, F.TYPE_MESSAGE, ".google.protobuf.Any"), field("in", 4, F.TYPE_MESSAGE, ".shop.Order")),
            field("json", 5, F.TYPE_MESSAGE, ".google.protobuf.Struct"),
        ]
    )
    order.nested_type.add(name="Line").field.append(field("x", 1, F.TYPE_INT32))
    names = {(0,): "shop.Order", (0, 0): "shop.Order.Line"}
    return Messages((file.SerializeToString(),), "shop.Order", {FRAME: (7, names)})


@pytest.fixture(scope="module")
def order(needed: Messages) -> Any:
    return message_class(needed)


def decoded(needed: Messages, *values: bytes | None) -> list[dict[str, Any]]:
    content, headers = pa.array(values, pa.binary()), pa.nulls(len(values), pa.binary())
    batch = pa.RecordBatch.from_arrays([content, headers], names=["value", "__kafka_offsets_header"])
    columns = ("value", "value_error", "raw_value", "value_schema_id")
    (found,) = _Decoder(needed, "value", columns)([batch])
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


@pytest.mark.parametrize(
    ("position", "error"),
    [
        (b"\x00", None),
        (b"\x02\x00", None),
        (b"\x04\x00\x00", "it is the message shop.Order.Line, not shop.Order"),
        (b"\x02\x0a", "schema id 7 has no message at the position 5"),
        (b"\x02\x01", "schema id 7 has no message at the position -1"),
        (b"", MALFORMED),
        (b"\x04\x00", MALFORMED),
        (b"\x01", MALFORMED),  # -1 numbers, which isn't none
        (b"\xff\xff\xff\xff\x0f" + bytes(1000), MALFORMED),
        (b"\x80" * 1_000_000, MALFORMED),
    ],
    ids=lambda each: repr(each)[:30],
)
def test_the_position_of_a_message(needed: Messages, position: bytes, error: str | None) -> None:
    (row,) = decoded(needed, FRAME + position)
    assert row["value_error"] == error
    assert (row["value"] is None) == (error is not None)


def test_a_value_that_no_column_can_have_spoils_its_own_record_alone(needed: Messages, order: Any) -> None:
    good, late, unknown, nan = order(text="tea"), order(), order(), order()
    late.at.seconds = 2**62
    getattr(unknown, "in").any.type_url = "example.org/shop.Unknown"
    nan.json["x"] = float("nan")
    frame = FRAME + b"\x00"
    bad = [frame + each for each in (b"\x0a\x02\xff\xfe", *(each.SerializeToString() for each in (late, unknown, nan)))]
    rows = decoded(needed, frame + good.SerializeToString(), None, *bad)
    assert [row["value_error"] is None for row in rows] == [True, True, False, False, False, False]
    assert all(row["value_error"].startswith(UNFIT) for row in rows[2:])
    assert [row["raw_value"] for row in rows[2:]] == bad
    assert (rows[0]["value"]["text"], rows[1]["value"]) == ("tea", None)


def test_what_holds_any_json_is_json(needed: Messages, order: Any) -> None:
    kinds = {each.name: each.dataType.simpleString() for each in spark_type(order.DESCRIPTOR)}  # type: ignore[attr-defined]
    assert (kinds["json"], kinds["in"], kinds["at"]) == ("string", "string", "timestamp")
    value = order()
    value.json["a_b"] = [1, None]
    (row,) = decoded(needed, FRAME + b"\x00" + value.SerializeToString())
    assert row["value"]["json"] == '{"a_b": [1.0, null]}'
