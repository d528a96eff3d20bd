"""Times as people write them on the command line, and what is said of those that leave something open."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.cli import instants
from airflow_kafka_offsets.cli.instants import instant, place
from airflow_kafka_offsets.errors import InstantError
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.specs import OffsetSpec

NOW_MS = 1_795_155_600_000
"""2026-11-20T06:20:00Z."""


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instants, "now_ms", lambda: NOW_MS)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-11-20", "2026-11-20T00:00:00.000Z"),
        ("2026-11-20 06:30", "2026-11-20T06:30:00.000Z"),
        ("2026-11-20T06:30:15.5", "2026-11-20T06:30:15.500Z"),
        ("06:20", "2026-11-20T06:20:00.000Z"),
        ("06:21", "2026-11-19T06:21:00.000Z"),
        ("2h ago", "2026-11-20T04:20:00.000Z"),
        ("90 minutes ago", "2026-11-20T04:50:00.000Z"),
        ("3 days ago", "2026-11-17T06:20:00.000Z"),
    ],
)
def test_what_is_left_open_is_utc_and_the_latest_and_said(
    text: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert iso_instant(instant(text)) == meant
    assert capsys.readouterr().err == f"kafka-offsets: {text} is {meant}.\n"


@pytest.mark.parametrize("text", ["2026-11-20T07:30+01:00", "2026-11-20T06:30Z", "20261120T063000000Z"])
def test_an_exact_one_is_taken_without_a_word(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert iso_instant(instant(text)) == "2026-11-20T06:30:00.000Z"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("text", ["yesterday", "25:00", "2026-13-01", "2026-11-20 6:30", "2 ago", "", "1795157400"])
def test_what_is_no_time_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(InstantError, match=r"instant|time"):
        instant(text)


def test_a_place_is_a_word_or_a_time() -> None:
    assert place("max-timestamp") == OffsetSpec.MAX_TIMESTAMP
    assert str(place("2026-11-20 06:30")) == "2026-11-20T06:30:00.000Z"
    for wrong in ("soon", "timestamp"):
        with pytest.raises(InstantError, match="none of latest"):
            place(wrong)
