"""What the pages' commands find: two clusters, ledgers as the pages tell of them, and a terminal."""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath
from kafka import KafkaAdminClient

from airflow_kafka_offsets.cli.main import main
from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.entries import Verified
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.audit import judge
from dev import ROOT, flights, kafka_program
from dev.airflow_home import environment
from dev.kafka import KAFKA_VERSION, Broker, BrokerSettings
from tests.integration.airflow.conftest import use_connection
from tests.integration.client.cases.workload import commit, connected_client, delete_records
from tests.integration.conftest import USERS, Record, produce_to
from tests.integration.doc_blocks import words_of
from tests.integration.kafka_clients import connect
from tests.integration.ledger.loads import begin, publish_result, store_result, windows_of
from tests.integration.ledger.results import result_of

COLUMNS = "100"
"""Of the terminal that the pages show."""
SHELL_S = 550.0
"""How long code may run in Bash; half a minute on a quiet machine."""
RUN = "eece00fd"
"""The driver of every attempt, on the pages."""
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
OF_THE_DEMO = re.compile(r"flights_daily|lag flights-daily")
"""Its pipeline, and the group that its Dag commits to. All other commands are about the cluster that is made up."""
TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}

Shell = Callable[[str], str]
KafkaOffsets = Callable[[str], tuple[int, str]]
LedgerOf = Callable[[str], Ledger]


def ms(instant: str) -> int:
    return int(datetime.fromisoformat(instant).astimezone(UTC).timestamp() * 1000)


