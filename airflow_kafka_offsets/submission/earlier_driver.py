"""The driver of an earlier try: a worker may die while its driver runs on the cluster; the retry then continues with
it.

Airflow's Spark provider keeps the driver's id in the task's state store. Beside it we keep the attempt and the revision
that the driver loads, so that the retry neither begins another attempt nor reports the wrong one. We also keep a hash
of what decides the rows, so that the retry doesn't continue with a driver that runs a transform from before a fix. All
of it is forgotten once the driver has been seen to end well, or has been told to end: a task that is cleared later runs
Spark again.

Nothing secret is kept: Airflow's REST API returns the store's values to everyone who may read the task's instances.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    :param attempt: its attempt at the window.
    :param revision: the window's revision that it loads; not the one that was resolved if only part of that was left.
    """

    job_id: str
    attempt: str
    revision: int


class DriverMemory:
    """What the task's state store knows about the task's driver; nothing if the provider doesn't use the store."""

    def __init__(self, task: SparkSubmitOperator, context: Context) -> None:
        self._task = task
        self._context = context
        self._store: Any = task_state(context) if follows_its_driver(task) else None
        self.failed: str | None = None
        """The attempt of an earlier try, if :meth:`earlier` found that its driver has failed."""

    def note(self, ref: WindowRef, arguments_hash: str, attempt: str, revision: int) -> None:
        """Note an attempt before its driver is submitted. The previous driver is forgotten first, so an id in the store
        always belongs to the noted attempt.

        :param arguments_hash: of what decides which rows the driver writes; see :class:`~.tries.Tries`.
        """
        self.forget()
        if self._store is not None:
            noted = {"attempt": attempt, "revision": revision}
            self._store.set(_ATTEMPT, noted | _wanted(ref, arguments_hash))

    def forget(self) -> None:
        """Forget the driver and its attempt, so that no later try continues with it."""
        if self._store is None:
            return
        # Kubernetes: the last driver's final status, which the provider would take for the next driver's.
        for key in (self._task.external_id_key, K8S_DRIVER_STATUS_KEY, _ATTEMPT):
            self._store.delete(key)

    def earlier(self, ref: WindowRef, arguments_hash: str) -> EarlierDriver | None:
        """The driver to continue with: an earlier try submitted it for the same window and the same rows, and it runs
        or has succeeded. A driver that runs for something else is told to end.

        :returns: None when a driver has to be submitted.
        :raises Exception: as the provider does when the cluster doesn't answer: another driver might then run in vain.
        """
        if self._store is None:
            return None
        job_id, noted = self._store.get(self._task.external_id_key), self._store.get(_ATTEMPT)
        if job_id is None or noted is None:
            return None
        status = status_of(self._task, job_id, self._context)
        if not _wanted(ref, arguments_hash).items() <= noted.items():
            self._task.log.warning(
                "Driver %s (%s) of an earlier try was submitted for something else than this try: submitting another",
                job_id,
                status,
            )
            if self._task.is_job_active(status):
                self._backend_of(job_id).on_kill()
            return None
        if not (self._task.is_job_active(status) or self._task.is_job_succeeded(status)):
            self._task.log.warning("Driver %s of an earlier try is %s: submitting another", job_id, status)
            self.failed = None if status == UNKNOWN else str(noted["attempt"])
            return None
        driver = EarlierDriver(str(job_id), str(noted["attempt"]), int(noted["revision"]))
        self._task.log.info(
            "Continuing with driver %s (%s) of an earlier try, attempt %s", job_id, status, driver.attempt
        )
        return driver

    def wait(self, driver: EarlierDriver) -> None:
        """Wait until the driver ends; raise as the provider does if it fails."""
        self._backend_of(driver.job_id)
        self._task.poll_until_complete(driver.job_id, self._context)

    def _backend_of(self, job_id: Any) -> Any:
        """What can end a driver. The provider stores the driver's id there when it submits, but when it only waits, it
        does so for some clusters only: without the id, on_kill() would leave the driver running."""
        backend = self._task._backend
        if backend.hook._is_yarn_cluster_mode:
            backend.hook._yarn_application_id = job_id
        elif backend.hook._is_kubernetes:
            backend.hook._kubernetes_driver_pod = self._task._parse_k8s_external_id(job_id)[1]
        else:
            backend.hook._driver_id = job_id
        return backend


def _wanted(ref: WindowRef, arguments_hash: str) -> dict[str, str]:
    """What a driver must have been submitted for, so that this try may continue with it."""
    return {"window": ref.window, "sha256": ref.sha256, "arguments_hash": arguments_hash}
