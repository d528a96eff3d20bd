"""Airflow's classes against the session's broker: connections and a ledger as a user would set them up."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import ObjectStoragePath
from kafka import KafkaAdminClient

from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.references import WindowRef
from dev.kafka import Broker
from tests.integration.client.cases.workload import connected_client
from tests.integration.conftest import MakeTopic, Produce, Record, produce_to
from tests.integration.kafka_clients import connect
from tests.integration.ledger.loads import begin, publish_result
from tests.unit.offsets.proof.results import run_result, tallies

Context = dict[str, Any]
Commit = Callable[[str, str, int], None]
Resolve = Callable[..., dict[str, Any]]
Publish = Callable[[dict[str, Any]], None]
InSparksPlace = Callable[[str], None]
DagFrom = Callable[[str, str], Any]
Run = Callable[..., tuple[int, str, str]]

T0 = datetime(2026, 11, 20, 6, tzinfo=UTC)
T0_MS = int(T0.timestamp() * 1000)
FOR_EVER = {"retention.ms": "-1"}
DAY_MS = 86_400_000
FIRST_DAY_MS = int(datetime(2013, 3, 9, tzinfo=UTC).timestamp() * 1000)
RECORDS_A_DAY = 40
LOCAL_SPARK = json.dumps({"conn_type": "spark", "host": "local[2]"})


@pytest.fixture(autouse=True)
def ledger_root(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Connection ``kafka_default`` reaches the broker, and the setting names a fresh ledger root."""
    use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": broker.bootstrap_servers})
    root = tmp_path / "ledger"
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", root.as_uri())
    return root


@pytest.fixture
def client(broker: Broker) -> Iterator[OffsetsClient]:
    with connected_client(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def context() -> Context:
    """A task's context, as far as our classes read it. Tests add the run's interval."""
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="t", try_number=1, max_tries=0)
    return {"ti": ti, "task_state_store": TaskStateStore()}


def cleared(context: Context) -> None:
    """Have Airflow clear the task, which has one retry from then on, and start it again. The store stays as it is."""
    ti = context["ti"]
    ti.max_tries = ti.try_number + 1
    ti.try_number += 1


class TaskStateStore(dict[str, Any]):
    """The task state store, as far as tasks of ours use it; Airflow's own is used where Airflow runs them."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))

    def delete(self, key: str) -> None:
        self.pop(key, None)


@pytest.fixture
def resolve(context: Context) -> Resolve:
    """Run the resolve operator for a topic and two instants."""

    def run(topic: Any, start: Any, end: Any, pipeline: str = "loads", **arguments: Any) -> dict[str, Any]:
        of, own = split(arguments)
        operator = KafkaResolveWindowOperator(
            task_id="resolve", pipeline=KafkaPipeline(pipeline, topic, **of), start=start, end=end, **own
        )
        return operator.execute(context)

    return run


def split(arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of a pipeline, and others."""
    of = {name: value for name, value in arguments.items() if name in KafkaPipeline.template_fields}
    return of, {name: value for name, value in arguments.items() if name not in of}


@pytest.fixture(scope="session")
def flights(broker: Broker, admin: KafkaAdminClient, produce: Produce) -> None:
    """Topic ``flights`` with three days of records and one after them on each partition."""
    config = {"retention.ms": "-1"}
    admin.create_topics({"flights": {"num_partitions": 2, "replication_factor": 1, "configs": config}})
    for partition in range(2):
        produce("flights", partition, [flight(number) for number in range(3 * RECORDS_A_DAY + 1)])


