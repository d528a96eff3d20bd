"""Real deaths in the middle of a write, for each sink: of the driver, and of executors on a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pyspark
import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import FileSink, PinnedWindow, Sink, read_published
from airflow_kafka_offsets.spark.session.conf import RunConf
from dev import ROOT
from dev.kafka import Broker
from dev.postgres import USER
from dev.spark_cluster import SparkCluster
from tests.integration.spark.conftest import table_confs
from tests.integration.spark.publishing import driver_of, publish as publish_derived
from tests.integration.spark.sinks.conftest import attempt_of, publish
from tests.integration.spark.sinks.example import PostgresSink
from tests.integration.spark.sinks.faults import wait_for
from tests.integration.spark.sinks.slow_loads import DERIVED, per_partition
from tests.integration.spark.test_pinned_window import offsets
from tests.patience import RUN_S
from tests.unit.spark import ledgers
from tests.unit.spark.manifests import manifest_of

pytestmark = [
    pytest.mark.nightly("drivers, and a cluster, of its own; airflow/test_s3.py kills a driver"),
    pytest.mark.timeout(900),
]

KINDS = ("parquet", "delta", "iceberg", "postgres")
SLOW_LOADS = Path(__file__).with_name("slow_loads.py")
EXPECTED = {0: list(range(15)), 2: list(range(15))}
"""When the task of partition 0 has written its file, that of partition 2 waits."""


@dataclass(frozen=True, slots=True)
class Load:
    """A window of a ledger of its own, and the sink that it goes to."""

    told: RunConf
    sink: Sink
    arguments: tuple[str, ...]
    has_begun: Callable[[], bool]


@pytest.fixture
def short(flights: str, cluster_id: str) -> Manifest:
    return replace(manifest_of([(flights, 0, 0, 15), (flights, 2, 0, 15)]), cluster_id=cluster_id)


@pytest.fixture
def loads(
    make_sink: Callable[[str], Sink], short: Manifest, broker: Broker, warehouse: Path, tmp_path: Path
) -> dict[str, Load]:
    """One for each kind."""

    def make(kind: str) -> Load:
        sink = make_sink(kind)
        told = told_of(tmp_path / kind / "flights", short, broker)
        if isinstance(sink, PostgresSink):
            return Load(told, sink, (sink.url, sink.table), lambda: has_stage(sink.url, sink.table))
        output = str(sink.place)
        folder = (
            warehouse / "flights" / output.rpartition(".")[2]
            if kind == "iceberg"
            else Path(output.removeprefix("file://"))
        )
        return Load(told, sink, (output,), lambda: any(folder.rglob("*.parquet")))

    return {kind: make(kind) for kind in KINDS}


@pytest.fixture
def derived(short: Manifest, broker: Broker, tmp_path: Path) -> Load:
    """One whose rows a transform makes, and whose second partition waits."""
    told = told_of(tmp_path / "derived" / "flights", short, broker)
    output = f"file://{tmp_path}/derived-rows"
    return Load(told, FileSink(output), (output,), (tmp_path / "begun").exists)


def told_of(folder: Path, manifest: Manifest, broker: Broker) -> RunConf:
    """A ledger with the window, and what the driver of a first attempt is told."""
    ledger = ledgers.ledger_in(folder)
    window = ledgers.pin(ledger, manifest)
    pinned, kafka = ledger.pinned(window), {"kafka.bootstrap.servers": broker.bootstrap_servers}
    return RunConf(pinned.uri, pinned.sha256, ledgers.begin(ledger, window), kafka)


def next_of(spark: SparkSession, told: RunConf) -> PinnedWindow:
    """The window for the attempt that follows."""
    folder = Path(told.manifest_uri.removeprefix("file://")).parents[2]
    ledger = ledgers.ledger_in(folder)
    (window,) = ledger.state.windows.values()
    return PinnedWindow.open(spark, replace(told, attempt=ledgers.begin(ledger, window)))


def has_stage(jdbc_url: str, table: str) -> bool:
    """Whether PostgreSQL has a table to which a driver writes what it reads."""
    with psycopg.connect(jdbc_url.replace("jdbc:postgresql://", f"postgresql://{USER}@")) as connection:
        named = "SELECT count(*) FROM pg_tables WHERE starts_with(tablename, %s)"
        found = connection.execute(named, [f"{table}_stage_"]).fetchone()
    return bool(found and found[0])


Submit = Callable[[Mapping[str, Load], str], "subprocess.Popen[str]"]


@pytest.fixture
def submit(connector: str, table_jars: str, warehouse: Path, broker: Broker, tmp_path: Path) -> Iterator[Submit]:
    """Start a driver that loads half of some windows side by side, in their first attempts; it is killed at last."""
    started: list[subprocess.Popen[str]] = []

    def start(loads: Mapping[str, Load], master: str) -> subprocess.Popen[str]:
        confs = table_confs(warehouse) | {
            "spark.jars": f"{connector},{table_jars}",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.log.level": "ERROR",
            "spark.kafkaOffsets.kafka.bootstrap.servers": broker.bootstrap_servers,
        }
        each = [
            [load.told.manifest_uri, load.told.sha256, load.told.attempt, kind, load.arguments]
            for kind, load in loads.items()
        ]
        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-submit"), "--master", master]
        command += [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
        environment = os.environ | {"SPARK_HOME": str(home), "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
        process = subprocess.Popen(
            [*command, str(SLOW_LOADS), str(tmp_path), json.dumps(each)],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def wait_until_begun(load: Load, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + RUN_S
    while not load.has_begun():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_driver_that_is_killed_half_way_is_followed_by_one_that_publishes_exactly_the_window(
    spark: SparkSession, loads: dict[str, Load], short: Manifest, submit: Submit
) -> None:
    """S22."""
    process = submit(loads, "local[8]")
    for load in loads.values():
        wait_until_begun(load, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()

    for load in loads.values():
        window = next_of(spark, load.told)
        publish(window, load.sink)
        driver = driver_of(window)
        written = attempt_of(short, driver.number, run=driver.run)
        assert offsets(load.sink.current(spark, written)[0]) == EXPECTED


def test_executors_that_are_killed_half_way_double_and_lose_nothing(
    spark: SparkSession,
    loads: dict[str, Load],
    short: Manifest,
    submit: Submit,
    spark_cluster: SparkCluster,
    tmp_path: Path,
) -> None:
    """S24: all of them, in the middle of every sink's write. Spark runs the tasks again."""
    process = submit(loads, spark_cluster.master_url)
    for load in loads.values():
        wait_until_begun(load, process)
    for _ in spark_cluster.workers:
        spark_cluster.kill_executor()
    (tmp_path / "go").touch()
    said, _ = process.communicate(timeout=RUN_S)

    assert process.returncode == 0, said
    for load in loads.values():
        assert load.told.attempt is not None
        folder = Path(load.told.manifest_uri.removeprefix("file://")).parents[2]
        ((result, _),) = ledgers.ledger_in(folder).attempt(short.window, load.told.attempt).results()
        written = attempt_of(short, result.attempt, run=result.run)
        assert offsets(load.sink.current(spark, written)[0]) == EXPECTED


def test_a_lost_executor_takes_a_jobs_records_with_it_and_the_next_attempt_is_proved(
    spark: SparkSession, derived: Load, submit: Submit, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    """S24: they lie on its disk, and nowhere else."""
    process = submit({DERIVED: derived}, spark_cluster.master_url)
    wait_until_begun(derived, process)
    wait_for(tmp_path / "first")  # that of partition 0
    for _ in spark_cluster.workers:
        spark_cluster.kill_executor()
    (tmp_path / "go").touch()
    said, _ = process.communicate(timeout=RUN_S)
    assert process.returncode != 0
    assert "Checkpoint block" in said, said[-5000:]

    window = next_of(spark, derived.told)
    result = window.write_derived(per_partition, derived.sink)
    publish_derived(window, result)
    rows = read_published(spark, (tmp_path / "derived" / "flights").as_uri()).select("partition", "count").collect()
    assert sorted(map(tuple, rows)) == [(0, 15), (2, 15)]
