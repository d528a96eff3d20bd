"""Clocks: a worker whose clock is ahead stores a snapshot for a time that is long to come."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import LedgerError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.pipelines import snapshot_maker
from tests.integration.airflow.conftest import Resolve, Run, at, fails_with
from tests.integration.airflow.windows.conftest import Increment, Snapshot, ranges, stamped
from tests.integration.conftest import Produce
from tests.integration.ledger.loads import windows_of

YEAR_MS = 365 * 86_400_000


@pytest.fixture
def a_year_ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The worker's clock; what a test does in its context, that worker does."""
    with monkeypatch.context() as clock:
        clock.setattr(snapshot_maker, "now_ms", lambda: now_ms() + YEAR_MS)
        yield clock


def command(error: str) -> list[str]:
    """The command that an error names, as words."""
    words = error.partition("kafka-offsets ")[2].partition(" forgets the snapshots")[0]
    return words.split()


def test_a_snapshot_from_a_clock_ahead_fails_the_next_window_and_its_command_takes_it_back(
    ten: str, snapshot: Snapshot, resolve: Resolve, run: Run, produce: Produce, a_year_ahead: pytest.MonkeyPatch
) -> None:
    """Otherwise the window would end at offset 10, and so would every one until next year."""
    taken = snapshot(ten)
    a_year_ahead.undo()
    produce(ten, 0, stamped(20, 30))
    with pytest.raises(AirflowFailException, match="365 days ahead of this machine's clock") as failed:
        resolve(ten, at(0), at(25))
    assert fails_with(LedgerError, failed)
    code, out, _ = run(*command(str(failed.value)), "-o", "json")
    assert (code, [row["forgotten"] for row in json.loads(out)]) == (0, [taken["snapshot"]])
    assert ranges(resolve(ten, at(0), at(25))) == [(0, 0, 11)]


def test_an_increment_that_was_pinned_from_it_is_forgotten_first_and_has_its_records_again(
    ten: str,
    increment: Increment,
    run: Run,
    produce: Produce,
    ledger: Ledger,
    a_year_ahead: pytest.MonkeyPatch,
) -> None:
    bad = increment(ten, "run-1")
    a_year_ahead.undo()
    produce(ten, 0, stamped(20, 30))
    with pytest.raises(AirflowFailException, match="ahead of this machine's clock") as failed:
        increment(ten, "run-2")
    take_back = command(str(failed.value))
    code, _, err = run(*take_back)
    assert code == 2
    assert f"ledger forget loads {bad['window']}" in err
    assert run("ledger", "forget", "loads", bad["window"])[0] == 0
    assert run(*take_back)[0] == 0
    found = [increment(ten, "run-1"), increment(ten, "run-2")]
    assert [ranges(each)[0][1:] for each in found] == [(0, 12), (12, 12)]
    assert [each.id for each in windows_of(ledger)] == [each["window"] for each in found]
