"""Which Spark application a driver is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication

APPLICATION = SparkApplication("app-1", "http://driver:4040")


def test_a_note_is_read_as_it_was_written() -> None:
    assert SparkApplication.from_bytes(APPLICATION.to_bytes()) == APPLICATION


@pytest.mark.parametrize("ui", ["javascript:1", "http://somebody@elsewhere", "//elsewhere", 1, None])
def test_what_is_no_page_of_the_web_is_no_link(ui: Any) -> None:
    note = json.dumps({"application_id": "app-1", "ui": ui}).encode()
    assert SparkApplication.from_bytes(note) == SparkApplication("app-1", None)


@pytest.mark.parametrize("note", [{}, {"application_id": "a/b", "ui": None}, {"application_id": "app-1"}])
def test_something_else_is_refused(note: dict[str, Any]) -> None:
    with pytest.raises(LedgerCorruptError):
        SparkApplication.from_bytes(json.dumps(note).encode())
