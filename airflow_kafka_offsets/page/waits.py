"""Waits: what deferred sensors are waiting for now, and since when, as Airflow's database has their triggers. A sensor
that pokes has a worker, whose log says it.

How far they have come is asked of Kafka when somebody presses the button, by the triggerer's own conditions: only
through the page's own connection, and only for waits on the same brokers. Of others, the task's log says it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.providers.common.compat.sdk import conf
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import Select, select
from sqlalchemy.orm import lazyload, load_only

from airflow_kafka_offsets.conditions import CONDITIONS
from airflow_kafka_offsets.conditions.condition import Condition, Outcome, Progress, check_all
from airflow_kafka_offsets.conditions.wait_memory import WaitMemory
from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.instants import instant_ms, now_ms
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger

log = logging.getLogger(__name__)

Json = dict[str, Any]

_TRIGGER = f"{KafkaWaitTrigger.__module__}.{KafkaWaitTrigger.__name__}"
_NO_MORE = (
    load_only(
        TaskInstance.dag_id,
        TaskInstance.run_id,
        TaskInstance.task_id,
        TaskInstance.map_index,
        TaskInstance.start_date,
        TaskInstance.trigger_timeout,
    ),
    lazyload(TaskInstance.dag_run),
    load_only(Trigger.classpath, Trigger.encrypted_kwargs),
    lazyload(Trigger.task_instance),
)
"""Which columns are read. Not ``executor_config``, which would be unpickled here, and no related rows."""
_MOST_S = 10.0
"""Deadline of each question, in seconds. Conditions that look at records ask a second one."""
_MOST_ASKED = 100
"""How many conditions are checked at a time: those that have waited longest."""


def page_kafka_conn_id() -> str:
    """The connection that the page uses to ask Kafka: the ``[kafka_offsets] page_kafka_conn_id`` setting. Empty if the
    page doesn't ask Kafka."""
    return str(conf.get("kafka_offsets", "page_kafka_conn_id", fallback="")).strip()


@dataclass(frozen=True, slots=True)
class Wait:
    """A sensor that waits.

    :param shown: what the page shows of it.
    :param condition: what it waits for; None if that can't be read.
    """

    shown: Json
    condition: Condition | None = None


def read_waits(may_read: Callable[[str], bool], most: int) -> tuple[list[Wait], bool]:
    """The waits of the Dags that a user may read, the longest first, and whether there are more. Unknown names are
    None.

    :param may_read: whether the user may read a Dag.
    :param most: how many waits.
    """
    with create_session() as session:
        waiting = list(session.scalars(_waiting(TaskInstance.dag_id).distinct()))
    dag_ids = [dag_id for dag_id in waiting if may_read(dag_id)]  # outside the session: it queries the database too
    query = (
        _waiting(TaskInstance, Trigger)
        .options(*_NO_MORE)
        .where(TaskInstance.dag_id.in_(dag_ids))
        .order_by(
            *(TaskInstance.start_date, TaskInstance.dag_id, TaskInstance.run_id),
            *(TaskInstance.task_id, TaskInstance.map_index),
        )
        .limit(most + 1)
    )
    with create_session() as session:
        found = [_wait(*row) for row in session.execute(query)]
    return found[:most], len(found) > most


def _waiting(*columns: Any) -> Select[Any]:
    """Selects the task instances that wait, with their triggers."""
    return (
        select(*columns)
        .select_from(TaskInstance)
        .join(TaskInstance.trigger)
        .where(TaskInstance.state == TaskInstanceState.DEFERRED)  # uses the index on state
        .where(Trigger.classpath == _TRIGGER)
    )


def _wait(task: TaskInstance, trigger: Trigger) -> Wait:
    """With the trigger's arguments; all None if another version of this package wrote them, or another Fernet key."""
    own = {name: getattr(task, name) for name in ("dag_id", "run_id", "task_id", "map_index")}
    own["since_ms"] = None if task.start_date is None else instant_ms(task.start_date)
    own["until_ms"] = None if task.trigger_timeout is None else instant_ms(task.trigger_timeout)
    try:
        arguments = trigger.kwargs
        fields = arguments["condition"]
        condition = CONDITIONS[fields["kind"]].from_json(fields)
        known = {
            "groups": [str(group) for group in condition.group_ids],
            "topics": [str(topic) for topic in condition.topic_names],
            "awaited": str(condition.awaited),
            "kafka_conn_id": str(arguments["kafka_conn_id"]),
            "said": WaitMemory(0, memory=arguments.get("memory")).progress,
        }
        return Wait(own | known, condition)
    except Exception as error:  # decrypting and deserializing raise many types
        log.warning("Can't read what trigger %s waits for.", trigger.id, exc_info=error)
        return Wait(own | dict.fromkeys(("groups", "topics", "awaited", "kafka_conn_id", "said")))


def waits_now(found: Sequence[Wait]) -> Json:
    """What the page shows of waits, with ``now`` of each: how far it has come, in words; None if Kafka wasn't asked.

    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    own = page_kafka_conn_id()

    @cache
    def is_asked(conn_id: str) -> bool:
        return conn_id == own or _brokers(conn_id) == _brokers(own) != frozenset()

    asked = [each for each in found if each.condition is not None and is_asked(each.shown["kafka_conn_id"])]
    conditions = list(dict.fromkeys(each.condition for each in asked if each.condition is not None))[:_MOST_ASKED]
    asked_ms = now_ms()
    with KafkaOffsetsHook(own).get_conn(_MOST_S) as client:
        told = {each: _words(outcome) for each, outcome in check_all(client, conditions).items()}
    answered = {id(each): told.get(each.condition) for each in asked if each.condition is not None}
    shown = [each.shown | {"now": answered.get(id(each))} for each in found]
    return {"asked_ms": asked_ms, "waits": shown}


def _brokers(conn_id: str) -> frozenset[str]:
    """The brokers that a connection names; empty if it can't be read."""
    try:
        return frozenset(KafkaOffsetsHook(conn_id).settings().bootstrap_servers)
    except Exception as error:  # connections raise many types
        log.warning("The page can't read the connection %s: %s", conn_id, error)
        return frozenset()


def _words(outcome: Outcome) -> str:
    """How far a wait has come. Kafka's own words for an error may name brokers and settings, and aren't told."""
    if isinstance(outcome, Progress):
        return f"{outcome.summary}: done" if outcome.done else outcome.summary
    log.warning("The page can't tell how far a wait has come: %s", outcome)
    if isinstance(outcome, OffsetsError):
        return f"unknown: {', '.join(sorted({f'{what}: {error.name}' for what, error in outcome.failures})[:3])}"
    return f"unknown ({type(outcome).__name__})"
