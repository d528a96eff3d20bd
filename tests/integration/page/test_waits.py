"""The list of waits: whose it shows, and what it says of a wait that it can't read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.utils.session import create_session
from sqlalchemy import delete, insert

from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.page import waits
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from tests.integration.page.auth_manager import SECRET
from tests.integration.page.conftest import As
from tests.unit.offsets.builders import HOUR_MS, T0

BEGAN = datetime(2026, 11, 21, 6, tzinfo=UTC)
SINCE = "snapshot 7 as of 2026-11-21T06:00:00.000Z"
TARGET = FixedOffsets.of(SINCE, {TopicPartition("t", 0): 5})
CASES: dict[str, tuple[Condition, str]] = {
    "lag": (GroupsCaughtUp(("g",)), "the group is at most 0 offsets behind"),
    "lags": (
        GroupsCaughtUp(("g", "h"), max_lag=1, max_partition_lag=1000, max_age_ms=60_000, stable_polls=3),
        (
            "each group is at most 1 offset behind and at most 1,000 offsets behind on any partition and behind by no "
            "record older than 60 s, 3 polls in a row"
        ),
    ),
    "age": (GroupsCaughtUp(("g",), max_age_ms=60_000), "the group is behind by no record older than 60 s"),
    "drain": (
        OffsetsReached("g", TARGET),
        f"the group has committed up to the {SINCE}",
    ),
    "window": (WindowComplete(("t",), T0), "every partition has a record at or after 2026-11-21T06:00:00.000Z"),
    "idle": (
        WindowComplete(("t",), T0, HOUR_MS, "assume_after", HOUR_MS),
        (
            "every partition has a record at or after 2026-11-21T07:00:00.000Z; idle='assume_after' from "
            "2026-11-21T08:00:00.000Z on"
        ),
    ),
    "data": (NewData(("t",), TARGET), f"a record has arrived since the {SINCE}"),
    "batch": (
        NewData(("t",), TARGET, 5000, 600_000),
        f"5,000 records have arrived since the {SINCE}, or the first of them is 10 minutes old",
    ),
}


def add_task(dag_id: str, task_id: str, trigger: tuple[str, dict[str, Any]] | None = None, **columns: Any) -> None:
    """A task instance of a run, as a worker or a triggerer leaves it."""
    with create_session() as session:
        if not session.query(DagRun).filter_by(dag_id=dag_id).count():
            run = {"dag_id": dag_id, "run_id": "r", "run_type": "manual", "run_after": BEGAN, "state": "running"}
            session.execute(insert(DagRun.__table__).values(**run, clear_number=0))
        if trigger is not None:
            kept = Trigger(*trigger, created_date=BEGAN)
            session.add(kept)
            session.flush()
            columns |= {"state": "deferred", "trigger_id": kept.id, "trigger_timeout": BEGAN + timedelta(days=900)}
        usual = {
            "id": uuid4(),
            "run_id": "r",
            "map_index": -1,
            "pool": "default_pool",
            "pool_slots": 1,
            "try_number": 1,
        }
        usual |= {"start_date": BEGAN, "span_status": "not_started", "max_tries": 0}
        session.execute(insert(TaskInstance.__table__).values(**usual | columns, dag_id=dag_id, task_id=task_id))


def deferred(condition: Condition) -> tuple[str, dict[str, Any]]:
    trigger = KafkaWaitTrigger(kafka_conn_id="prod", condition=condition.to_json(), poll_interval_s=60)
    return trigger.serialize()


@pytest.fixture(autouse=True)
def nothing_left(log_in: As) -> Iterator[None]:
    yield
    with create_session() as session:
        for model in (RenderedTaskInstanceFields, TaskInstance, DagRun, Trigger):
            session.execute(delete(model))


def listed(log_in: As, role: str = "viewer") -> list[dict[str, Any]]:
    return list(log_in(role).get("/api/waits").json()["waits"])


@pytest.mark.parametrize("case", CASES)
def test_a_deferred_sensor_says_what_its_trigger_was_given(log_in: As, case: str) -> None:
    condition, words = CASES[case]
    add_task("loads", "wait", deferred(condition))
    (wait,) = listed(log_in)
    assert wait["awaited"] == words
    assert (wait["groups"], wait["topics"]) == (
        {"lags": ["g", "h"], "lag": ["g"], "age": ["g"], "drain": ["g"]}.get(case, []),
        [] if case in ("lag", "lags", "age") else ["t"],
    )
    assert (wait["kafka_conn_id"], wait["on"]) == ("prod", "triggerer")
    assert wait["since_ms"] == T0
    assert wait["until_ms"] == T0 + 900 * 24 * HOUR_MS
    assert [wait[name] for name in ("dag_id", "run_id", "task_id", "map_index", "try_number")] == [
        "loads", "r", "wait", -1, 1,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "groups"), [({"groups": "g"}, ["g"]), ({"groups": ["g", "h"], "topics": ["t"]}, ["g", "h"]), ({}, [])]
)
def test_a_poking_sensor_says_what_airflow_has_rendered(log_in: As, given: dict[str, Any], groups: list[str]) -> None:
    add_task("loads", "wait", state="running", operator="KafkaGroupLagSensor")
    with create_session() as session:
        fields = {"dag_id": "loads", "task_id": "wait", "run_id": "r", "map_index": -1, "rendered_fields": given}
        session.execute(insert(RenderedTaskInstanceFields.__table__).values(**fields))
    (wait,) = listed(log_in)
    assert (wait["groups"], wait["topics"], wait["on"]) == (groups, given.get("topics", []), "worker")
    assert wait["awaited"] == "the group is within the sensor's limits"


def test_others_that_wait_or_have_ended_are_not_among_them(log_in: As) -> None:
    add_task("loads", "ended", state="success", operator="KafkaGroupLagSensor")
    add_task("loads", "other", state="running", operator="BashOperator")
    add_task("loads", "elsewhere", ("some.other.Trigger", {"condition": {}}))
    assert listed(log_in) == []


def test_a_dag_that_a_user_may_not_read_has_no_row(log_in: As) -> None:
    add_task(f"{SECRET}_loads", "wait", deferred(GroupsCaughtUp(("hidden-group",))))
    add_task("loads", "wait", deferred(GroupsCaughtUp(("g",))))
    assert [wait["dag_id"] for wait in listed(log_in)] == ["loads"]
    assert "hidden" not in log_in("viewer").get("/api/waits").text
    assert {wait["dag_id"] for wait in listed(log_in, "admin")} == {"loads", f"{SECRET}_loads"}


@pytest.mark.parametrize("arguments", [{}, {"condition": {"kind": "of another version"}}])
def test_a_trigger_of_another_version_hides_no_other(log_in: As, arguments: dict[str, Any]) -> None:
    add_task("loads", "odd", (deferred(GroupsCaughtUp(("g",)))[0], arguments))
    add_task("loads", "wait", deferred(GroupsCaughtUp(("g",))))
    assert {wait["task_id"]: wait["awaited"] is None for wait in listed(log_in)} == {"odd": True, "wait": False}


def test_a_trigger_that_another_key_has_encrypted_hides_no_other(log_in: As) -> None:
    add_task("loads", "wait", deferred(GroupsCaughtUp(("g",))))
    with create_session() as session:
        session.query(Trigger).update({"encrypted_kwargs": "gAAAAABnot-of-this-key"})
    add_task("loads", "other", deferred(GroupsCaughtUp(("g",))))
    assert {wait["task_id"]: wait["awaited"] is None for wait in listed(log_in)} == {"wait": True, "other": False}


def test_those_that_have_waited_longest_are_shown_where_there_are_too_many(
    log_in: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "MOST", 2)
    for hour in (3, 1, 2):
        add_task("loads", f"wait-{hour}", deferred(GroupsCaughtUp(("g",))), start_date=BEGAN + timedelta(hours=hour))
    answer = log_in("viewer").get("/api/waits").json()
    assert ([wait["task_id"] for wait in answer["waits"]], answer["more"]) == (["wait-1", "wait-2"], True)
