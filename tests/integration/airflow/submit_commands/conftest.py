"""A program in spark-submit's place that notes what it is given, and counts as a driver does, so that no cluster is
needed. A standalone cluster is a real one, in ``tests/integration/spark/cluster``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.triggers.base import BaseTrigger

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from dev.kafka import Broker
from dev.spark_packages import CONNECTOR
from tests.integration.airflow.conftest import COUNT, Context, Resolve, at, sasl, use_connection
from tests.integration.conftest import USERS
from tests.unit.submission.resource_manager import APPLICATION_ID

PASSWORD = USERS["admin"]
POD = "load-1f2e3d-driver"

NOTING = f"""#!{sys.executable}
import json, os, sys
words = sys.argv[1:]
file = words[words.index("--properties-file") + 1] if "--properties-file" in words else None
noted = {{"words": words, "secrets": os.environ.get("KAFKA_OFFSETS_SECRETS")}}
if file:
    noted |= {{"properties": open(file).read(), "mode": os.stat(file).st_mode}}
with open(os.path.join(os.path.dirname(__file__), "noted.jsonl"), "a") as notes:
    print(json.dumps(noted), file=notes)
print("Submitted {APPLICATION_ID}", "pod name: {POD}", "Exit code: 0", sep="\\n")
"""


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What spark-submit was given, a line each time; the file is there after the first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "spark-submit"
    program.write_text(NOTING + COUNT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.eventLog.enabled true\n")
    return folder / "noted.jsonl"


@pytest.fixture(autouse=True)
def locked(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    use_connection(monkeypatch, "locked", sasl(broker, "admin", PASSWORD))


@pytest.fixture(autouse=True)
def _metrics(context: Context) -> None:
    context["ti"].stats_tags = {}


@pytest.fixture
def window(ten: str, resolve: Resolve) -> dict[str, Any]:
    """Five records, of a pipeline whose connection has a password."""
    return locked_in(resolve(ten, at(2), at(7)))


def locked_in(window: dict[str, Any]) -> dict[str, Any]:
    """The same window, whose load has a connection with a password."""
    return window | {"kafka_conn_id": "locked"}


def spark_connection(monkeypatch: pytest.MonkeyPatch, host: str, **extra: str) -> None:
    fields = {"conn_type": "spark", "host": host, "extra": {"deploy-mode": "cluster"} | extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(fields))


def load(window: Any, **arguments: Any) -> KafkaSparkSubmitOperator:
    return KafkaSparkSubmitOperator(
        task_id="load",
        window=window,
        packages=CONNECTOR,
        application_args=["--output", "hdfs:///data/orders"],
        **arguments,
    )


def last(noted: Path) -> dict[str, Any]:
    """What spark-submit was given last."""
    return dict(json.loads(noted.read_text().splitlines()[-1]))


def driver_of(context: Context) -> Any:
    """The id of the driver that the next try may go on with."""
    (found,) = [each for key, each in context["task_state_store"].items() if key.startswith("kafka_offsets_driver_")]
    return found


def confs(broker: Broker, window: dict[str, Any], attempt: int) -> list[str]:
    """The confs of every load, as words of a command."""
    told = {
        "kafka.bootstrap.servers": broker.sasl_bootstrap_servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
    }
    own = {
        "allowGaps": "false",
        "manifest": window["manifest"],
        "sha256": window["sha256"],
        "attempt": attempt,
        "commit": attempt,  # nothing was committed since
    }
    return [f"spark.kafkaOffsets.{name}={value}" for name, value in (told | own).items()]


def as_words(values: list[str]) -> list[str]:
    return [word for value in values for word in ("--conf", value)]


QUIET = as_words(["spark.log.level=WARN"])
GIVEN_BACK = as_words(
    [
        "spark.kafka.consumer.fetchedData.cache.timeout=200ms",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval=100ms",
        "spark.kafka.consumer.cache.timeout=200ms",
        "spark.kafka.consumer.cache.evictorThreadRunInterval=100ms",
    ]
)
"""Confs by which executors don't keep what they have read."""


class WorkerDies(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def dying_between_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the worker die when the provider waits between two questions to the cluster."""

    def die(_seconds: float) -> None:
        raise WorkerDies

    monkeypatch.setattr(spark_submit, "time", SimpleNamespace(sleep=die))


def first_event(trigger: BaseTrigger) -> Any:
    """What a trigger fires first."""

    async def fire() -> Any:
        return await anext(aiter(trigger.run()))

    return asyncio.run(fire()).payload
