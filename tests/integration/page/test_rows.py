"""Rows on the page are those that the output holds: with a job that makes other rows of the records, the job's."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from airflow_kafka_offsets.page.app import make_app
from tests.integration.ledger.loads import OFFSETS, derive, load, resolve, window
from tests.integration.page.conftest import As, MakePipeline

DERIVED = 3
"""Rows that a job has made of an hour's records."""


@pytest.fixture
def ask(log_in: As, make_pipeline: MakePipeline) -> Any:
    """Ask the page about a pipeline: an hour was loaded, a job has made other rows of the next one's records, and
    one is only pinned."""
    rows = make_pipeline("rows")
    load(rows, 0)
    derive(rows, 1, DERIVED)
    resolve(rows, 2)
    browser = TestClient(make_app(), cookies=log_in("admin").cookies)
    return lambda path="": browser.get(f"/api/pipelines/rows{path}").json()


class TestRows:
    def test_of_a_window_are_those_of_the_output_in_every_place(self, ask: Any) -> None:
        answer = ask()
        stands = ask(f"/windows/{window(1)}")["publication"]
        assert [entry["rows"] for entry in answer["entries"]] == [OFFSETS, DERIVED, None]
        assert answer["overview"]["rows"] == [OFFSETS, DERIVED]
        assert (stands["read"], stands["written"]) == (OFFSETS, DERIVED)

    def test_of_a_partition_are_unknown_if_a_job_has_made_them(self, ask: Any) -> None:
        """A row that was made of many records is of no partition."""
        ranges = [ask(f"/windows/{window(hour)}")["ranges"] for hour in range(3)]
        assert [each["rows"] for (each,) in ranges] == [OFFSETS, None, None]
