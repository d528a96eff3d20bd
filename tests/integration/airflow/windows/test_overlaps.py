"""Windows of a pipeline never cross in time, by whichever way a task or a command pins one, on a real broker."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import WindowOverlapError
from airflow_kafka_offsets.ledger.ledger import Ledger
from tests.integration.airflow.conftest import T0, Publish, Resolve, Run, at, fails_with
from tests.integration.airflow.windows.conftest import Increment, Snapshot, ranges, stamped
from tests.integration.conftest import Produce
from tests.integration.ledger.loads import windows_of


class TestByInterval:
    @pytest.mark.parametrize("loaded", [True, False], ids=["published", "pinned"])
    def test_a_later_one_is_refused_and_nothing_is_pinned(
        self, ten: str, resolve: Resolve, publish: Publish, ledger: Ledger, loaded: bool
    ) -> None:
        standing = resolve(ten, at(2), at(7))
        if loaded:
            publish(standing)
        with pytest.raises(AirflowFailException, match="has some of its time") as refused:
            resolve(ten, at(4), at(9))
        assert fails_with(WindowOverlapError, refused)
        state = "published" if loaded else "pinned"
        assert f"{state} window {standing['window']}" in str(refused.value)
        assert f"ledger void loads {standing['window']}" in str(refused.value)
        assert [each.name for each in windows_of(ledger)] == [standing["window"]]

    def test_neighbours_meet(self, ten: str, resolve: Resolve) -> None:
        assert [ranges(resolve(ten, at(a), at(b))) for a, b in ((2, 7), (7, 9), (0, 2))] == [
            *([(0, 2, 7)], [(0, 7, 9)], [(0, 0, 2)])
        ]

    def test_in_the_time_of_a_voided_one_it_may_be(
        self, ten: str, resolve: Resolve, run: Run, produce: Produce
    ) -> None:
        """The instants stay as they were resolved, whatever came since."""
        standing = resolve(ten, at(2), at(7))
        produce(ten, 0, stamped(3, 20))
        assert run("ledger", "void", "loads", standing["window"])[0] == 0
        assert ranges(resolve(ten, at(2), at(9))) == [(0, 2, 9)]
        assert run("ledger", "list", "loads", "-o", "json")[1].count(at(2)[:10].replace("-", "")) >= 1


class TestBetweenSnapshots:
    def test_to_now_over_a_loaded_window(self, ten: str, resolve: Resolve, snapshot: Snapshot) -> None:
        resolve(ten, at(2), at(7))
        with pytest.raises(AirflowFailException, match="has some of its time"):
            resolve(ten, snapshot(ten, at=at(4)), snapshot(ten))


class TestIncrements:
    def test_a_window_of_their_past(self, ten: str, increment: Increment, resolve: Resolve) -> None:
        increment(ten, "run-1", since=at(1))
        with pytest.raises(AirflowFailException, match="has some of its time") as refused:
            resolve(ten, at(2), at(7))
        assert fails_with(WindowOverlapError, refused)


class TestInBulk:
    def test_all_are_one_step_so_that_one_that_crosses_another_leaves_all_unpinned(
        self, ten: str, run: Run, resolve: Resolve, ledger: Ledger
    ) -> None:
        standing = resolve(ten, at(2), at(7))
        hours = [(T0 + timedelta(hours=each)).isoformat() for each in (-1, 1)]
        words = ("ledger", "resolve", "loads", "--topics", ten, "--start", hours[0], "--end", hours[1])
        code, out, err = run(*words, "--cron", "0 * * * *", "-o", "json")
        assert code == 1
        assert standing["window"] in f"{out}{err}"
        assert [each.name for each in windows_of(ledger)] == [standing["window"]]
        assert json.loads(out or "[]") is not None
