"""Plain JSON: what is stored of a value, and that nothing else is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from tests.unit.offsets.builders import snapshot


class Counted(NamedTuple):
    name: str
    lost: tuple[LogRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    level: IsolationLevel
    counts: Mapping[str, Counted]
    lost: Mapping[TopicPartition, LogRange]
    who: Mapping[str, Any]
    inner: OffsetSnapshot | None = None
    names: frozenset[str] = frozenset()

    def check_read(self) -> None:
        if "nobody" in self.who:
            raise ValueError("nobody")


RANGE = LogRange("t", 1, 5, 9)
KEPT = Kept(
    IsolationLevel.READ_COMMITTED,
    {"b": Counted("b", (RANGE,)), "a": Counted("a")},
    {TopicPartition("t", 1): RANGE},
    {"x": [1, "\udcff"]},
)


def test_a_value_is_stored_without_defaults_and_in_rows() -> None:
    assert json.loads(plain_json.to_bytes(KEPT)) == {
        "format": 1,
        "level": "read_committed",
        "counts": [["a", []], ["b", [["t", 1, 5, 9]]]],
        "lost": [["t", 1, 5, 9]],
        "who": {"x": [1, "\udcff"]},
    }


@pytest.mark.parametrize("inner", [None, snapshot({0: 5, 1: 7})])
def test_it_is_read_as_it_was_written(inner: OffsetSnapshot | None) -> None:
    value = Kept(KEPT.level, KEPT.counts, KEPT.lost, KEPT.who, inner, frozenset({"b", "a"}))
    content = plain_json.to_bytes(value)
    again = plain_json.from_bytes(Kept, content, "kept")
    assert again == value
    assert type(again.counts["b"].lost[0]) is LogRange
    assert plain_json.to_bytes(again) == content


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"level": "other"},
        {"counts": [["a", []], [5]]},
        {"counts": [["a", 5]]},
        {"who": 5},
        {"who": {"nobody": 1}},
        {"inner": {}},
        {"further": 1},
    ],
)
def test_something_else_is_refused_by_name(change: dict[str, object]) -> None:
    with pytest.raises(LedgerCorruptError, match="This is not a thing"):
        plain_json.from_json(Kept, plain_json.to_json(KEPT) | change, "a thing")
    fields = plain_json.to_json(KEPT)
    del fields["level"]
    with pytest.raises(LedgerCorruptError, match="This is not a thing"):
        plain_json.from_json(Kept, fields, "a thing")


@pytest.mark.parametrize("content", [b"", b"{", b"5", b"[]", b'"x"', b"null", b"\xff", b'{"format":1}'])
def test_what_is_half_written_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(LedgerCorruptError, match="This is not a thing"):
        plain_json.from_bytes(Kept, content, "a thing")