def write_flights(bootstrap_servers: str) -> None:
    """The topic on a broker of a test's own: a partition with two days of records, and one after them."""
    with closing(connect(KafkaAdminClient, bootstrap_servers=bootstrap_servers)) as admin:
        admin.create_topics({"flights": {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    produce_to(bootstrap_servers, "flights", 0, [flight(number) for number in range(2 * RECORDS_A_DAY + 1)])


def flight(number: int) -> Record:
    """A record of ``flights``. Every tenth one isn't JSON."""
    stamp = FIRST_DAY_MS + number * (DAY_MS // RECORDS_A_DAY)
    hour = datetime.fromtimestamp(stamp / 1000, UTC).strftime("%Y-%m-%dT%H:00:00Z")
    told = {"time_hour": hour, "carrier": "UA" if number % 3 else "AA", "distance": number}
    return stamp, b"N1", json.dumps(told).encode() if number % 10 else b"not a flight"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``kafka-offsets …`` in this process. Returns exit code, stdout, stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            main(words)
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


@pytest.fixture
def publish() -> Publish:
    """Record a window as published, as a Spark run would that read and wrote every offset once."""

    def record(window: dict[str, Any]) -> None:
        ref = WindowRef.from_json(window)
        ledger = ref.ledger()
        pinned = ref.window_in(ledger)
        manifest, attempt = ledger.pinned(pinned).manifest, begin(ledger, pinned, {"dag_id": "loads", "run_id": "r-1"})
        publish_result(ledger, pinned, run_result(manifest, tallies(manifest), attempt=attempt.number))

    return record


def at(seconds: float) -> str:
    """An instant relative to T0, as a template would give it."""
    return (T0 + timedelta(seconds=seconds)).isoformat()


def fails_with(kind: type[Exception], failed: pytest.ExceptionInfo[AirflowFailException]) -> bool:
    """The task failed for good, for this reason."""
    return isinstance(failed.value.__cause__, kind)


@pytest.fixture
def ten(topic: MakeTopic, produce: Produce) -> str:
    """A topic of one partition with ten records, a second apart from T0 on."""
    name = topic(config=FOR_EVER)
    produce(name, 0, [(T0_MS + n * 1000, None, b"x") for n in range(10)])
    return name


@pytest.fixture
def ledger(ledger_root: Path) -> Ledger:
    return Ledger(ObjectStoragePath(ledger_root.as_uri()), "loads")


def recreate(admin: KafkaAdminClient, topic: str) -> None:
    """Delete a topic and make another one of the same name."""
    admin.delete_topics([topic])
    options = {"num_partitions": 1, "replication_factor": 1, "configs": FOR_EVER}
    admin.create_topics({topic: options}, wait_for_metadata=True)


def sasl(broker: Broker, user: str, password: str) -> dict[str, str]:
    """The extra of a connection that logs in."""
    return {
        "bootstrap.servers": broker.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
    }


def use_connection(monkeypatch: pytest.MonkeyPatch, conn_id: str, extra: dict[str, Any], **fields: Any) -> None:
    """Define an Airflow connection."""
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "kafka", "extra": extra} | fields))


@pytest.fixture
def commit(broker: Broker) -> Commit:
    """Commit one offset of partition 0 to a group."""

    def write(group: str, topic: str, offset: int) -> None:
        with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})) as client:
            client.commit_offsets(group, CommittedOffsets([CommittedOffset(topic, 0, offset)])).raise_for_errors()

    return write


@pytest.fixture
def dag_from(tmp_path: Path, airflow_db: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagFrom]:
    """A Dag of a test's own, from its source, in a folder of Dags that Airflow knows. Its runs are gone afterwards:
    other tests use the same database."""
    from airflow.api.common.delete_dag import delete_dag
    from airflow.dag_processing.dagbag import DagBag
    from airflow.exceptions import DagNotFound

    folder = tmp_path / "dags"
    folder.mkdir()
    bundle = {
        "name": "dags-folder",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(folder)},
    }
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle]))

    def make(dag_id: str, source: str) -> Any:
        file = folder / f"{dag_id}.py"
        file.write_text(source)
        made.append(dag_id)
        return DagBag(str(file), bundle_name="dags-folder").dags[dag_id]

    made: list[str] = []
    yield make
    for dag_id in made:
        with suppress(DagNotFound):
            delete_dag(dag_id)


COUNT = "from tests.integration.airflow.in_sparks_place import count\ncount()\n"
"""In Spark's place: a driver that has read and written each offset once."""
NEVER = 'raise SystemExit("Spark was started")\n'
"""In Spark's place: what must not be started."""


@pytest.fixture
def in_sparks_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InSparksPlace:
    """Put Python code on the PATH as ``spark-submit``, which a load starts with Spark's arguments."""

    def put(code: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "spark-submit"
        program.write_text(f"#!{sys.executable}\n{code}")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)

    return put


@pytest.fixture
def loaded(ten: str, resolve: Resolve, publish: Publish, in_sparks_place: InSparksPlace) -> dict[str, Any]:
    """A published window. A load of it starts nothing."""
    window = resolve(ten, at(2), at(7))
    publish(window)
    in_sparks_place(NEVER)
    return window
