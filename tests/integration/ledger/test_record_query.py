"""Record queries: what a ledger answers to those that make sense; the others are refused, with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.record_query import RecordQuery, find_records
from airflow_kafka_offsets.offsets.keys import partition_of_key
from tests.integration.ledger.added_topics import ADDED, add_topic, at_hour
from tests.integration.ledger.loads import OFFSETS, counted, new_ledger, pin, window
from tests.unit.offsets.builders import HOUR_MS, T0

KEY = b"customer-4711"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """An hour of a topic with two partitions, and one of the same topic with nine."""
    made = new_ledger(tmp_path)
    pin(made, counted(0, 2), counted(1, 2))
    pin(made, counted(1, 2), counted(2, 9))
    return made


def test_an_offset_is_looked_up_in_its_partition(ledger: Ledger) -> None:
    found = find_records(ledger, RecordQuery("t", 1, offset=OFFSETS))
    assert {partition: place.window for partition, place in found.places.items()} == {1: window(1)}
    assert (found.key, found.at, found.windows()) == (None, None, {window(1)})


def test_of_a_key_it_is_looked_up_in_each_partition_that_the_key_may_be_in(ledger: Ledger) -> None:
    found = find_records(ledger, RecordQuery("t", key=KEY, offset=1))
    assert list(found.places) == [partition_of_key(KEY, 9), partition_of_key(KEY, 2)]


def test_at_an_instant_a_key_leaves_out_other_partitions(ledger: Ledger) -> None:
    at = find_records(ledger, RecordQuery("t", key=KEY, at_ms=T0)).at
    assert at is not None
    assert [each.partition for each in at.windows[0].ranges] == [partition_of_key(KEY, 2)]


def test_a_key_alone_has_partitions_and_no_window(ledger: Ledger) -> None:
    found = find_records(ledger, RecordQuery("t", key=KEY))
    assert found.key is not None
    assert (found.places, found.at, found.windows()) == ({}, None, frozenset())


def test_a_forgotten_window_is_one_of_its_windows(ledger: Ledger) -> None:
    forget_windows(ledger, [window(0)], "a test")
    assert find_records(ledger, RecordQuery("t", at_ms=T0)).windows() == {window(0)}


def test_of_a_topic_that_was_added_its_first_window_is_one_of_them(tmp_path: Path) -> None:
    """It has all older records, whatever instant is asked for."""
    made = new_ledger(tmp_path / "added")
    *_, first = add_topic(made)
    for at_ms in (0, T0, T0 + 2 * HOUR_MS):
        assert find_records(made, RecordQuery(ADDED, at_ms=at_ms)).windows() == {first.manifest.window}


@pytest.mark.parametrize("query", [{"key": KEY}, {"key": KEY, "offset": 600}, {"key": KEY, "at_ms": T0}])
def test_of_a_topic_that_was_added_a_backfill_changes_no_answer(tmp_path: Path, query: dict[str, int]) -> None:
    made = new_ledger(tmp_path / "added")
    add_topic(made)
    asked = RecordQuery(ADDED, **query)  # type: ignore[arg-type]
    before = find_records(made, asked)
    pin(made, at_hour(-1, 400), at_hour(0))
    assert find_records(made, asked).windows() == before.windows()


@pytest.mark.parametrize("query", [{"at_ms": T0}, {"at_ms": 0}, {"partition": 0, "offset": 1}, {"key": KEY}])
def test_a_topic_that_the_ledger_does_not_have_is_refused(
    ledger: Ledger, tmp_path: Path, query: dict[str, int]
) -> None:
    """Also beside a window that a task has only begun."""
    (tmp_path / "loads" / "windows" / window(2)[:6] / window(2)).mkdir()
    with pytest.raises(ConfigurationError, match=r"has no topic '<script>'; it has t\.$"):
        find_records(ledger, RecordQuery("<script>", **query))  # type: ignore[arg-type]


def test_without_windows_no_topic_is_refused(tmp_path: Path) -> None:
    found = find_records(new_ledger(tmp_path / "other"), RecordQuery("any", 0, offset=1))
    assert found.places[0].found == "there is no window yet"


def test_the_topic_of_a_partition_that_no_window_has_is_not_refused(ledger: Ledger) -> None:
    assert find_records(ledger, RecordQuery("t", 99, at_ms=T0 - HOUR_MS)).windows() == frozenset()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"partition": 1, "key": b"", "offset": 1}, "Leave the partition out"),
        ({"partition": 1, "offset": 1, "at_ms": T0}, "Leave the instant out"),
        ({"key": KEY, "offset": 1, "at_ms": T0}, "Leave the instant out"),
        ({"offset": 1}, "give the partition, or the record's key"),
        ({"partition": 1}, r"Which record of t-1\? Give an offset, an instant \(at\), or a key"),
        ({}, r"Which record\? Give"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        RecordQuery("t", **asked)
