"""Which Spark application a driver is: only a note with the driver's own signature leads to a page."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication

KEY, RUN = "key", "0000000a"
APPLICATION = SparkApplication("app-1", "http://driver:4040")
NOTE = APPLICATION.to_json(7, RUN, KEY)


def test_a_note_is_read_as_it_was_signed() -> None:
    assert SparkApplication.from_json(NOTE, 7, RUN, KEY) == APPLICATION


@pytest.mark.parametrize(
    ("note", "attempt", "run", "key"),
    [
        pytest.param(NOTE, 8, RUN, KEY, id="of another attempt"),
        pytest.param(NOTE, 7, "0000000b", KEY, id="of another driver of the attempt"),
        pytest.param(NOTE, 7, RUN, "other", id="with another key"),
        pytest.param(NOTE, 7, RUN, None, id="with a key that nobody knows any more"),
        pytest.param(APPLICATION.to_json(7, RUN, None), 7, RUN, KEY, id="by nobody's key"),
        pytest.param(NOTE | {"ui": "http://elsewhere"}, 7, RUN, KEY, id="with another page"),
        pytest.param(SparkApplication("app-1", "javascript:1").to_json(7, RUN, KEY), 7, RUN, KEY, id="of no page"),
    ],
)
def test_another_one_leads_nowhere(note: dict[str, Any], attempt: int, run: str, key: str | None) -> None:
    assert SparkApplication.from_json(note, attempt, run, key) == SparkApplication("app-1", None)


@pytest.mark.parametrize("note", [{}, {"application_id": "a/b", "ui": None}, {"application_id": "app-1"}])
def test_something_else_is_refused(note: dict[str, Any]) -> None:
    with pytest.raises(LedgerCorruptError):
        SparkApplication.from_json(note, 7, RUN, KEY)
