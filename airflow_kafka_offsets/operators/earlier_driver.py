"""The driver of an earlier try: a worker may die while a driver runs on the cluster, and the retry goes on with it.

Airflow's Spark provider keeps the driver's id in the task's state store. Which attempt of the window that driver makes
is kept beside it, so that the retry neither begins another attempt nor reports the wrong one. Both are forgotten once
the driver's end has been seen: a task that is cleared later runs Spark anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.hooks.window_ref import WindowRef

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import Context

_ATTEMPT = "kafka_offsets_attempt"
_NOT_KNOWN = ("Spark REST API returned failure", "YARN RM REST API returned HTTP 404")
"""What the provider says when a standalone master, or YARN, answers that it has no such driver."""


@dataclass(frozen=True, slots=True)
class EarlierDriver:
    """A driver that an earlier try submitted.

    :param job_id: driver id, YARN application id, or namespace and pod on Kubernetes.
    :param attempt: the window's attempt that it makes.
    """

    job_id: str
    attempt: str


def note_attempt(task: SparkSubmitOperator, context: Context, ref: WindowRef, attempt: str) -> None:
    """Note an attempt before its driver is submitted. The id of a driver before it is forgotten first: an id that the
    store has is always that of the noted attempt."""
    forget_driver(task, context)
    if (store := _store(task, context)) is not None:
        store.set(_ATTEMPT, {"attempt": attempt, "window": ref.window, "sha256": ref.sha256})


def forget_driver(task: SparkSubmitOperator, context: Context) -> None:
    """Let no later try go on with a driver of this task."""
    if (store := _store(task, context)) is None:
        return
    # Kubernetes: how the last driver ended, which the provider would take for the next one's end.
    for key in (task.external_id_key, task._K8S_DRIVER_STATUS_KEY):
        store.delete(key)


def earlier_driver(task: SparkSubmitOperator, context: Context, ref: WindowRef) -> EarlierDriver | None:
    """The driver to go on with: one that an earlier try submitted for the same window, and that runs or has ended well.

    :param ref: what this try is to load.
    :returns: None when a driver has to be submitted.
    :raises Exception: as the provider does where the cluster doesn't answer: another driver might then run in vain.
    """
    if (store := _store(task, context)) is None:
        return None
    job_id, noted = store.get(task.external_id_key), store.get(_ATTEMPT)
    if job_id is None or noted is None or (noted["window"], noted["sha256"]) != (ref.window, ref.sha256):
        return None
    status = _status(task, context, job_id)
    if status is None or not (task.is_job_active(status) or task.is_job_succeeded(status)):
        return None
    driver = EarlierDriver(str(job_id), str(noted["attempt"]))
    task.log.info("Going on with driver %s (%s) of attempt %s, of an earlier try", job_id, status, driver.attempt)
    return driver


def _status(task: SparkSubmitOperator, context: Context, job_id: Any) -> str | None:
    """How a driver is; None when the cluster has no memory of it, as a standalone master that was started anew has not.
    A task would otherwise fail for ever: clearing it leaves the state store as it is."""
    try:
        return str(task.get_job_status(job_id, context))
    except RuntimeError as error:
        if not any(words in str(error) for words in _NOT_KNOWN):
            raise
        task.log.warning("The cluster has no driver %s of an earlier try, another is submitted: %s", job_id, error)
        return None


def wait_for_driver(task: SparkSubmitOperator, context: Context, driver: EarlierDriver) -> None:
    """Wait until the driver ends.

    :raises Exception: it didn't end well; as the provider does.
    """
    # The provider sets it where it submits alone, and on_kill() would leave the application running.
    hook = task._backend.hook
    if hook._is_yarn_cluster_mode:
        hook._yarn_application_id = driver.job_id
    task.poll_until_complete(driver.job_id, context)


def _store(task: SparkSubmitOperator, context: Context) -> Any:
    """The task state store; None where the provider doesn't use it either."""
    return context.get("task_state_store") if task.durable else None
