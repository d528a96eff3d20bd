"""Whose rows an attempt may replace: those of an earlier attempt that its ledger knows, and nobody else's. And places
that have a topic's or a pipeline's name in theirs: which they are, and which are refused.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, LedgerConflictError
from airflow_kafka_offsets.spark import DeltaSink, FileSink, IcebergSink
from airflow_kafka_offsets.spark.sinks.sink import Attempt, places_of

OURS = Attempt("w", 17, "0a1b2c3d", 9, "flights", "0f" * 16, "ab" * 32)


@pytest.mark.parametrize("held", [None, "16-ffffffff", "9-0a1b2c3d"])
def test_rows_of_earlier_attempts_are_replaced(held: str | None) -> None:
    """Numbers are compared as numbers."""
    OURS.require_later(held, is_noted=True)


@pytest.mark.parametrize(
    ("held", "kind", "words"),
    [
        pytest.param("18-ffffffff", CommitConflictError, "which began after this one", id="a later attempt"),
        pytest.param("17-ffffffff", CommitConflictError, "it alone can prove", id="another driver of this one"),
        pytest.param("17-0a1b2c3d", ConfigurationError, "two outputs go to the same place", id="another output"),
    ],
)
def test_others_have_to_stay(held: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        OURS.require_later(held)


@pytest.mark.parametrize("held", ["16-ffffffff", "17-ffffffff", "18-ffffffff"])
def test_those_of_a_driver_that_the_ledger_does_not_know_have_to_stay_too(held: str) -> None:
    stranger = replace(OURS, knows=lambda number, run: False)
    with pytest.raises(LedgerConflictError, match="there is a copy of the ledger"):
        stranger.require_later(held, is_noted=True)


def test_a_key_tells_ledgers_windows_and_outputs_apart() -> None:
    changed = [replace(OURS, ledger_id="0e" * 16), replace(OURS, window="v"), replace(OURS, output="late")]
    assert len({each.key for each in [OURS, *changed]}) == 4
    assert replace(OURS, number=18, run="ffffffff").key == OURS.key


TOPICS = ("Orders.v1", "payments-eu", "2024")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("lake.raw.{topic}", ["lake.raw.orders_v1", "lake.raw.payments_eu", "lake.raw.`2024`"]),
        ("lake.`{pipeline}`.t_{topic}", ["lake.`loads_eu`.t_orders_v1", "lake.`loads_eu`.t_payments_eu"]),
        ("s3a://lake/{pipeline}/{topic}", ["s3a://lake/loads.EU/Orders.v1", "s3a://lake/loads.EU/payments-eu"]),
    ],
)
def test_a_topic_keeps_its_name_in_a_path_and_gets_one_that_each_catalog_takes_in_a_table(
    place: str, expected: list[str]
) -> None:
    found = places_of(place, "loads.EU", TOPICS, is_path="/" in place)
    assert list(found) == list(TOPICS)
    assert list(found.values())[: len(expected)] == expected


@pytest.mark.parametrize("place", ["lake.raw.flights", "file:/lake/{a}/[1]"])
def test_a_place_without_a_topic_is_one_place_and_other_braces_are_its_name(place: str) -> None:
    assert places_of(place, "loads", TOPICS, is_path=True) == {"": place}
    assert places_of("{pipeline}/x", "loads", TOPICS, is_path=True) == {"": "loads/x"}


@pytest.mark.parametrize("topics", [("a.b", "a_b"), ("a-b", "a.b"), ("Orders", "orders")])
def test_two_topics_whose_tables_would_have_one_name_are_refused_but_not_their_folders(
    topics: tuple[str, str],
) -> None:
    for sink in (IcebergSink("lake.raw.{topic}"), DeltaSink("raw.{topic}")):
        with pytest.raises(ConfigurationError, match=rf"topics {topics[0]} and {topics[1]} would both go to the table"):
            sink.outputs("loads", topics)
    for folder in (FileSink("file:///lake/{topic}"), DeltaSink("s3://lake/{topic}")):
        assert len({sink.place for sink in folder.outputs("loads", topics).values()}) == 2


@pytest.mark.parametrize("place", ["/lake/{Topic}", "/lake/{topics}", "/lake/{ pipeline }", "/lake/{topic_name}"])
def test_a_placeholder_that_is_misspelled_is_no_folder_of_that_name(place: str) -> None:
    with pytest.raises(ConfigurationError, match="stands for nothing"):
        FileSink(place).outputs("loads", TOPICS)


def test_each_topic_has_a_sink_of_the_same_kind() -> None:
    orc = FileSink("s3://lake/{topic}", "orc").outputs("loads", TOPICS)["2024"]
    assert (orc.kind, orc.place) == ("orc", "s3a://lake/2024")
