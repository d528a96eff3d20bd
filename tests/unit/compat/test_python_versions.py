"""What is there for Python 3.10, held to what newer ones do."""

from __future__ import annotations

from datetime import datetime

import pytest

from airflow_kafka_offsets.compat.python_versions import extended

MOMENTS = (
    "2026-11-21",
    "20261121",
    "2026-11-21T06",
    "2026-11-21T06Z",
    "2026-11-21 06:15+02:00",
    "20261121T061530Z",
    "20261121T061530.123Z",
    "2026-11-21T06:15:30.1-0530",
    "2026-11-21T06:15:30,123456789+01",
    "20261121T06:15:30.000001Z",
)


class TestExtended:
    @pytest.mark.parametrize("text", MOMENTS)
    def test_is_the_same_moment_in_the_form_that_python_3_10_reads(self, text: str) -> None:
        written = extended(text)
        assert datetime.fromisoformat(written) == datetime.fromisoformat(text)
        date, _, time = written.partition("T")
        assert len(date) == 10
        assert not time or (len(time.split("+")[0].split("-")[0]) == 15 and "Z" not in time)

    @pytest.mark.parametrize("text", ["yesterday", "2026-11", "2026-11-21T", "2026-11-21T06:15:30 Z", ""])
    def test_leaves_what_is_none_for_python_to_refuse(self, text: str) -> None:
        assert extended(text) == text
