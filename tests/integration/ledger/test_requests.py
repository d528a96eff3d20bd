"""What a ledger asks its store for: each request to S3 takes some tens of milliseconds. None of it grows with the
number of windows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.counted import counted as counted_by, statuses
from airflow_kafka_offsets.ledger.entries import AnyEntry, Attempted, Output, Pinned, Published, Snapshotted, Verified
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from tests.integration.counting_s3 import Count, count, counting_server, root
from tests.integration.ledger.loads import begin, load, new_ledger, publish_asked, resolve
from tests.integration.ledger.results import result_of
from tests.unit.offsets.builders import HOUR_MS, T0

__all__ = ["count", "counting_server", "root"]  # fixtures, that pytest finds here
YEAR = 365 * 24


@pytest.fixture
def opened(root: str) -> Callable[..., Ledger]:
    """The ledger as another task opens it."""
    return lambda at_least=0: Ledger(ObjectStoragePath(root), "loads", at_least)


@pytest.fixture
def ledger(root: str) -> Ledger:
    return new_ledger(root)


def with_many_commits(ledger: Ledger, name: str = "") -> Ledger:
    """So that a reader needs a checkpoint.

    :param name: of a window that was loaded.
    """
    name = name or load(ledger, -50).name
    for _ in range(60):
        ledger.change(lambda state: load_decisions.reload(state, [name]))
    return ledger


def a_year(ledger: Ledger) -> Ledger:
    """A year of hourly windows in the log, published and verified; no file but the log's is there."""
    instants = [T0 + hour * HOUR_MS for hour in range(YEAR + 1)]
    hashes = [f"{at:064x}" for at in instants]
    entries: list[AnyEntry] = [Snapshotted(at, name) for at, name in zip(instants, hashes, strict=True)]
    for (start, end), name in zip(pairwise(instants), hashes, strict=False):
        window, output = window_id(start, end), Output("", "parquet", f"s3://lake/{start}", 10)
        entries += [
            Pinned(window, name, 10),
            Attempted(window, {"airflow": {"dag_id": "d", "run_id": str(start), "task_id": "load", "try_number": 1}}),
            Published(window, 2, "0000000a", name, (output,), True, end),
            Verified(window, 2, {"gaps": 0}),
        ]
    ledger.change(lambda state: entries if state.number == 1 else ())
    return with_many_commits(ledger, window)


class TestRequests:
    @pytest.mark.parametrize("long", [False, True])
    def test_of_a_publication(self, count: Count, ledger: Ledger, opened: Callable[..., Ledger], long: bool) -> None:
        window = resolve(with_many_commits(ledger) if long else ledger, 0)
        attempt = begin(ledger, window)
        ledger.attempt(window.name, attempt.number).record_result(result_of(ledger, window, attempt))
        commit = ledger.state.number

        def task() -> None:
            own = opened(commit)
            (counted,) = counted_by(own, own.window(window.name), attempt.number)
            assert counted.verdict.proved
            publish_asked(counted)

        assert len(asked := count(task)) <= 8 + long, asked

    def test_of_a_year_that_is_listed(self, count: Count, ledger: Ledger, opened: Callable[..., Ledger]) -> None:
        a_year(ledger)

        def command() -> None:
            own = opened()
            assert len(statuses(own, own.state.windows.values())) == YEAR

        assert len(asked := count(command)) <= 4, asked

    def test_of_a_command_that_changes_something(
        self, count: Count, ledger: Ledger, opened: Callable[..., Ledger]
    ) -> None:
        a_year(ledger)
        name = window_id(T0, T0 + HOUR_MS)
        asked = count(lambda: opened().change(lambda state: load_decisions.reload(state, [name])))
        assert len(asked) <= 5, asked
