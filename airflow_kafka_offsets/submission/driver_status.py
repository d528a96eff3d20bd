"""The status of a driver on a cluster, for its task and for the trigger that waits in the task's place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.compat.spark_provider import can_follow_drivers
from airflow_kafka_offsets.errors import ConfigurationError, DriverGoneError, KafkaOffsetsError, SparkFailedError
from airflow_kafka_offsets.submission.driver_place import DriverPlace

UNKNOWN = "NotFound"
"""State of a driver that the cluster doesn't know; on Kubernetes it is the provider's own word."""
_UNKNOWN_TO_YARN = "YARN RM REST API returned HTTP 404"


def status_of(task: SparkSubmitOperator, job_id: str, context: Any) -> str:
    """A driver's status, in the cluster's own word. :data:`UNKNOWN` if YARN has forgotten the driver: an error would
    fail the task forever, because clearing the task doesn't clear the store.

    :raises Exception: as the provider does when the cluster doesn't answer.
    """
    try:
        return str(task.get_job_status(job_id, context))
    except RuntimeError as error:
        if _UNKNOWN_TO_YARN not in str(error):
            raise
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """The status of a driver.

    :param state: the cluster's own word; :data:`UNKNOWN` for a driver that it doesn't know.
    :param active: it runs, or will.
    :param succeeded: it has succeeded, as the cluster sees it.
    """

    state: str
    active: bool
    succeeded: bool

    def failure(self, job_id: str) -> KafkaOffsetsError | None:
        """The error for a driver that didn't succeed and left no result or note; None while it is active, or if it
        succeeded."""
        if self.active or self.succeeded:
            return None
        if self.state == UNKNOWN:
            return DriverGoneError(
                f"The cluster no longer knows driver {job_id}, and the driver has left no result: its master or its "
                "pod is gone. A retry runs the load again."
            )
        return SparkFailedError(f"Driver {job_id} ended as {self.state}. Its own log, on the cluster, says why.")


@dataclass(frozen=True, slots=True)
class SubmittedDriver:
    """A driver that was submitted to a cluster: everything needed to ask for its status.

    :param conn_id: id of the Spark connection.
    :param deploy_mode: the operator's deploy mode; None for the connection's.
    :param job_id: YARN application id, or namespace and pod on Kubernetes.
    """

    conn_id: str
    deploy_mode: str | None
    job_id: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> SubmittedDriver:
        """The inverse of :meth:`to_json`."""
        return cls(**fields)

    def status(self) -> DriverStatus:
        """Ask the cluster; this blocks. Raises as the provider does when the cluster doesn't answer."""
        task = SparkSubmitOperator(task_id="driver_status", conn_id=self.conn_id, deploy_mode=self.deploy_mode)
        state = status_of(task, self.job_id, {})
        return DriverStatus(state, task.is_job_active(state), task.is_job_succeeded(state))


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
