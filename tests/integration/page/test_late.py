"""What is late on the page: by the pace of a pipeline's windows, and by the schedule of the Dag that loads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import delete
from starlette.testclient import TestClient

from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.entries import Audited
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, OffsetSnapshot
from airflow_kafka_offsets.page.app import make_app
from tests.integration.ledger.loads import AT_T0, OFFSETS, at_hour, begin, increment, pin, publish_result, resolve
from tests.integration.ledger.results import result_of
from tests.integration.page.conftest import As, MakePipeline
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

MINUTE_MS = 60_000
DAY_MS = 24 * HOUR_MS
DAG = {"dag_id": "scheduled_loads", "run_id": "r", "task_id": "load"}

Ask = Callable[[], dict[str, Any]]


@pytest.fixture
def paced(make_pipeline: MakePipeline) -> Ledger:
    return make_pipeline("paced")


@pytest.fixture
def ask(log_in: As) -> Ask:
    """What the page answers about the pipeline."""
    return lambda: dict(TestClient(make_app(), cookies=log_in("admin").cookies).get("/api/pipelines/paced").json())


def publish_after(ledger: Ledger, window: Window, delay_ms: int) -> None:
    """Publish a window so long after its end."""
    publish_result(
        ledger, window, result_of(ledger, window, begin(ledger, window, DAG)), at_ms=window.end_ms + delay_ms
    )


def latest(minute: int) -> OffsetSnapshot:
    return snapshot({0: AT_T0 + minute}, at_ms=T0 + minute * MINUTE_MS, kind=AsOfKind.LATEST)


class TestWhatIsNext:
    def test_follows_the_last_window_by_the_pace_of_those_before(self, paced: Ledger, ask: Ask) -> None:
        for hour, minutes in enumerate((5, 7, 50)):
            publish_after(paced, resolve(paced, hour), minutes * MINUTE_MS)
        assert ask()["overview"]["next"] == {
            "window": None,
            "state": None,
            "start_ms": T0 + 3 * HOUR_MS,
            "end_ms": T0 + 4 * HOUR_MS,
            "increments": False,
            "length_ms": HOUR_MS,
            "delay_ms": 7 * MINUTE_MS,
            "backfills": 0,
        }

    def test_is_the_first_that_is_not_published_whatever_is_loaded_after_it(self, paced: Ledger, ask: Ask) -> None:
        publish_after(paced, resolve(paced, 0), MINUTE_MS)
        stuck = resolve(paced, 1)
        begin(paced, stuck, DAG)
        publish_after(paced, resolve(paced, 2), MINUTE_MS)
        found = ask()["overview"]["next"]
        assert (found["window"], found["state"], found["end_ms"]) == (stuck.name, "loading", T0 + 2 * HOUR_MS)

    def test_is_told_of_increments_by_the_time_between_them(self, paced: Ledger, ask: Ask) -> None:
        """The first one has all that was there before."""
        begun = snapshot({0: AT_T0}, at_ms=T0 - 30 * DAY_MS)
        for number, minute in enumerate((0, 16, 30, 45)):
            made = increment(paced, f"run-{number}", latest(minute), None if number else begun)
            publish_after(paced, made, 2 * MINUTE_MS)
        found = ask()["overview"]["next"]
        assert (found["start_ms"], found["length_ms"]) == (T0 + 45 * MINUTE_MS, 15 * MINUTE_MS)
        assert (found["delay_ms"], found["increments"]) == (2 * MINUTE_MS, True)

    def test_is_not_told_by_the_first_increment_which_may_be_a_moment_long(self, paced: Ledger, ask: Ask) -> None:
        """It has all that was there before, and starts where the pipeline begins. Alone, it says a minute."""
        made = increment(paced, "run-0", latest(0), snapshot({0: AT_T0}, at_ms=T0 - 1))
        publish_after(paced, made, MINUTE_MS)
        assert ask()["overview"]["next"]["length_ms"] == MINUTE_MS
        publish_after(paced, increment(paced, "run-1", latest(6)), MINUTE_MS)
        assert ask()["overview"]["next"]["length_ms"] == 6 * MINUTE_MS

    def test_of_a_dag_that_catches_up_days_are_no_usual_delay(self, paced: Ledger, ask: Ask) -> None:
        for hour in range(3):
            publish_after(paced, resolve(paced, hour), 9 * DAY_MS)
        assert ask()["overview"]["next"]["delay_ms"] == HOUR_MS

    def test_is_no_window_that_a_backfill_has_pinned_since(self, paced: Ledger, ask: Ask) -> None:
        publish_after(paced, resolve(paced, 5), MINUTE_MS)
        early = resolve(paced, 0)
        answer = ask()
        assert (answer["overview"]["next"]["window"], answer["overview"]["next"]["backfills"]) == (None, 1)
        assert [each["window"] for each in answer["entries"] if each.get("backfill")] == [early.name]

    def test_is_none_whose_table_was_audited_as_something_else_loads_it(self, paced: Ledger, ask: Ask) -> None:
        """What the audits have found wrong is told."""
        for hour, counts in enumerate(({}, {"missing": 3})):
            made = resolve(paced, hour)
            wish = Audited(made.name, "lake.orders", "0000000a", "ab" * 32, counts, OFFSETS, DAG, made.end_ms)
            paced.change(lambda state, wish=wish, made=made: load_decisions.audit(state, wish, made.manifest))
        answer = ask()
        found = [(each["audits"], each["audited_well"]) for each in answer["entries"]]
        assert found == [("lake.orders: complete", True), ("lake.orders: 3 records missing", False)]
        assert answer["overview"]["audits"] == [f"table lake.orders: 3 records missing (audit of window {made.name})"]
        assert (answer["overview"]["next"]["window"], answer["overview"]["next"]["start_ms"]) == (None, made.end_ms)
        assert answer["overview"]["unloaded_from_ms"] == made.start_ms, "the first hour is in its table"
        assert (answer["overview"]["states"], answer["overview"]["audited"]) == ({"pinned": 2}, 2)

    def test_is_known_where_the_first_load_has_failed_and_unknown_without_windows(
        self, paced: Ledger, ask: Ask
    ) -> None:
        assert ask()["overview"]["next"] is None
        first = pin(paced, at_hour(0), at_hour(1, AT_T0 + OFFSETS))
        found = ask()["overview"]["next"]
        assert (found["window"], found["delay_ms"]) == (first.name, HOUR_MS)


class TestSchedule:
    @pytest.fixture(autouse=True)
    def dag(self, log_in: As) -> Iterator[None]:
        """Airflow knows the Dag, which is paused; its schedule goes on after a weekend."""
        start = datetime(2026, 11, 20, tzinfo=UTC)
        columns = {"dag_id": DAG["dag_id"], "bundle_name": "page", "is_paused": True}
        with create_session() as session:
            model = DagModel(**columns)
            model.next_dagrun_data_interval = (start, start + timedelta(days=3))
            session.add(model)
        yield
        with create_session() as session:
            session.execute(delete(DagModel).where(DagModel.dag_id == DAG["dag_id"]))

    def test_of_the_dag_is_told_with_its_pause(self, paced: Ledger, ask: Ask, log_in: As) -> None:
        publish_after(paced, resolve(paced, 0), MINUTE_MS)
        start_ms = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp() * 1000)
        expected = {DAG["dag_id"]: {"paused": True, "next": [start_ms, start_ms + 3 * DAY_MS]}}
        assert ask()["schedules"] == expected
        listed = TestClient(make_app(), cookies=log_in("admin").cookies).get("/api/pipelines").json()
        assert listed["schedules"][DAG["dag_id"]] == expected[DAG["dag_id"]]
        assert "loads" not in listed["schedules"], "Airflow doesn't know that Dag"

    def test_that_can_not_be_read_hides_nothing(self, paced: Ledger, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
        publish_after(paced, resolve(paced, 0), MINUTE_MS)

        def fail() -> None:
            raise OSError("password=secret")

        monkeypatch.setattr("airflow_kafka_offsets.page.ledger_routes.create_session", fail)
        answer = ask()
        assert (answer["schedules"], len(answer["entries"])) == ({}, 1)
