"""What a load says of itself when it has ended."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.submission.tries import report_line

REPORT: dict[str, Any] = {
    "window": "w",
    "attempt": "b-2",
    "published_attempt": "b-2",
    "rows": 60,
    "offsets": 60,
    "read": 60,
    "output": "file:/lake",
    "seconds": 6.0,
    "further": [],
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "read, written and counted in 6.0 s, 10 a second"),
        (
            {"published_attempt": "a-1", "seconds": None},
            "attempt a-1 published them before; this one counted them again",
        ),
        ({"published_attempt": "a-1"}, "attempt a-1 came first, and what this one wrote doesn't count"),
    ],
    ids=["its own", "a rerun", "overtaken"],
)
def test_time_is_told_of_what_this_attempt_has_read(changed: dict[str, Any], said: str) -> None:
    """A rerun reads nothing: the first run's seconds and rate aren't its own."""
    line = report_line(REPORT | changed)
    assert line == f"Window w: 60 rows in file:/lake; {said}"
