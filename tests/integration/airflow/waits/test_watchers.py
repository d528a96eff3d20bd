"""Asset watchers on a whole Airflow: real scheduler, workers and triggerer, which is killed and started again."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient

from dev import ROOT
from dev.airflow_services import AirflowServices
from dev.kafka import Broker
from tests.integration.airflow.waits.whole_airflow import DEADLINE_S, commit
from tests.integration.conftest import Produce

WATCHERS = {
    "on_lag_zero": "flights_read",
    "on_new_data": "flights_arrived",
    "on_window_complete": "flights_hour",
}
"""The asset that each example Dag of an asset watcher is scheduled by."""
WINDOW_MS = 15_000
GROUP = "flights-reader"


@pytest.fixture(scope="module")
def watching(
    airflow_services: AirflowServices, broker: Broker, admin: KafkaAdminClient, flights: None
) -> Iterator[AirflowServices]:
    """The example Dags of asset watchers, which watch by now; hours are windows of some seconds.

    Their tasks have retries: a machine that is busy may fail one, and its events are given to no other run.
    """
    commit(broker, "flights", 5, GROUP)
    for dag_id in WATCHERS:
        text = (ROOT / "dags" / f"{dag_id}.py").read_text(encoding="utf-8")
        shorter = f"poll_interval_s=1, window=timedelta(milliseconds={WINDOW_MS})"
        text = text.replace("window=timedelta(hours=1)", shorter).replace("timedelta(minutes=15)", "1")
        text = text.replace("catchup=False,", 'catchup=False, default_args={"retries": 3, "retry_delay": 1},')
        (airflow_services.dags_folder / f"{dag_id}.py").write_text(text, encoding="utf-8")
    for dag_id in WATCHERS:
        airflow_services.unpause(dag_id)
        airflow_services.start_watchers(dag_id)
    for dag_id in WATCHERS:
        airflow_services.wait_until(lambda d=dag_id: remembered(airflow_services, d) is not None, DEADLINE_S)
    yield airflow_services
    for dag_id in WATCHERS:
        (airflow_services.dags_folder / f"{dag_id}.py").unlink()


def remembered(airflow: AirflowServices, dag_id: str) -> Any:
    """What a Dag's watcher keeps in the asset's state; None before it watches."""
    found = "SELECT value FROM asset_state_store JOIN asset ON asset.id = asset_id WHERE asset.name = ?"
    values = [json.loads(value) for (value,) in airflow.query(found, WATCHERS[dag_id])]
    return values[0] if values else None


def fired(airflow: AirflowServices, dag_id: str) -> list[Any]:
    """The payloads of all events that a Dag is scheduled by, oldest first."""
    found = "SELECT e.extra FROM asset_event AS e JOIN asset AS a ON a.id = e.asset_id WHERE a.name = ? ORDER BY e.id"
    return [json.loads(extra)["payload"] for (extra,) in airflow.query(found, WATCHERS[dag_id])]


def reported(airflow: AirflowServices, dag_id: str) -> list[Any]:
    """The payloads that a Dag's runs were given, one after the other."""
    found = """SELECT value FROM xcom JOIN dag_run ON dag_run.id = dag_run_id
        WHERE xcom.dag_id = ? AND key = 'return_value' ORDER BY dag_run.id"""
    return [payload for (value,) in airflow.query(found, dag_id) for payload in json.loads(value)]


def fall_back_and_catch_up(airflow: AirflowServices, broker: Broker) -> None:
    commit(broker, "flights", 5, GROUP)
    airflow.wait_until(lambda: remembered(airflow, "on_lag_zero") is False, DEADLINE_S)
    commit(broker, "flights", None, GROUP)


def wait_for_reports(airflow: AirflowServices, dag_id: str, count: int) -> list[Any]:
    """Wait until a Dag's runs were given so many payloads, which are those of the events, each once. Answers them."""

    def in_turn() -> list[Any]:
        payloads = reported(airflow, dag_id)  # a later run may end before an earlier one does
        return payloads if len(payloads) >= count and payloads == fired(airflow, dag_id)[: len(payloads)] else []

    try:
        return airflow.wait_until(in_turn, DEADLINE_S)
    except RuntimeError as error:
        error.add_note(f"{dag_id}: fired {fired(airflow, dag_id)}, reported {reported(airflow, dag_id)}")
        error.add_note(f"runs: {airflow.runs(dag_id)}")
        raise


