"""What verify's line says of rows that lie outside the window's time."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.operators.verify_window import _outside


@pytest.mark.parametrize(
    ("timed", "rows", "words"),
    [
        (True, 1_200, "1,200"),
        (True, 0, "0"),
        (True, None, "not counted"),
        (False, None, "not applicable, as the window isn't between two instants"),
    ],
)
def test_rows_outside_the_window_are_told_in_words(timed: bool, rows: int | None, words: str) -> None:
    assert _outside(timed, rows) == words
