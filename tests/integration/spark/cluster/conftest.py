"""Loads from a broker with TLS and SCRAM on a Spark standalone cluster, by the operator."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import psutil
import pyarrow.parquet as pq
import pytest
from kafka import KafkaAdminClient, KafkaProducer

from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.spark.session.conf import secrets_text
from dev import ROOT
from dev.airflow_home import environment
from dev.kafka import Broker
from dev.ports import HOST, free_ports
from dev.spark_cluster import SparkCluster
from tests.integration.conftest import USERS
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S
from tests.unit.spark.ledgers import ledger_in
from tests.unit.spark.manifests import FIVE_MS

PASSWORD = USERS["admin"]
PARTITIONS = 2
RECORDS = 30
"""In each partition; the application takes a fifth of a second for each."""
SLOW_LOAD = Path(__file__).parent.parent / "slow_load.py"

T = TypeVar("T")


def wait_for(answers: Callable[[], T], what: str, deadline_s: float = 600) -> T:
    """Wait until something is so; what it answered at last."""
    deadline = time.monotonic() + deadline_s
    while not (answer := answers()):
        assert time.monotonic() < deadline, f"{what}: not within {deadline_s:.0f} s"
        time.sleep(0.1)
    return answer


@pytest.fixture(scope="session")
def locked_topic(guarded_broker: Broker) -> str:
    """A topic of the guarded broker with a record a second from 05:00 on, on each partition."""
    name = f"locked-{uuid.uuid4().hex[:8]}"
    servers = guarded_broker.bootstrap_servers
    with closing(connect(KafkaAdminClient, bootstrap_servers=servers)) as admin:
        options = {"num_partitions": PARTITIONS, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
        admin.create_topics({name: options}, wait_for_metadata=True)
    with closing(connect(KafkaProducer, bootstrap_servers=servers)) as producer:
        for number in range(PARTITIONS * RECORDS):
            partition, second = number % PARTITIONS, number // PARTITIONS
            producer.send(name, b"%d" % second, partition=partition, timestamp_ms=FIVE_MS + second * 1000)
        producer.flush()
    return name


@dataclass
class Load:
    """A load of the locked topic that can be started, watched and killed.

    :param folder: ledger, output, and what the task keeps.
    :param arguments: the operator's.
    :param ui_port: where the driver's UI is to be.
    """

    folder: Path
    arguments: dict[str, Any]
    ui_port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """One try of the task."""
        (self.folder / "task.json").write_text(json.dumps(self.arguments))
        command = [sys.executable, "-m", "tests.integration.spark.cluster.task", str(self.folder)]
        with (self.folder / "task.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def end(self) -> int:
        """Wait for the try's end."""
        assert self.process is not None
        return self.process.wait(200)

    def log(self) -> str:
        """What all tries logged."""
        return (self.folder / "task.log").read_text()

    def result(self) -> dict[str, Any]:
        """XCom of the last try."""
        return dict(json.loads(self.log().splitlines()[-1]))

    def window(self) -> Window:
        """The window, as its ledger has it now."""
        (found,) = ledger_in(self.folder / "ledger" / "locked").state.windows.values()
        return found

    def attempts(self) -> list[int]:
        """The window's attempts that may be published, and the published one."""
        return [attempt.number for attempt in self.window().attempts]

    def rows(self) -> list[tuple[int, int]]:
        """Partition and offset of each published row."""
        published = self.window().publication
        assert published is not None
        output = Path(urlsplit(published.outputs[0].output or "").path)
        found = [row for file in output.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
        return sorted((row["partition"], row["offset"]) for row in found)

    @property
    def ui_url(self) -> str:
        """The driver's UI, as the task found it: Spark takes another port where a neighbour was faster."""
        found = re.findall(r"its UI is (http://\S+)", self.log())
        return str(found[-1]) if found else f"http://{HOST}:{self.ui_port}"

    def ask_ui(self, path: str) -> Any:
        """What the driver's REST API answers for its only application; None while it is silent."""
        try:
            (application,) = httpx.get(f"{self.ui_url}/api/v1/applications", timeout=PATIENCE_S).json()
            answer = httpx.get(f"{self.ui_url}/api/v1/applications/{application['id']}/{path}", timeout=PATIENCE_S)
            return answer.raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            return None

    def reads(self) -> bool:
        """Whether a task of the driver's reads Kafka now."""
        assert self.process is None or self.process.poll() is None, self.log()[-5000:]
        return any(each["numActiveTasks"] for each in self.ask_ui("stages?status=active") or ())


EVERYTHING = [(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)]

MakeLoad = Callable[[], Load]


@pytest.fixture
def make_load(
    spark_cluster: SparkCluster,
    guarded_broker: Broker,
    locked_topic: str,
    connector: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeLoad]:
    """Pin all of the topic, and prepare a load of it; what is still running in the end is killed."""
    for name, value in environment(tmp_path).items():
        if name not in ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("SPARK_LOCAL_IP", HOST)
    monkeypatch.setenv("AIRFLOW__LOGGING__LOGGING_LEVEL", "INFO")
    extra = {
        "bootstrap.servers": guarded_broker.sasl_ssl_bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(guarded_broker.certificates.ca),
    }
    monkeypatch.setenv("AIRFLOW_CONN_LOCKED", json.dumps({"conn_type": "kafka", "extra": extra}))
    made: list[Load] = []

    def make() -> Load:
        spark = {"conn_type": "spark", "host": spark_cluster.master_url, "extra": {"deploy-mode": "client"}}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_CLUSTER", json.dumps(spark))
        resolve = KafkaResolveWindowOperator(
            task_id="resolve",
            pipeline=KafkaPipeline("locked", locked_topic, kafka_conn_id="locked"),
            start="2026-11-21T05:00:00Z",
            end="2026-11-21T05:30:00Z",
        )
        events = tmp_path / "events"
        events.mkdir()
        (ui_port,) = free_ports(1)
        confs = {
            "spark.ui.enabled": "true",
            "spark.ui.port": str(ui_port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
            "spark.local.dir": str(tmp_path / "scratch"),
        }
        arguments = {
            "window": resolve.execute({}),  # type: ignore[arg-type]
            "conn_id": "spark_cluster",
            "application": str(SLOW_LOAD),
            "application_args": [f"{tmp_path.as_uri()}/table"],
            "jars": connector,
            "conf": confs,
            "executor_memory": "512m",
            "driver_memory": "512m",
        }
        made.append(Load(tmp_path, arguments, ui_port))
        return made[-1]

    yield make
    for each in made:
        if each.process is not None and each.process.poll() is None:
            kill_with_children(each.process.pid)
            each.process.wait()


def kill_with_children(pid: int) -> None:
    """End a process and what it started at once, as a worker's crash does."""
    process = psutil.Process(pid)
    for each in (process, *process.children(recursive=True)):
        each.kill()


def command_lines() -> str:
    """Command lines of all processes of this machine, this one's aside."""
    found = []
    for each in psutil.process_iter():
        try:
            found.append(" ".join(each.cmdline()) if each.pid != os.getpid() else "")
        except psutil.Error:
            continue
    return "\n".join(found)


UI_PAGES = ("environment/", "SQL/", "SQL/execution/?id=0", "stages/", "executors/")
UI_REST = ("environment", "sql?details=true&planDescription=true&length=100", "stages", "executors", "jobs")


def seen_in_ui(load: Load) -> str:
    """All that the driver's UI tells of the run."""
    pages = [httpx.get(f"{load.ui_url}/{each}", timeout=PATIENCE_S, follow_redirects=True).text for each in UI_PAGES]
    rest = [str(load.ask_ui(each)) for each in UI_REST]
    assert "kafka" in rest[1].lower(), "the plan of the read is there"
    return "\n".join(pages + rest)


def holding(secret: str, *folders: Path) -> list[Path]:
    """Files with a text in them."""
    return [
        file for each in folders for file in each.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()
    ]


def secrets_of(conn_id: str) -> tuple[str, ...]:
    """What may be seen nowhere: the password, and the text that holds it on its way to the driver."""
    return PASSWORD, secrets_text(KafkaOffsetsHook(conn_id).java_settings().secret)


def active(cluster: SparkCluster) -> Any:
    """Applications that the cluster runs."""
    return cluster.state()["activeapps"]
