"""Windows that share offsets, by every way in which a task or a command pins one, on a real broker."""

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
    def test_a_later_one_is_refused_and_nothing_is_pinned(
        self, ten: str, resolve: Resolve, publish: Publish, ledger: Ledger
    ) -> None:
        standing = resolve(ten, at(2), at(7))
        publish(standing)
        with pytest.raises(AirflowFailException, match=f"3 of its offsets .*{ten}-0: 3 offsets from 4 on") as refused:
            resolve(ten, at(4), at(9))
        assert fails_with(WindowOverlapError, refused)
        assert f"{standing['window']} too, which is published" in str(refused.value)
        assert [each.id for each in windows_of(ledger)] == [standing["window"]]

    def test_its_own_rerun_is_not(self, ten: str, resolve: Resolve) -> None:
        assert resolve(ten, at(2), at(7)) == resolve(ten, at(2), at(7))

    def test_an_idle_topic_is_not(self, ten: str, resolve: Resolve, ledger: Ledger) -> None:
        """Time alone is shared."""
        resolve(ten, at(0), at(20))
        resolve(ten, at(15), at(30))
        assert len(windows_of(ledger)) == 2

    def test_asked_for_by_name_both_are_pinned(self, ten: str, resolve: Resolve) -> None:
        resolve(ten, at(2), at(7))
        assert ranges(resolve(ten, at(4), at(9), on_overlap="allow")) == [(0, 4, 9)]

    def test_another_word_is_refused(self, ten: str, resolve: Resolve) -> None:
        with pytest.raises(AirflowFailException, match="on_overlap must be 'fail' or 'allow', not 'ignore'"):
            resolve(ten, at(2), at(7), on_overlap="ignore")


class TestBetweenSnapshots:
    def test_from_the_log_start_over_a_loaded_window(self, ten: str, resolve: Resolve, snapshot: Snapshot) -> None:
        resolve(ten, at(2), at(7))
        with pytest.raises(AirflowFailException, match=f"{ten}-0: 5 offsets from 2 on"):
            resolve(ten, snapshot(ten, at="earliest"), snapshot(ten))

    def test_an_hour_of_the_past_after_a_load_from_the_log_start(
        self, ten: str, resolve: Resolve, snapshot: Snapshot
    ) -> None:
        resolve(ten, snapshot(ten, at="earliest"), snapshot(ten))
        with pytest.raises(AirflowFailException, match="of its offsets are in window"):
            resolve(ten, at(2), at(7))

    def test_resolved_anew_it_may_still_meet_its_neighbours(self, ten: str, resolve: Resolve) -> None:
        resolve(ten, at(2), at(7))
        resolve(ten, at(7), at(9))
        assert ranges(resolve(ten, at(2), at(7), re_resolve=True)) == [(0, 2, 7)]


class TestIncrements:
    def test_a_window_of_the_past_below_the_first_one(self, ten: str, increment: Increment, resolve: Resolve) -> None:
        increment(ten, "run-1", since="earliest")
        with pytest.raises(AirflowFailException, match="of its offsets are in window"):
            resolve(ten, at(2), at(7))

    def test_go_on_after_it_was_refused(
        self, ten: str, increment: Increment, resolve: Resolve, produce: Produce
    ) -> None:
        increment(ten, "run-1", since=at(4))
        resolve(ten, at(0), at(4))
        produce(ten, 0, stamped(60))
        assert ranges(increment(ten, "run-2")) == [(0, 10, 11)]


class TestInBulk:
    def test_a_window_that_was_pinned_over_another_one_is_resolved_anew_when_that_is_asked_for(
        self, ten: str, run: Run, resolve: Resolve, produce: Produce
    ) -> None:
        window = resolve(ten, at(2), at(20))
        resolve(ten, at(4), at(30), on_overlap="allow")
        produce(ten, 0, stamped(5, 25))
        anew = ("ledger", "re-resolve", "loads", window["window"], "-o", "json")
        code, _, err = run(*anew)
        assert code == 1
        assert "--on-overlap allow" in err
        code, out, _ = run(*anew, "--on-overlap", "allow")
        assert (code, json.loads(out)[0]["revision"]) == (0, 2)

    def test_the_row_of_a_window_that_overlaps_says_so(self, ten: str, run: Run, resolve: Resolve) -> None:
        standing = resolve(ten, at(2), at(7))
        hours = [(T0 + timedelta(hours=each)).isoformat() for each in (-1, 1)]
        words = ("ledger", "resolve", "loads", "--topics", ten, "--start", hours[0], "--end", hours[1])
        code, out, _ = run(*words, "--cron", "0 * * * *", "-o", "json")
        before, hour = json.loads(out)
        assert (code, before["error"]) == (1, None)
        assert f"5 of its offsets are in window {standing['window']}" in hour["error"]
        code, out, _ = run(*words, "--cron", "0 * * * *", "--on-overlap", "allow", "-o", "json")
        assert (code, [each["error"] for each in json.loads(out)]) == (0, [None, None])