@pytest.fixture(scope="module")
def made_up() -> Iterator[Broker]:
    """``flights`` and ``loader`` as docs/reference/cli.md has them, and ``orders`` of the guides."""
    with Broker(BrokerSettings(name="pages", users=USERS)) as broker:
        with closing(connect(KafkaAdminClient, bootstrap_servers=broker.bootstrap_servers)) as admin:
            options = {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
            admin.create_topics({"flights": options, "orders": options}, wait_for_metadata=True)
        first = ms("2026-11-20T06:00Z")
        _fill(broker, "flights", 0, _every_minute(first, 100))
        _fill(broker, "flights", 1, _every_minute(first, 40))
        _fill(broker, "orders", 0, [*_at(0, 73), *_at(1740970800000, 1), *_every_minute(first, 60), *_today(0)])
        _fill(broker, "orders", 1, [*_at(0, 74), *_at(1741058117000, 1), *_today(1)])
        _fill(broker, "orders", 2, [*_at(0, 12), *_at(1735702234000, 1), *_at(first, 4_900), *_today(2)])
        gone = {("flights", 0): 2, ("orders", 0): 73, ("orders", 1): 74}
        delete_records(broker, {TopicPartition(*each): offset for each, offset in gone.items()})
        with connected_client(broker.bootstrap_servers) as client:
            commit(client, "loader", {TopicPartition("flights", 0): 70, TopicPartition("flights", 1): 40})
        yield broker


def _at(timestamp_ms: int, count: int) -> list[Record]:
    return [(timestamp_ms or ms("2024-12-01T00:00Z"), None, b"x")] * count


def _every_minute(first_ms: int, count: int) -> list[Record]:
    return [(first_ms + minute * MINUTE_MS, None, b"x") for minute in range(count)]


def _today(partition: int) -> list[Record]:
    """The quickstart's hours, of 827 and 910 records on three partitions, and the first of the next one."""
    counts = ((276, 303), (276, 303), (275, 304))[partition]
    start = ms("2026-11-26T00:00Z")
    hours = [record for hour, count in enumerate(counts) for record in _at(start + hour * HOUR_MS, count)]
    return [*hours, *_at(start + 2 * HOUR_MS, 1)]


def _fill(broker: Broker, topic: str, partition: int, records: list[Record]) -> None:
    produce_to(broker.bootstrap_servers, topic, partition, records)


@pytest.fixture(scope="module")
def demo() -> Iterator[Broker]:
    """The demo's topic, up to the day that it leaves waiting."""
    with Broker(BrokerSettings(name="demo-of-pages")) as broker:
        flights.load(broker.bootstrap_servers, until=datetime(2013, 3, 12, 12, tzinfo=UTC))
        with connected_client(broker.bootstrap_servers) as client:
            commit(client, "flights-daily", {TopicPartition("flights", 0): 10_046})
        yield broker


@pytest.fixture
def kafka_offsets() -> KafkaOffsets:
    """Run a line that starts with ``kafka-offsets`` as in a terminal. Returns its exit code, and what is seen."""

    def call(line: str) -> tuple[int, str]:
        screen = _Screen()
        code = 0
        with redirect_stdout(screen), redirect_stderr(_Beside(screen)):
            try:
                main(words_of(line)[1:])
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else 1
        return code, screen.getvalue()

    return call


class _Screen(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


class _Beside(io.TextIOBase):
    """Stderr, on the same screen. No bar of progress is drawn there."""

    def __init__(self, screen: io.StringIO) -> None:
        self._screen = screen

    def write(self, text: str) -> int:
        return self._screen.write(text)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run code in Bash, in a folder that looks like a clone. Kafka's tools are on the PATH, and make only says what it
    would do."""
    tools, clone = tmp_path / "bin", tmp_path / "clone"
    for folder in (tools, clone):
        folder.mkdir()
    for name, class_name in TOOLS.items():
        command = shlex.join(kafka_program.tool_command(KAFKA_VERSION, class_name))
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tools / name).chmod(0o755)
    for each in ROOT.iterdir():
        if not each.name.startswith(".") or each.name == ".venv":
            (clone / each.name).symlink_to(each)
    variables = environment(tmp_path)  # among them where Spark's jars are kept
    for name in ("JAVA_HOME", "SPARK_SUBMIT_OPTS", "SPARK_LOCAL_DIRS", "SPARK_DRIVER_MEMORY", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, variables[name])
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{variables['PATH']}")

    def run(code: str) -> str:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=clone,
            env=os.environ | {"MAKEFLAGS": "n"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            printed, said = process.communicate(timeout=SHELL_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it has started, where it took too long
        assert process.returncode == 0, printed + said
        return printed

    return run


@pytest.fixture(autouse=True)
def ledger_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The setting names a fresh ledger root, and there is no connection yet."""
    root = tmp_path / "ledger"
    monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT", root.as_uri())
    return root


@pytest.fixture
def open_pipeline(ledger_root: Path) -> LedgerOf:
    return lambda pipeline: Ledger(ObjectStoragePath(ledger_root.as_uri()), pipeline)


@pytest.fixture
def loaded(kafka_offsets: KafkaOffsets, open_pipeline: LedgerOf) -> Callable[..., None]:
    """Pin windows of a pipeline, and leave them as loads do.

    :param count: so many are loaded; None for all.
    :param published: whether these are published and verified, too.
    """

    def make(*named: str, count: int | None = None, published: bool = True) -> None:
        pipeline, topic, split, start, end = named
        given = f"--topics {topic} --split {split} --start {start} --end {end}"
        code, screen = kafka_offsets(f"kafka-offsets ledger resolve {pipeline} {given}")
        assert code == 0, screen
        ledger = open_pipeline(pipeline)
        for window in windows_of(ledger)[:count]:
            _load(ledger, window, topic, published=published)

    return make


def _load(ledger: Ledger, window: Window, topic: str, *, published: bool) -> None:
    run_id = f"manual__{datetime.fromtimestamp(window.start_ms / 1000, UTC).date()}"
    attempt = begin(ledger, window, {"dag_id": ledger.pipeline, "run_id": run_id, "task_id": "load"})
    output = f"file:///data/{topic}/window={window.name}/attempt={attempt.number}-{RUN}"
    fields = {"run": RUN, "output": output, "files": ("part-00000-7f3c.parquet",)}
    result = result_of(ledger, window, attempt, **fields)
    if published:
        publish_result(ledger, window, result)
        verdict = {"verdict": str(judge(ledger.pinned(window).manifest, result))}
        verified = Verified(window.name, attempt.number, verdict)
        ledger.change(lambda state: load_decisions.record_verdict(state, verified))
    else:
        store_result(ledger, window, result)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Have ``kafka_default`` reach the cluster that some code is about. Returns its address."""

    def reach(code: str) -> str:
        broker: Broker = request.getfixturevalue("demo" if OF_THE_DEMO.search(code) else "made_up")
        use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": broker.bootstrap_servers})
        return broker.bootstrap_servers

    return reach


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", COLUMNS)
