"""The driver of an earlier try: a worker may die while a driver runs on the cluster, and the retry goes on with it.

Airflow's Spark provider keeps the driver's id in the task's state store. Which attempt of the window that driver makes,
and of which revision, is kept beside it, so that the retry neither begins another attempt nor reports the wrong one;
and what it was asked for: a transform that was mended since isn't passed over. All that is forgotten once the
driver's end has been seen, or it is told to end: a task that is cleared later runs Spark anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.compat.airflow_versions import task_state
from airflow_kafka_offsets.compat.spark_provider import K8S_DRIVER_STATUS_KEY, follows_its_driver
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.submission.driver_status import UNKNOWN, status_of

if TYPE_CHECKING:
    from airflow.sdk import Context

_ATTEMPT = "kafka_offsets_attempt"


@dataclass(frozen=True, slots=True)
class EarlierDriver:
    """A driver that an earlier try submitted.

    :param job_id: driver id, YARN application id, or namespace and pod on Kubernetes.
    :param attempt: the window's attempt that it makes.
    :param revision: the window's revision that it loads: not the one that was resolved, where only the rest is left.
    :param note_key: what it signs its note with; None where no key was noted, so that its UI isn't asked.
    """

    job_id: str
    attempt: str
    revision: int
    note_key: str | None = field(repr=False)


class DriverMemory:
    """What the task's state store knows of a task's driver; nothing where the provider doesn't use the store either."""

    def __init__(self, task: SparkSubmitOperator, context: Context) -> None:
        self._task = task
        self._context = context
        self._store: Any = task_state(context) if follows_its_driver(task) else None
        self.failed: str | None = None
        """The attempt of an earlier try whose driver :meth:`earlier` found to have failed."""

    def note(self, ref: WindowRef, asked: str, attempt: str, revision: int, note_key: str) -> None:
        """Note an attempt before its driver is submitted. The id of a driver before it is forgotten first: an id that
        the store has is always that of the noted attempt.

        :param asked: hash of what decides which rows the driver writes; see :class:`~.tries.Tries`.
        """
        self.forget()
        if self._store is not None:
            noted = {"attempt": attempt, "revision": revision, "note_key": note_key}
            self._store.set(_ATTEMPT, noted | _wanted(ref, asked))

    def forget(self) -> None:
        """Let no later try go on with a driver of this task."""
        if self._store is None:
            return
        # Kubernetes: how the last driver ended, which the provider would take for the next one's end.
        for key in (self._task.external_id_key, K8S_DRIVER_STATUS_KEY):
            self._store.delete(key)

    def earlier(self, ref: WindowRef, asked: str) -> EarlierDriver | None:
        """The driver to go on with: one that an earlier try submitted for the same window and asked for the same, and
        that runs or has ended well. One that runs for something else is told to end.

        :returns: None when a driver has to be submitted.
        :raises Exception: as the provider does where the cluster doesn't answer: another driver might then run in vain.
        """
        if self._store is None:
            return None
        job_id, noted = self._store.get(self._task.external_id_key), self._store.get(_ATTEMPT)
        if job_id is None or noted is None:
            return None
        status = status_of(self._task, job_id, self._context)
        if not _wanted(ref, asked).items() <= noted.items():
            self._task.log.warning(
                "Driver %s (%s) of an earlier try was asked for something other than this one: another is submitted",
                job_id,
                status,
            )
            if self._task.is_job_active(status):
                self._backend_of(job_id).on_kill()
            return None
        if not (self._task.is_job_active(status) or self._task.is_job_succeeded(status)):
            self._task.log.warning("Driver %s of an earlier try is %s: another is submitted", job_id, status)
            self.failed = None if status == UNKNOWN else str(noted["attempt"])
            return None
        driver = EarlierDriver(str(job_id), str(noted["attempt"]), int(noted["revision"]), noted.get("note_key"))
        self._task.log.info(
            "Continuing with driver %s (%s) of attempt %s, of an earlier try", job_id, status, driver.attempt
        )
        return driver

    def wait(self, driver: EarlierDriver) -> None:
        """Wait until the driver ends; raise as the provider does where it doesn't end well."""
        self._backend_of(driver.job_id)
        self._task.poll_until_complete(driver.job_id, self._context)

    def _backend_of(self, job_id: Any) -> Any:
        """What can end a driver. The provider notes its id there where it submits, and only for some clusters where it
        waits: on_kill() would leave it running."""
        backend = self._task._backend
        if backend.hook._is_yarn_cluster_mode:
            backend.hook._yarn_application_id = job_id
        elif backend.hook._is_kubernetes:
            backend.hook._kubernetes_driver_pod = self._task._parse_k8s_external_id(job_id)[1]
        else:
            backend.hook._driver_id = job_id
        return backend


def _wanted(ref: WindowRef, asked: str) -> dict[str, str]:
    """What a driver must have been submitted for, to be this try's."""
    return {"window": ref.window, "sha256": ref.sha256, "asked": asked}
