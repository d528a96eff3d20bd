"""How a connection's credentials get from the worker to the Spark driver, wherever that runs.

They are never in a command line, a conf that Spark shows, or a log. The driver finds them in its environment, as
:data:`~airflow_kafka_offsets.spark.conf.SECRETS_VARIABLE`, or on YARN in a conf whose value Spark redacts. How they get
there depends on who starts the driver:

=====================  ==================================================================================
driver                 way
=====================  ==================================================================================
client deploy mode     ``spark-submit`` is our child, and the driver its: they inherit it
standalone, cluster    ``spark-submit`` gives the master its own environment with the driver's description
YARN, cluster          a properties file that only this user can read
Kubernetes, cluster    the user's own Kubernetes secret: anything else would be readable in the pod's specification
=====================  ==================================================================================
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from airflow.sdk.log import mask_secret

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.conf import SECRETS, SECRETS_VARIABLE, secrets_text

KUBERNETES_SECRET = f"spark.kubernetes.driver.secretKeyRef.{SECRETS_VARIABLE}"
"""Conf by which Kubernetes gives the driver a secret of its own: ``<name of the secret>:<key>``."""
_REST = "spark.master.rest.enabled"
_PRIVATE = 0o600


class DriverPlace(Enum):
    """Who starts the driver."""

    HERE = auto()
    STANDALONE = auto()
    YARN = auto()
    KUBERNETES = auto()

    @classmethod
    def of(cls, master: str, deploy_mode: str | None) -> DriverPlace:
        """Read a Spark connection."""
        if deploy_mode != "cluster":
            return cls.HERE
        places = {"spark://": cls.STANDALONE, "yarn": cls.YARN, "k8s://": cls.KUBERNETES}
        found = [place for start, place in places.items() if master.startswith(start)]
        if not found:
            raise ConfigurationError(
                f"A driver can't be deployed to {master} in cluster mode. Use spark://, yarn or k8s://, or the deploy "
                "mode client."
            )
        return found[0]


@dataclass(frozen=True, slots=True)
class SecretWay:
    """What ``spark-submit`` needs so that the driver gets the credentials.

    :param confs: more confs; none holds a credential.
    :param properties_file: file to use instead of the user's own; None to leave that.
    """

    confs: Mapping[str, str] = field(default_factory=dict)
    properties_file: str | None = None


@contextmanager
def secrets_on_their_way(
    place: DriverPlace, secret: Mapping[str, str], confs: Mapping[str, str], properties_file: str | None
) -> Iterator[SecretWay]:
    """Have the credentials ready for the driver while the block submits.

    :param place: who starts the driver.
    :param secret: options of the Kafka reader that nobody may see; empty for a connection without credentials.
    :param confs: the user's confs.
    :param properties_file: the user's ``--properties-file``.
    :raises ConfigurationError: where there is no safe way, with the way that the user has.
    """
    if not secret:
        yield SecretWay()
        return
    text = secrets_text(secret)
    for each in (text, *secret.values()):
        mask_secret(each)
    if place is DriverPlace.YARN:
        with _private_properties({SECRETS: text}, properties_file) as path:
            yield SecretWay(properties_file=path)
    elif place is DriverPlace.KUBERNETES:
        _require_kubernetes_secret(confs)
        yield SecretWay()
    else:
        with _variable(text):
            yield SecretWay(_without_rest(confs) if place is DriverPlace.STANDALONE else {})


def _require_kubernetes_secret(confs: Mapping[str, str]) -> None:
    if KUBERNETES_SECRET not in confs:
        raise ConfigurationError(
            "The Kafka connection has credentials, which can't be given to a driver pod without showing them in its "
            "specification. Put them into a Kubernetes secret, as a JSON object of reader options such as "
            '{"kafka.sasl.jaas.config": "..."}, and name it in the conf '
            f"{KUBERNETES_SECRET}='<name>:<key>'; or use the deploy mode client."
        )


def _without_rest(confs: Mapping[str, str]) -> dict[str, str]:
    """Spark's REST submission drops every variable whose name doesn't begin with SPARK_."""
    if confs.get(_REST, "false").lower() == "true":
        raise ConfigurationError(
            f"The Kafka connection has credentials, which the conf {_REST}=true keeps from the driver: Spark's REST "
            "submission doesn't pass them on. Leave it out, and let the connection's port be the master's own (7077)."
        )
    return {_REST: "false"}


@contextmanager
def _variable(text: str) -> Iterator[None]:
    os.environ[SECRETS_VARIABLE] = text
    try:
        yield
    finally:
        del os.environ[SECRETS_VARIABLE]


@contextmanager
def _private_properties(added: Mapping[str, str], properties_file: str | None) -> Iterator[str]:
    """A properties file that holds the user's, or Spark's defaults, which ``--properties-file`` would hide."""
    base = Path(properties_file) if properties_file else _spark_defaults()
    lines = [base.read_text(encoding="utf-8")] if base else []
    lines += [f"{name} {value}" for name, value in added.items()]
    with tempfile.TemporaryDirectory(prefix="airflow_kafka_offsets_") as folder:
        path = Path(folder) / "spark.properties"
        path.touch(_PRIVATE)
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        yield str(path)


def _spark_defaults() -> Path | None:
    """The ``spark-defaults.conf`` that ``spark-submit`` would read; None when there is none."""
    chosen = os.environ.get("SPARK_CONF_DIR")
    folders = [Path(chosen)] if chosen else [home / "conf" for home in _spark_homes()]
    found = (folder / "spark-defaults.conf" for folder in folders)
    return next((each for each in found if each.is_file()), None)


def _spark_homes() -> Iterator[Path]:
    """Where Spark is, as its own ``find-spark-home`` looks for it."""
    if home := os.environ.get("SPARK_HOME"):
        yield Path(home)
        return
    if program := shutil.which("spark-submit"):
        yield Path(program).resolve().parent.parent
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        yield Path(pyspark.origin).parent
