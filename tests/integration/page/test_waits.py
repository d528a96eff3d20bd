"""The list of waits: whose it shows, and what it says of a wait that it can't read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.utils.session import create_session
from sqlalchemy import delete, insert, text

from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.conditions.wait_memory import WaitMemory
from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from airflow_kafka_offsets.errors import ClusterUnreachableError
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.page.waits import read_waits
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from tests.integration.page.auth_manager import HALF, SECRET
from tests.integration.page.conftest import As
from tests.unit.offsets.builders import HOUR_MS, T0

BEGAN = datetime(2026, 11, 21, 6, tzinfo=UTC)
SINCE = "snapshot 7 as of 2026-11-21T06:00:00.000Z"
SAID = "3 offsets to go"
"""How far the wait had come when its task was deferred."""
TARGET = FixedOffsets.of(SINCE, [SeenOffset("t", 0, 5)])
CASES: list[tuple[Condition, str, list[str], list[str]]] = [
    (GroupsCaughtUp(("g",)), "the group is at most 0 offsets behind", ["g"], []),
    (
        GroupsCaughtUp(("g", "h"), ("t",), max_lag=1, max_age_ms=60_000, stable_polls=3),
        "each group is at most 1 offset behind and behind by no record older than 60 s, 3 polls in a row",
        ["g", "h"],
        ["t"],
    ),
    (GroupsCaughtUp(("g",), max_age_ms=60_000), "the group is behind by no record older than 60 s", ["g"], []),
    (OffsetsReached("g", TARGET), f"the group has committed up to {SINCE}", ["g"], ["t"]),
    (WindowComplete(("t",), T0), "every partition has a record at or after 2026-11-21T06:00:00.000Z", [], ["t"]),
    (
        WindowComplete(("t",), T0, HOUR_MS, "assume_after", HOUR_MS),
        (
            "every partition has a record at or after 2026-11-21T07:00:00.000Z; idle='assume_after' from "
            "2026-11-21T08:00:00.000Z on"
        ),
        [],
        ["t"],
    ),
    (NewData(("t",), TARGET), f"a record has arrived since {SINCE}", [], ["t"]),
    (
        NewData(("t",), TARGET, 5000, 600_000),
        f"5,000 records have arrived since {SINCE}, or the first of them is 10 minutes old",
        [],
        ["t"],
    ),
]
"""Conditions; what each waits for, its groups and its topics."""


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
    memory = {"answered": True, "said": SAID}
    trigger = KafkaWaitTrigger(kafka_conn_id="prod", condition=condition.to_json(), poll_interval_s=60, memory=memory)
    return trigger.serialize()


@pytest.fixture(autouse=True)
def nothing_left(log_in: As) -> Iterator[None]:
    yield
    with create_session() as session:
        for model in (TaskInstance, DagRun, Trigger):
            session.execute(delete(model))


def listed(log_in: As, role: str = "viewer") -> list[dict[str, Any]]:
    return list(log_in(role).get("/api/waits").json()["waits"])


@pytest.mark.parametrize(("condition", "awaited", "groups", "topics"), CASES)
def test_a_deferred_sensor_says_what_its_trigger_was_given(
    log_in: As, condition: Condition, awaited: str, groups: list[str], topics: list[str]
) -> None:
    add_task("loads", "wait", deferred(condition))
    assert listed(log_in) == [
        {
            "dag_id": "loads",
            "run_id": "r",
            "task_id": "wait",
            "map_index": -1,
            "since_ms": T0,
            "until_ms": T0 + 900 * 24 * HOUR_MS,
            "groups": groups,
            "topics": topics,
            "awaited": awaited,
            "kafka_conn_id": "prod",
            "said": SAID,
        }
    ]


def test_others_that_wait_or_have_ended_are_not_among_them(log_in: As) -> None:
    add_task("loads", "ended", state="success", operator="KafkaGroupLagSensor")
    add_task("loads", "pokes", state="running", operator="KafkaGroupLagSensor")
    add_task("loads", "elsewhere", ("some.other.Trigger", {"condition": {}}))
    assert listed(log_in) == []


def test_a_dag_that_a_user_may_not_read_has_no_row(log_in: As) -> None:
    add_task(f"{SECRET}_loads", "wait", deferred(GroupsCaughtUp(("hidden-group",))))
    add_task("loads", "wait", deferred(GroupsCaughtUp(("g",))))
    assert [wait["dag_id"] for wait in listed(log_in)] == ["loads"]
    assert "hidden" not in log_in("viewer").get("/api/waits").text
    assert {wait["dag_id"] for wait in listed(log_in, "admin")} == {"loads", f"{SECRET}_loads"}


def test_what_tasks_wait_for_is_for_those_who_may_read_the_dags_task_instances(log_in: As) -> None:
    add_task(HALF, "wait", deferred(GroupsCaughtUp(("g",))))
    assert (listed(log_in), [wait["dag_id"] for wait in listed(log_in, "admin")]) == ([], [HALF])


def test_why_a_first_check_failed_is_not_told(log_in: As) -> None:
    """It may name brokers."""
    memory = WaitMemory(60)
    memory.take(ClusterUnreachableError("No broker answered at secret-broker:9092."))
    kept = memory.to_json()
    trigger = KafkaWaitTrigger(
        kafka_conn_id="prod", condition=GroupsCaughtUp(("g",)).to_json(), poll_interval_s=60, memory=kept
    )
    add_task("loads", "wait", trigger.serialize())
    assert [wait["said"] for wait in listed(log_in)] == [None]


LAG = GroupsCaughtUp(("g",)).to_json()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"condition": {"kind": "of another version"}},
        {"condition": LAG},
        {"condition": LAG | {"max_age_ms": 10**400}, "kafka_conn_id": "prod"},
    ],
)
def test_a_trigger_of_another_version_hides_no_other(log_in: As, arguments: dict[str, Any]) -> None:
    add_task("loads", "odd", (deferred(GroupsCaughtUp(("g",)))[0], arguments))
    add_task("loads", "wait", deferred(GroupsCaughtUp(("g",))))
    assert {wait["task_id"]: wait["awaited"] is None for wait in listed(log_in)} == {"odd": True, "wait": False}


def test_no_executor_config_is_unpickled(log_in: As) -> None:
    """It is whatever a Dag's author has put there."""
    add_task("loads", "wait", deferred(GroupsCaughtUp(("g",))))
    with create_session() as session:
        session.execute(text("UPDATE task_instance SET executor_config = :odd"), {"odd": b"not a pickle"})
    assert [wait["task_id"] for wait in listed(log_in)] == ["wait"]


