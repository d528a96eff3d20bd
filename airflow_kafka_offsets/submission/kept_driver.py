"""The driver that an earlier try submitted: a worker may die while its driver runs on the cluster.

Airflow's Spark provider keeps the driver's id in the task's state store, and a retry reconnects to it. The id alone
doesn't say which attempt the driver makes. So it is forgotten before another attempt begins, and once the driver has
been seen to end: an id in the store belongs to the task's newest attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.compat.airflow_versions import TaskState, task_state
from airflow_kafka_offsets.compat.spark_provider import K8S_DRIVER_STATUS_KEY, follows_its_driver
from airflow_kafka_offsets.submission.driver_status import DriverStatus, status_of

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True, slots=True)
class KeptDriver:
    """What the state store knows of a task's driver; nothing if the provider doesn't use the store."""

    task: SparkSubmitOperator
    context: Context

    @property
    def job_id(self) -> Any:
        """The driver's id; None if there is none."""
        return None if self._store is None else self._store.get(self.task.external_id_key)

    def status(self) -> DriverStatus:
        """Its status. Raises as the provider does when the cluster doesn't answer: another driver might run in vain."""
        state = status_of(self.task, self.job_id, self.context)
        return DriverStatus(state, self.task.is_job_active(state), self.task.is_job_succeeded(state))

    def end(self, status: DriverStatus) -> None:
        """Have it end, if it runs, and forget it."""
        if status.active:
            tell_backend(self.task, self.job_id)
            self.task._backend.on_kill()
        self.forget()

    def forget(self) -> None:
        """Forget the driver, so that no later try reconnects to it."""
        if self._store is None:
            return
        # Kubernetes: the last driver's final status, which the provider would take for the next driver's.
        for key in (self.task.external_id_key, K8S_DRIVER_STATUS_KEY):
            self._store.delete(key)

    @property
    def _store(self) -> TaskState | None:
        return task_state(self.context) if follows_its_driver(self.task) else None


def tell_backend(task: SparkSubmitOperator, job_id: Any) -> None:
    """Tell the provider which driver ``on_kill()`` ends. It notes that itself when it submits, but not always when it
    only waits: the driver would run on."""
    hook = task._backend.hook
    if hook._is_yarn_cluster_mode:
        hook._yarn_application_id = job_id
    elif hook._is_kubernetes:
        hook._kubernetes_driver_pod = task._parse_k8s_external_id(job_id)[1]
