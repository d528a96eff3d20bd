"""The status of a driver on a cluster, for its task and for the trigger that waits in the task's place."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Self

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.compat.spark_provider import can_follow_drivers
from airflow_kafka_offsets.errors import ConfigurationError, SparkFailedError
from airflow_kafka_offsets.submission.driver_place import DriverPlace

UNKNOWN = "NotFound"
"""State of a driver that the cluster doesn't know; on Kubernetes it is the provider's own word."""
_UNKNOWN_TO_YARN = "YARN RM REST API returned HTTP 404"


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """The status of a driver.

    :param state: the cluster's own word; :data:`UNKNOWN` for a driver that it doesn't know, or no longer.
    :param active: it runs, or will.
    :param succeeded: it has succeeded, as the cluster sees it.
    """

    state: str
    active: bool
    succeeded: bool

    @classmethod
    def of(cls, task: SparkSubmitOperator, job_id: str, context: Any) -> Self:
        """Ask the cluster; this blocks.

        :param job_id: YARN application id, or namespace and pod on Kubernetes.
        :raises Exception: as the provider does when the cluster doesn't answer.
        """
        try:
            state = str(task.get_job_status(job_id, context))
        except RuntimeError as error:
            if _UNKNOWN_TO_YARN not in str(error):
                raise
            state = UNKNOWN
        return cls(state, task.is_job_active(state), task.is_job_succeeded(state))

    def failure(self, job_id: str) -> SparkFailedError | None:
        """The error for a driver that has failed; None for any other: how one has ended that the cluster no longer
        knows, only the ledger can tell."""
        if self.active or self.succeeded or self.state == UNKNOWN:
            return None
        return SparkFailedError(f"Driver {job_id} ended as {self.state}. Its own log, on the cluster, says why.")


def status_of(conn_id: str, deploy_mode: str | None, job_id: str) -> DriverStatus:
    """Ask the cluster without the task that has submitted the driver. Returns and raises as :meth:`DriverStatus.of`.

    :param conn_id: id of the Spark connection.
    :param deploy_mode: the operator's deploy mode; None for the connection's.
    """
    task = SparkSubmitOperator(task_id="driver_status", conn_id=conn_id, deploy_mode=deploy_mode)
    return DriverStatus.of(task, job_id, {})


def require_deferrable(task: SparkSubmitOperator, place: DriverPlace) -> None:
    """Refuse to wait on the triggerer for a driver that the triggerer can't ask the cluster about."""
    if not can_follow_drivers():
        raise ConfigurationError(
            "deferrable=True needs apache-airflow-providers-apache-spark 6.3.1 or newer, but this is "
            f"{version('apache-airflow-providers-apache-spark')}: upgrade it, or leave deferrable out."
        )
    if place.tracking is not None and not getattr(task, f"_{place.tracking}", False):
        raise ConfigurationError(
            f"deferrable=True needs {place.tracking}=True: without it spark-submit keeps the worker until the driver "
            "has ended."
        )
    if getattr(task, "_yarn_rm_auth", None) is not None:
        raise ConfigurationError(
            "deferrable=True can't hand yarn_rm_auth= to the triggerer: give the Spark connection a keytab and a "
            "principal, or leave deferrable out."
        )