def test_a_database_that_fails_is_told_in_words(log_in: As, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("password=secret")

    monkeypatch.setattr("airflow_kafka_offsets.page.app.read_waits", fail)
    answer = log_in("viewer").get("/api/waits")
    assert (answer.status_code, "OSError" in answer.json()["detail"]) == (503, True)
    assert "secret" not in answer.text


def test_a_trigger_that_another_key_has_encrypted_hides_no_other(log_in: As) -> None:
    add_task("loads", "wait", deferred(GroupsCaughtUp(("g",))))
    with create_session() as session:
        session.query(Trigger).update({"encrypted_kwargs": "gAAAAABnot-of-this-key"})
    add_task("loads", "other", deferred(GroupsCaughtUp(("g",))))
    assert {wait["task_id"]: wait["awaited"] is None for wait in listed(log_in)} == {"wait": True, "other": False}


def test_those_that_have_waited_longest_are_shown_where_there_are_too_many(log_in: As) -> None:
    for hour in (3, 1, 2):
        add_task("loads", f"wait-{hour}", deferred(GroupsCaughtUp(("g",))), start_date=BEGAN + timedelta(hours=hour))
    found, more = read_waits(lambda _: True, 2)
    assert ([wait.shown["task_id"] for wait in found], more) == (["wait-1", "wait-2"], True)
