"""Waits: what the sensors of this moment wait for, and since when. Airflow's own database knows; Kafka isn't asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.models.taskreschedule import TaskReschedule
from airflow.models.trigger import Trigger
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import Select, and_, func, or_, select

from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.offsets.instants import instant_ms
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger, condition_from_json

log = logging.getLogger(__name__)

Json = dict[str, Any]

MOST = 1_000
"""So many waits are shown, the longest first."""
_TRIGGER = f"{KafkaWaitTrigger.__module__}.{KafkaWaitTrigger.__name__}"
_ON_WORKERS = {
    "KafkaGroupLagSensor": "the group is within the sensor's limits",
    "KafkaOffsetsReachedSensor": "the group has committed up to a fixed target",
    "KafkaWindowCompleteSensor": "the window is complete on every partition",
    "KafkaNewDataSensor": "new records have arrived",
}
"""Our sensors, and what each waits for on a worker: its limits are known to its process alone."""


def waits(may_read: Callable[[str], bool]) -> Json:
    """All waits of the Dags that a user may read, the longest first: those of deferred sensors, with the condition that
    their trigger was given, and those of sensors that are on a worker or rescheduled, with what Airflow has rendered.

    :param may_read: whether that user may read a Dag.
    """
    with create_session() as session:
        dag_ids = [dag_id for dag_id in session.scalars(_waiting(TaskInstance.dag_id).distinct()) if may_read(dag_id)]
        began = select(func.min(TaskReschedule.start_date)).where(TaskReschedule.ti_id == TaskInstance.id)
        since = func.coalesce(began.scalar_subquery(), TaskInstance.start_date)
        asked = (
            _waiting(TaskInstance, Trigger, RenderedTaskInstanceFields.rendered_fields, since)
            .where(TaskInstance.dag_id.in_(dag_ids))
            .order_by(since, TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index)
            .limit(MOST + 1)
        )
        found = [_wait(*row) for row in session.execute(asked)]
    return {"waits": found[:MOST], "more": len(found) > MOST}


def _waiting(*columns: Any) -> Select[Any]:
    """Of the task instances that wait."""
    deferred = and_(TaskInstance.state == TaskInstanceState.DEFERRED, Trigger.classpath == _TRIGGER)
    states = (TaskInstanceState.RUNNING, TaskInstanceState.UP_FOR_RESCHEDULE)
    on_workers = and_(TaskInstance.state.in_(states), TaskInstance.operator.in_(_ON_WORKERS))
    rendered = RenderedTaskInstanceFields
    same = [
        getattr(rendered, name) == getattr(TaskInstance, name) for name in ("dag_id", "run_id", "task_id", "map_index")
    ]
    return (
        select(*columns)
        .select_from(TaskInstance)
        .outerjoin(Trigger, Trigger.id == TaskInstance.trigger_id)
        .outerjoin(rendered, and_(*same))
        .where(or_(deferred, on_workers))
    )


def _wait(task: TaskInstance, trigger: Trigger | None, rendered: Mapping[str, Any] | None, since: Any) -> Json:
    common = {
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "map_index": task.map_index,
        "try_number": task.try_number,
        "since_ms": None if since is None else instant_ms(since),
    }
    if trigger is not None and task.state == TaskInstanceState.DEFERRED:
        timeout = task.trigger_timeout
        return (
            common
            | {"on": "triggerer", "until_ms": None if timeout is None else instant_ms(timeout)}
            | _deferred(trigger)
        )
    on = "worker" if task.state == TaskInstanceState.RUNNING else "rescheduled"
    return common | {"on": on, "until_ms": None} | _of_worker(str(task.operator), rendered or {})


def _deferred(trigger: Trigger) -> Json:
    """What a trigger was given. One of another version of this package may not be understood."""
    try:
        arguments = trigger.kwargs
        condition = condition_from_json(arguments["condition"])
    except Exception as error:  # each way of keeping them has its own
        log.warning("What trigger %s waits for can't be read.", trigger.id, exc_info=error)
        return {"groups": [], "topics": [], "awaited": None, "kafka_conn_id": None}
    return {
        "groups": _names(getattr(condition, "groups", None) or getattr(condition, "group", None)),
        "topics": _topics_of(condition),
        "awaited": condition.awaited,
        "kafka_conn_id": str(arguments["kafka_conn_id"]),
    }


def _topics_of(condition: Condition) -> list[str]:
    """None named: all that the groups have committed on or read."""
    target = getattr(condition, "target", None)
    return _names(getattr(condition, "topics", None) if target is None else target.names())


def _of_worker(operator: str, rendered: Mapping[str, Any]) -> Json:
    return {
        "groups": _names(rendered.get("groups") or rendered.get("group")),
        "topics": _names(rendered.get("topics")),
        "awaited": _ON_WORKERS[operator],
        "kafka_conn_id": rendered.get("kafka_conn_id"),
    }


def _names(value: Any) -> list[str]:
    """One name or several; Airflow keeps what it has rendered as text where it is long."""
    if not value:
        return []
    return (
        [str(name) for name in value] if isinstance(value, Collection) and not isinstance(value, str) else [str(value)]
    )
