"""The driver: who starts it, how that changes what is submitted, and its status on a cluster, for its task and for the
trigger that waits in the task's place. For another cluster manager, begin here.

Most of it is how a connection's credentials get from the worker to the driver. They never appear in a command line, in
a conf that Spark shows, or in a log. The driver finds them in its environment, as
:data:`~airflow_kafka_offsets.spark.session.conf.SECRETS_VARIABLE`, or on YARN in a conf whose value Spark redacts. How
they get there depends on who starts the driver:

=====================  ==================================================================================
driver                 way
=====================  ==================================================================================
client deploy mode     ``spark-submit`` is our child process, and the driver is its child: both inherit it
YARN, cluster          a properties file that only this user can read
Kubernetes, cluster    the user's own Kubernetes secret: anything else would be readable in the pod's specification
=====================  ==================================================================================
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.log import mask_secret

from airflow_kafka_offsets.compat.spark_provider import can_follow_drivers
from airflow_kafka_offsets.errors import ConfigurationError, SparkFailedError
from airflow_kafka_offsets.spark.session.conf import SECRETS, SECRETS_VARIABLE, secrets_text
from airflow_kafka_offsets.submission.confs import DEPLOY_MODE, GivenConfs

KUBERNETES_SECRET = f"spark.kubernetes.driver.secretKeyRef.{SECRETS_VARIABLE}"
"""Conf with which Kubernetes gives the driver a secret: ``<name of the secret>:<key>``."""
_PRIVATE = 0o600
UNKNOWN = "NotFound"
"""State of a driver that the cluster doesn't know; on Kubernetes it is the provider's own word."""
_UNKNOWN_TO_YARN = "YARN RM REST API returned HTTP 404"


class DriverPlace(Enum):
    """Who starts the driver."""

    HERE = auto()
    YARN = auto()
    KUBERNETES = auto()

    @classmethod
    def of(cls, connection: Mapping[str, Any], given: GivenConfs) -> DriverPlace:
        """Read a Spark connection, as the provider gives it.

        :raises ConfigurationError: for a deploy mode that Airflow wouldn't know about, or that the master can't do.
        """
        master, deploy_mode = connection["master"], connection["deploy_mode"]
        wanted = given.confs.get(DEPLOY_MODE, "client")
        if deploy_mode is None and wanted != "client":
            raise ConfigurationError(
                f"The conf {DEPLOY_MODE}={wanted} deploys the driver without Airflow knowing. Use the operator's "
                "deploy_mode= or the Spark connection's extra deploy-mode instead, which override it. It is set in "
                f"{given.source(DEPLOY_MODE)}."
            )
        if deploy_mode != "cluster":
            return cls.HERE
        if master.startswith("spark://"):
            raise ConfigurationError(
                f"{master} is a standalone cluster, where Spark runs no Python application in deploy mode cluster. Use "
                "deploy mode client: the driver then runs on this worker, and the executors on the cluster."
            )
        for start, place in {"yarn": cls.YARN, "k8s://": cls.KUBERNETES}.items():
            if master.startswith(start):
                return place
        raise ConfigurationError(
            f"A driver can't be deployed to {master} in cluster mode. Use yarn or k8s://, or the deploy mode client."
        )

    @property
    def on_cluster(self) -> bool:
        """The driver may outlive this worker: a later try looks for it, and the triggerer can wait for it."""
        return self is not DriverPlace.HERE

    @property
    def runs_this_spark(self) -> bool:
        """The load runs on the Spark of ``spark-submit``, which resolves packages, and gives the files to driver and
        executors. On Kubernetes the image decides, and the driver's pod resolves."""
        return self is not DriverPlace.KUBERNETES

    @property
    def defaults(self) -> Mapping[str, str]:
        """Confs that the user's confs override."""
        # A driver that fails is started again by the task's retries, which know why it failed; not by YARN too.
        return {"spark.yarn.maxAppAttempts": "1"} if self is DriverPlace.YARN else {}

    @property
    def tracking(self) -> str | None:
        """The operator's argument with which ``spark-submit`` ends once it has submitted; None on this worker."""
        tracked = {DriverPlace.YARN: "yarn_track_via_rm_api", DriverPlace.KUBERNETES: "track_driver_via_k8s_api"}
        return tracked.get(self)


@contextmanager
def secrets_on_their_way(place: DriverPlace, secret: Mapping[str, str], given: GivenConfs) -> Iterator[str | None]:
    """Have the credentials ready for the driver while the block submits.

    :param secret: options of the Kafka reader that nobody may see; empty for a connection without credentials.
    :returns: a properties file to use instead of the user's own; None keeps the user's.
    :raises ConfigurationError: when there is no safe way; it names one that the user has.
    """
    if not secret:
        yield None
        return
    text = secrets_text(secret)
    for value in (text, *secret.values()):
        mask_secret(value)
    if place is DriverPlace.YARN:
        with _private_properties({SECRETS: text}, given.file) as path:
            yield path
    elif place is DriverPlace.KUBERNETES:
        _require_kubernetes_secret(given.confs)
        yield None
    else:
        with _variable(text):
            yield None


def _require_kubernetes_secret(confs: Mapping[str, str]) -> None:
    if KUBERNETES_SECRET not in confs:
        raise ConfigurationError(
            "The connections have credentials, which can't be given to a driver pod without showing them in its "
            "specification. Put them into a Kubernetes secret, as a JSON object of reader options such as "
            '{"kafka.sasl.jaas.config": "..."}, and name it in the conf '
            f"{KUBERNETES_SECRET}='<name>:<key>'; or use the deploy mode client."
        )


@contextmanager
def _variable(text: str) -> Iterator[None]:
    os.environ[SECRETS_VARIABLE] = text
    try:
        yield
    finally:
        del os.environ[SECRETS_VARIABLE]


@contextmanager
def _private_properties(added: Mapping[str, str], base: Path | None) -> Iterator[str]:
    """A properties file that includes the lines of ``base``, byte for byte, because Spark reads no other file with
    ``--properties-file``."""
    own = base.read_bytes().removesuffix(b"\n") if base else b""
    # The empty line ends a value that the last line continues with a backslash: what is added isn't a part of it.
    lines = [own, b"", *(f"{name} {value}".encode() for name, value in added.items())]
    with tempfile.TemporaryDirectory(prefix="airflow_kafka_offsets_") as folder:
        path = Path(folder) / "spark.properties"
        path.touch(_PRIVATE)
        path.write_bytes(b"\n".join([*lines, b""]))
        yield str(path)


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
