"""Holes between published windows: what verify and commit say of them, with real groups on a real broker."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import CronDataIntervalTimetable

from airflow_kafka_offsets.errors import HoleError
from airflow_kafka_offsets.ledger.counted import WindowStatus, status
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.operators.commits import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from tests.integration.airflow.conftest import Context, Publish, Resolve, Run
from tests.integration.airflow.windows.conftest import HOUR_S, Said, XCom, stamped
from tests.integration.conftest import MakeTopic, Produce

HOURS = [f"2026-11-20T{hour:02}:00:00Z" for hour in range(6, 13)]


@pytest.fixture
def hourly(topic: MakeTopic, produce: Produce) -> str:
    """Ten records in each hour from six on; none between nine and ten."""
    name = topic(config={"retention.ms": "-1"})
    produce(name, 0, stamped(*(hour * HOUR_S + n for hour in (0, 1, 2, 4, 5) for n in range(10))))
    return name


@pytest.fixture
def load(hourly: str, resolve: Resolve, publish: Publish) -> Any:
    """Resolve the hour that is so many after six, and publish it."""

    def run(hour: int, *, published: bool = True) -> XCom:
        window = resolve(hourly, HOURS[hour], HOURS[hour + 1])
        if published:
            publish(window)
        return window

    return run


@pytest.fixture
def scheduled(context: Context) -> Context:
    """A task of the Dag that loads the windows, which is hourly."""
    schedule = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
    context["ti"].dag_id = "loads"
    return context | {"dag": SimpleNamespace(dag_id="loads", timetable=schedule)}


def verify(window: XCom, context: Context, **arguments: Any) -> XCom:
    return KafkaVerifyWindowOperator(task_id="v", window=window, **arguments).execute(context)


def commit(window: XCom, context: Context, **arguments: Any) -> XCom:
    group = f"g-{window['manifest'].rpartition('/ledger/')[0][-40:].replace('/', '-')}"
    return KafkaCommitOffsetsOperator(task_id="c", window=window, group=group, **arguments).execute(context)


class TestVerify:
    def test_skipped_hours_fail_it_with_the_command_that_loads_them(
        self, load: Any, hourly: str, scheduled: Context, ledger: Ledger
    ) -> None:
        """The scheduler was down for two hours, and catchup is off."""
        assert verify(load(0), scheduled)["tiling"] == "no neighbour yet"
        window = load(2)
        assert verify(load(3), scheduled, on_hole="warn")["tiling"] == "tiles"
        with pytest.raises(HoleError) as hole:
            verify(window, scheduled)
        assert hole.value.retriable
        said = str(hole.value)
        between = "from 2026-11-20T07:00:00.000Z to 2026-11-20T08:00:00.000Z"
        assert f"no window has 10 of the 10 offsets {between}" in said
        dates = "--from-date 2026-11-20T07:00:00.000Z --to-date 2026-11-20T08:00:00.000Z"
        assert f"airflow backfill create --dag-id loads {dates}" in said
        ledger.read()
        assert status(ledger, ledger.window(window["window"])) is WindowStatus.PUBLISHED

    def test_a_retry_passes_once_they_are_loaded(self, load: Any, scheduled: Context) -> None:
        load(0)
        window = load(2)
        with pytest.raises(HoleError):
            verify(window, scheduled)
        load(1)
        assert verify(window, scheduled)["tiling"] == "tiles"

    def test_asked_to_warn_it_passes_and_says_so(
        self, load: Any, scheduled: Context, ledger: Ledger, said: Said
    ) -> None:
        load(0)
        window = load(2)
        report = verify(window, scheduled, on_hole="warn")
        assert report["tiling"].startswith("hole before it: no window has 10 of the 10 offsets from 2026-11-20T07:00")
        ledger.read()
        assert status(ledger, ledger.window(window["window"])) is WindowStatus.VERIFIED

    def test_a_window_that_is_pinned_is_not_loaded_yet(self, load: Any, scheduled: Context) -> None:
        """Backfills run in any order, and side by side."""
        load(0)
        load(1, published=False)
        report = verify(load(2), scheduled)
        assert report["tiling"].startswith("not loaded yet before it: not published yet: 20261120T07")

    def test_a_run_of_a_backfill_passes_though_an_earlier_one_has_not_pinned_its_window(
        self, load: Any, scheduled: Context
    ) -> None:
        load(0)
        backfill = scheduled | {"dag_run": SimpleNamespace(run_type="backfill")}
        assert verify(load(2), backfill)["tiling"].startswith("hole before it: no window has 10")

    def test_time_without_records_is_no_hole(self, load: Any, scheduled: Context) -> None:
        for hour in (0, 1, 2):
            load(hour)
        assert verify(load(4), scheduled)["tiling"] == "tiles"

    def test_what_is_missing_after_it_is_told_and_fails_the_later_one(self, load: Any, scheduled: Context) -> None:
        """A backfill that grows towards the live schedule."""
        load(2)
        assert verify(load(0), scheduled)["tiling"].startswith("hole after it: no window has 10 of the 10 offsets")


class TestCommit:
    def test_never_moves_a_group_past_what_no_published_window_has(self, load: Any, scheduled: Context) -> None:
        """Pinned or not: also where the task of the window in between has failed on it before."""
        assert commit(load(0), scheduled)["committed"] == 1
        load(1, published=False)
        third = load(2)
        with pytest.raises(HoleError, match=r"not published yet: 20261120T07.*clear"):
            commit(third, scheduled)
        with pytest.raises(HoleError, match="not published yet: 20261120T07"):
            commit(load(3), scheduled)

    def test_goes_on_once_it_is_published(self, load: Any, scheduled: Context) -> None:
        commit(load(0), scheduled)
        third = load(2)
        with pytest.raises(HoleError, match="airflow backfill create --dag-id loads --from-date 2026-11-20T07:00:00"):
            commit(third, scheduled)
        load(1)
        assert commit(third, scheduled)["committed"] == 1

    def test_asked_to_warn_it_goes_on_and_later_windows_do(self, load: Any, scheduled: Context) -> None:
        commit(load(0), scheduled)
        assert commit(load(2), scheduled, on_hole="warn")["committed"] == 1
        load(3)
        assert commit(load(4), scheduled)["committed"] == 1

    def test_an_earlier_window_than_the_groups_commits_is_nobodys_concern(self, load: Any, scheduled: Context) -> None:
        load(0)
        commit(load(4), scheduled, on_hole="warn")
        assert commit(load(2), scheduled)["kept"] == 1


class TestLedgerVerify:
    def test_a_backfill_that_is_half_done_can_be_checked_so_far(self, load: Any, run: Run) -> None:
        for hour in (0, 2):
            load(hour)
        code, out, _ = run("ledger", "verify", "loads", "-o", "json")
        hole = json.loads(out)[-1]
        assert (code, hole["claim"], hole["holds"]) == (1, "hole", False)
        assert "from 2026-11-20T07:00:00.000Z to 2026-11-20T08:00:00.000Z" in hole["found"]
        code, out, _ = run("ledger", "verify", "loads", "--on-hole", "warn", "-o", "json")
        assert (code, json.loads(out)[-1]) == (0, hole)
        load(1)
        assert run("ledger", "verify", "loads")[0] == 0
