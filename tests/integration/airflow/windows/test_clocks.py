"""Clocks: a worker whose clock is ahead stores a snapshot for a time that is long to come."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import InstantError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.pipelines import resolver
from tests.integration.airflow.conftest import Resolve, Run, at, fails_with
from tests.integration.airflow.windows.conftest import Increment, Snapshot, ranges, stamped
from tests.integration.conftest import Produce
from tests.integration.ledger.loads import windows_of

YEAR_MS = 365 * 86_400_000


@pytest.fixture
def a_year_ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The worker's clock; what a test does in its context, that worker does."""
    with monkeypatch.context() as clock:
        clock.setattr(resolver, "now_ms", lambda: now_ms() + YEAR_MS)
        yield clock


def test_a_snapshot_from_a_clock_ahead_fails_the_next_window_and_a_rewind_takes_it_back(
    ten: str, snapshot: Snapshot, resolve: Resolve, run: Run, produce: Produce, a_year_ahead: pytest.MonkeyPatch
) -> None:
    """Otherwise the window would end at offset 10, and so would every one until next year."""
    before = iso_instant(now_ms())
    snapshot(ten)
    a_year_ahead.undo()
    produce(ten, 0, stamped(20, 30))
    with pytest.raises(AirflowFailException, match=r"one of the two clocks is wrong.*ledger rewind") as failed:
        resolve(ten, at(0), at(25))
    assert fails_with(InstantError, failed)
    assert run("ledger", "rewind", "loads", "--to", before)[0] == 0
    assert ranges(resolve(ten, at(0), at(25))) == [(0, 0, 11)]


def test_an_increment_that_was_pinned_from_it_goes_with_it_and_its_records_come_again(
    ten: str,
    increment: Increment,
    run: Run,
    produce: Produce,
    ledger: Ledger,
    a_year_ahead: pytest.MonkeyPatch,
) -> None:
    before = iso_instant(now_ms())
    bad = increment(ten, "run-1")
    a_year_ahead.undo()
    produce(ten, 0, stamped(20, 30))
    with pytest.raises(AirflowFailException, match="one of the two clocks is wrong"):
        increment(ten, "run-2")
    code, out, _ = run("ledger", "rewind", "loads", "--to", before, "--dry-run", "-o", "json")
    assert (code, bad["window"] in json.dumps(json.loads(out))) == (0, True)
    assert run("ledger", "rewind", "loads", "--to", before)[0] == 0
    found = [increment(ten, "run-1"), increment(ten, "run-2")]
    assert [ranges(each)[0][1:] for each in found] == [(0, 12), (12, 12)]
    assert [each.name for each in windows_of(ledger)] == [each["window"] for each in found]