def wait_for_events(airflow: AirflowServices, dag_id: str, count: int) -> list[Any]:
    """Wait until a Dag's watcher has fired so often, whatever became of the runs. Answers all payloads."""
    airflow.wait_until(lambda: len(fired(airflow, dag_id)) >= count, DEADLINE_S)
    return fired(airflow, dag_id)


class TestWatchers:
    def test_a_group_that_catches_up_schedules_a_run_each_time(self, watching: AirflowServices, broker: Broker) -> None:
        assert fired(watching, "on_lag_zero") == []
        commit(broker, "flights", None, GROUP)
        zero = {"groups": {GROUP: 0}, "max_lag": 0}
        assert wait_for_reports(watching, "on_lag_zero", 1) == [zero]
        fall_back_and_catch_up(watching, broker)
        assert wait_for_reports(watching, "on_lag_zero", 2) == [zero, zero]

    @pytest.mark.nightly("seconds of a whole Airflow for each; the first test has a watcher schedule runs")
    def test_a_hundred_records_schedule_a_run_each_time(self, watching: AirflowServices, produce: Produce) -> None:
        assert fired(watching, "on_new_data") == []
        produce("flights", 0, [(None, None, b"x")] * 60)
        time.sleep(4)
        assert fired(watching, "on_new_data") == []
        produce("flights", 1, [(None, None, b"x")] * 50)
        (payload,) = wait_for_reports(watching, "on_new_data", 1)
        assert payload.keys() == {"new", "since"}
        assert payload["new"] == {"flights": 110}
        produce("flights", 0, [(None, None, b"x")] * 100)
        assert wait_for_reports(watching, "on_new_data", 2)[1]["new"] == {"flights": 100}

    @pytest.mark.nightly("seconds of a whole Airflow for each; the first test has a watcher schedule runs")
    def test_each_window_schedules_a_run_in_its_turn(self, watching: AirflowServices) -> None:
        payloads = wait_for_reports(watching, "on_window_complete", 2)
        assert payloads[0].keys() == {"start", "end", "partitions_passed", "assumed_idle"}
        assert payloads[0]["partitions_passed"] + len(payloads[0]["assumed_idle"]) == 2
        assert _follow_each_other(payloads)

    @pytest.mark.nightly("seconds of a whole Airflow; the first test has a watcher schedule runs")
    def test_a_triggerer_that_is_killed_and_started_again_fires_for_what_is_new_alone(
        self, watching: AirflowServices, broker: Broker, produce: Produce
    ) -> None:
        """Records that arrive while there is none are new once there is one again, and no window is left out."""
        before = {dag_id: len(fired(watching, dag_id)) for dag_id in WATCHERS}
        watching.wait_until(lambda: len(fired(watching, "on_window_complete")) > before["on_window_complete"])
        time.sleep(3)  # a triggerer that is killed while it fires loses the event
        watching.kill_triggerer()
        windows = len(fired(watching, "on_window_complete"))
        produce("flights", 0, [(None, None, b"x")] * 40)
        watching.start_triggerer()
        watching.wait_until(lambda: len(fired(watching, "on_window_complete")) > windows, DEADLINE_S)
        assert len(fired(watching, "on_lag_zero")) == before["on_lag_zero"]
        assert len(fired(watching, "on_new_data")) == before["on_new_data"]

        produce("flights", 0, [(None, None, b"x")] * 60)
        fall_back_and_catch_up(watching, broker)
        wait_for_events(watching, "on_lag_zero", before["on_lag_zero"] + 1)
        payloads = wait_for_events(watching, "on_new_data", before["on_new_data"] + 1)
        assert payloads[-1]["new"] == {"flights": 100}
        assert _follow_each_other(wait_for_events(watching, "on_window_complete", windows + 1))
        assert len(fired(watching, "on_lag_zero")) == before["on_lag_zero"] + 1
        assert len(fired(watching, "on_new_data")) == before["on_new_data"] + 1


def _follow_each_other(windows: list[Any]) -> bool:
    """Each window begins where the one before ends."""
    return all(one["end"] == other["start"] for one, other in itertools.pairwise(windows))
