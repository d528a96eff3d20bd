"""The matrix: the wheel with older and newer versions of Airflow and Spark. Run it with ``make matrix``.

Each Airflow and each Spark has a separate environment, like a worker and the Spark that it submits to. A combination
passes if the wheel installs; Airflow lists the provider; the command answers without a metadata database; the four
sensors run, two of them deferred until their conditions are met; one day of ``flights_daily`` and one of a topic with
transactions are loaded by Dags; and the ledger proves them. If executors run on a standalone cluster, only the topic
with transactions is loaded.

A combination that has passed isn't run again while the package, ``dags/`` and ``dev/`` stay the same. The results are
in ``docs/development/versions.json``, from which the README's table is written.

    python -m dev.matrix            # all
    python -m dev.matrix 3.1.8-3.5  # those whose names begin with this
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from rich.console import Console

from dev import LOCAL, ROOT, flights
from dev.airflow_home import environment
from dev.kafka import KAFKA_VERSION, Broker, BrokerSettings
from dev.matrix_environments import (
    FOLDER,
    Airflow,
    MatrixError,
    Spark,
    airflow_environment,
    build,
    package_hash,
    run_program,
    spark_environment,
)
from dev.spark_cluster import SparkCluster
from dev.spark_packages import connector_of
from dev.zookeeper_broker import ZooKeeperBroker

README = ROOT / "README.md"
_BEGIN, _END = "<!-- versions: written by make matrix -->", "<!-- end of versions -->"
_COLUMNS = {
    "airflow": "Airflow",
    "spark_provider": "Spark provider",
    "python": "Python",
    "spark": "Spark, connector",
    "executors": "executors run on",
    "driver_python": "driver's Python",
    "kafka": "Kafka",
    "date": "passed on",
}
RESULTS = ROOT / "docs" / "development" / "versions.json"
DAY = date(2013, 3, 9)
OVER = datetime(DAY.year, DAY.month, DAY.day + 1, tzinfo=UTC)
READER = "flights-reader"
TRANSACTIONS = "transactions"
"""The Dag beside this module, its pipeline and its topic."""
IN_TRANSACTIONS = 120
"""How many records of the other topic are committed; the same number is aborted."""
_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Combination:
    """An Airflow that submits to a Spark, which reads from a Kafka. Kafka before 4.0 keeps its metadata in ZooKeeper.

    :param on_cluster: whether executors run on a standalone cluster. Otherwise all of Spark is on the worker.
    """

    airflow: Airflow
    spark: Spark
    kafka: str = KAFKA_VERSION
    on_cluster: bool = False

    @property
    def name(self) -> str:
        return f"{self.airflow.version}-{self.spark.version}{'-cluster' if self.on_cluster else ''}"


SPARK_PROVIDER, COMPAT = "apache-airflow-providers-apache-spark", "apache-airflow-providers-common-compat"
OLDEST = Airflow("3.1.8", "3.11", "2026-04-05", {SPARK_PROVIDER: "5.5.0", COMPAT: "1.13.1"}, has_pyspark=False)
NEWEST = Airflow("3.3.2", "3.13", None, {SPARK_PROVIDER: "6.3.2"})
OLDER_PYTHON = Airflow("3.3.2", "3.11", None, {SPARK_PROVIDER: "6.3.4"})
COMBINATIONS = (
    Combination(OLDEST, Spark("3.5.1", "3.10"), "2.8.2"),
    Combination(OLDEST, Spark("4.2.0", "3.11")),
    Combination(
        Airflow("3.2.1", "3.12", "2026-05-01", {SPARK_PROVIDER: "6.0.1", COMPAT: "1.14.3"}),
        Spark("4.0.0", "3.10"),
        "3.9.1",
    ),
    Combination(
        Airflow("3.3.1", "3.11", "2026-09-01", {SPARK_PROVIDER: "6.3.1", COMPAT: "1.18.0"}),
        Spark("4.1.1", "3.10"),
    ),
    Combination(NEWEST, Spark("3.5.1", "3.10")),
    Combination(NEWEST, Spark("4.2.0", "3.11")),
    Combination(OLDER_PYTHON, Spark("3.5.1", "3.10"), on_cluster=True),
    Combination(OLDER_PYTHON, Spark("4.1.1", "3.10"), on_cluster=True),
    Combination(OLDER_PYTHON, Spark("4.2.0", "3.10"), on_cluster=True),
)
"""Each version at least once, and the oldest and newest with each other."""


def main() -> None:
    """Run the combinations whose names begin with the argument, and write the README's table."""
    console = Console()
    asked = tuple(sys.argv[1:]) or ("",)
    chosen = [each for each in COMBINATIONS if each.name.startswith(asked)]
    wheel, package = build(), package_hash()  # as it is now: somebody may be editing it
    kept = {each["name"]: each for each in _kept()}
    failed = []
    for each in chosen:
        if kept.get(each.name, {}).get("package") == package:
            console.print(f"{each.name}: passed on {kept[each.name]['date']}, and nothing has changed since")
            continue
        started = time.monotonic()
        try:
            seconds = run(each, wheel, lambda words: console.print(f"  {words}"))
        except MatrixError as error:
            failed.append(each.name)
            console.print(f"{each.name}: FAILED\n{error}", markup=False)
            continue
        kept[each.name] = _result(each, seconds, package)
        write_results(kept.values())
        console.print(f"{each.name}: passed in {time.monotonic() - started:.0f} s")
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


def run(combination: Combination, wheel: Path, tell: Callable[[str], None] = lambda _: None) -> dict[str, float]:
    """Run one combination, on a separate broker.

    :param tell: called with the name of each step.
    :returns: how long some steps took, seconds.
    :raises MatrixError: the combination doesn't work; the message says what failed.
    """
    tell(f"environments of Airflow {combination.airflow.version} and Spark {combination.spark.version}")
    programs = airflow_environment(combination.airflow, wheel) / "bin"
    spark = spark_environment(combination.spark)
    home = FOLDER / combination.name
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(ROOT / "dags", home / "dags")
    shutil.copy(ROOT / "dev" / "matrix_dag.py", home / "dags")
    with _broker(combination) as broker, ExitStack() as stack:
        servers = broker.bootstrap_servers
        cluster = stack.enter_context(_cluster(spark)) if combination.on_cluster else None
        variables = _variables(home, spark / "bin", servers) | _write_transactions(servers)
        if cluster is not None:
            variables |= _on_cluster(cluster, combination.spark)
        run_one = _Programs(programs, home, os.environ | variables)
        tell("providers list")
        run_one("airflow", "db", "migrate")
        listed = json.loads(run_one("airflow", "providers", "list", "--output", "json"))
        if not any(row["package_name"] == "airflow-kafka-offsets" for row in listed):
            raise MatrixError(f"airflow providers list doesn't contain the package: {listed}")
        flights.load(servers)
        run_one("airflow", "dags", "reserialize")
        started = time.monotonic()
        if not combination.on_cluster:
            _sensors_wait(run_one, servers, tell)
            _run_dag(run_one, "flights_daily", tell)
            _is_proved(run_one, "flights_daily", flights.count_by_utc_day([DAY])[DAY])
            _run_dag(run_one, "incremental", tell)
        _run_dag(run_one, TRANSACTIONS, tell)
        _is_proved(run_one, TRANSACTIONS, IN_TRANSACTIONS)
        dags_s = round(time.monotonic() - started)
        tell("kafka-offsets lag")
        _commit_ends(servers)
        return {"lag_s": round(min(_lag_is_told(run_one, servers) for _ in range(3)), 2), "dags_s": dags_s}


def write_results(results: Iterable[Mapping[str, Any]]) -> None:
    """Store the results."""
    names = [each.name for each in COMBINATIONS]
    ordered = sorted((each for each in results if each["name"] in names), key=lambda each: names.index(each["name"]))
    RESULTS.write_text(json.dumps({"combinations": ordered}, indent=2) + "\n", encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), ordered), encoding="utf-8")


def with_table(readme: str, results: Iterable[Mapping[str, Any]]) -> str:
    """The README with the table of the combinations that have passed."""
    before, _, rest = readme.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    rows = [[f"{each[name]}" for name in _COLUMNS] for each in results]
    lines = [_row(_COLUMNS.values()), _row("---" for _ in _COLUMNS), *map(_row, rows)]
    return "\n".join([f"{before}{_BEGIN}", *lines, f"{_END}{after}"])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


class _Programs:
    """The programs of one environment.

    :param folder: the folder with the programs.
    :param home: the folder for the output of Dags.
    """

    def __init__(self, folder: Path, home: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._home = home
        self._variables = variables

    def __call__(self, program: str, *arguments: str) -> str:
        """Run a program and return its output.

        :raises MatrixError: the program or its Dag run failed.
        """
        said = run_program([str(self._folder / program), *arguments], self._variables)
        if arguments[:2] == ("dags", "test"):
            _require_success(said)
        return said

    @contextmanager
    def waiting(self, dag_id: str) -> Iterator[None]:
        """Run a Dag whose sensor waits for what the block does. It defers before the block starts, and ends soon after.

        :raises MatrixError: it didn't defer, or failed.
        """
        log = self._home / f"{dag_id}.log"
        command = [str(self._folder / "airflow"), "dags", "test", dag_id, OVER.isoformat()]
        with log.open("wb") as file:
            dag = subprocess.Popen(command, env=dict(self._variables), cwd=LOCAL, stdout=file, stderr=file)
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while "DEFERRED" not in log.read_text(errors="replace").upper():
                if dag.poll() is not None or time.monotonic() > deadline:
                    raise MatrixError(f"{dag_id} didn't defer:\n{_tail(log.read_text(errors='replace'))}")
                time.sleep(0.5)
            yield
            try:
                status = dag.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                status = None
            if status != 0:
                ended = "didn't end" if status is None else "failed"
                raise MatrixError(f"{dag_id} {ended}:\n{_tail(log.read_text(errors='replace'))}")
            _require_success(log.read_text(errors="replace"))
        finally:
            dag.kill()
            dag.wait()


def _require_success(said: str) -> None:
    if "Marking run" in said and "failed" in said.rpartition("Marking run")[2].splitlines()[0]:
        raise MatrixError(_tail(said))


def _tail(said: str) -> str:
    return "\n".join(said.splitlines()[-60:])


def _variables(home: Path, spark: Path, bootstrap_servers: str) -> dict[str, str]:
    return environment(home, bootstrap_servers) | {
        "PATH": f"{spark}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(spark / "python"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
        "COLUMNS": "200",
        # A Dag's output is read while it runs.
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "PYTHONUNBUFFERED": "1",
    }


def _on_cluster(cluster: SparkCluster, spark: Spark) -> dict[str, str]:
    connection = {"conn_type": "spark", "host": cluster.master_url, "extra": {"deploy-mode": "client"}}
    jars = sorted(connector_of(spark.version).glob("*.jar"))
    return {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
        "MATRIX_JARS": ",".join(jar.as_uri() for jar in jars),
    }


def _cluster(folder: Path) -> SparkCluster:
    (home,) = folder.glob("lib/python*/site-packages/pyspark")
    return SparkCluster("matrix", home, str(folder / "bin" / "python"))


def _run_dag(run_one: _Programs, dag_id: str, tell: Callable[[str], None]) -> None:
    tell(f"Dag {dag_id}")
    run_one("airflow", "dags", "test", dag_id, OVER.isoformat())


def _sensors_wait(run_one: _Programs, bootstrap_servers: str, tell: Callable[[str], None]) -> None:
    """Test that both sensors of a group wait, deferred, until it has read everything."""
    _commit_ends(bootstrap_servers, but=1)
    with ExitStack() as stack:
        for dag_id in ("group_caught_up", "drained"):
            tell(f"Dag {dag_id}")
            stack.enter_context(run_one.waiting(dag_id))
        _commit_ends(bootstrap_servers)


def _lag_is_told(programs: _Programs, bootstrap_servers: str) -> float:
    """Check ``kafka-offsets lag``, without Airflow's database. Returns the seconds that it takes."""
    started = time.monotonic()
    lag = json.loads(
        programs("kafka-offsets", "lag", READER, "--bootstrap-servers", bootstrap_servers, "--output", "json")
    )
    if not lag or any(row["lag"] != 0 for row in lag):
        raise MatrixError(f"kafka-offsets lag should be 0, because the group has read everything: {lag}")
    return time.monotonic() - started


def _broker(combination: Combination) -> Broker | ZooKeeperBroker:
    name = f"matrix-{combination.name}"
    if combination.kafka == KAFKA_VERSION:
        return Broker(BrokerSettings(name=name))
    return ZooKeeperBroker(name=name, version=combination.kafka)


def _commit_ends(bootstrap_servers: str, but: int = 0) -> None:
    """Commit the topic's end for the group of the example Dags.

    :param but: how many records of each partition are left unread.
    """
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=READER, auto_offset_reset="earliest")
    with closing(consumer):
        partitions = [TopicPartition("flights", number) for number in consumer.partitions_for_topic("flights")]
        consumer.assign(partitions)
        for partition, end in consumer.end_offsets(partitions).items():
            consumer.seek(partition, end - but)
        consumer.commit()


def _write_transactions(bootstrap_servers: str) -> dict[str, str]:
    """Write a topic with transactions, of which every second is aborted. Each ends with an offset without a record.

    :returns: the variables that tell the Dag which window to load. Its time is now, because transactions end now.
    """
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        admin.create_topics({TRANSACTIONS: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
    started = datetime.now(UTC)
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=TRANSACTIONS)) as producer:
        producer.init_transactions()
        for number in range(2 * IN_TRANSACTIONS // 10):
            producer.begin_transaction()
            for each in range(10):
                producer.send(TRANSACTIONS, b"%d" % each, partition=each % 2)
            producer.flush()
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    ended = datetime.now(UTC) + timedelta(milliseconds=1)
    return {"MATRIX_START": started.isoformat(), "MATRIX_END": ended.isoformat()}


def _is_proved(programs: _Programs, pipeline: str, expected: int) -> None:
    rows = json.loads(programs("kafka-offsets", "ledger", "list", pipeline, "--output", "json"))
    if [(row["state"], row["rows"]) for row in rows] != [("verified", expected)]:
        raise MatrixError(f"{pipeline} should have {expected} rows; the ledger says: {rows}")
    programs("kafka-offsets", "ledger", "verify", pipeline)


def _kept() -> list[dict[str, Any]]:
    return list(json.loads(RESULTS.read_text(encoding="utf-8"))["combinations"]) if RESULTS.exists() else []


def _result(combination: Combination, seconds: Mapping[str, float], package: str) -> dict[str, Any]:
    airflow, spark = combination.airflow, combination.spark
    return {
        "name": combination.name,
        "date": datetime.now(UTC).date().isoformat(),
        "airflow": airflow.version,
        "spark_provider": airflow.pins[SPARK_PROVIDER],
        "python": airflow.python,
        "spark": spark.version,
        "executors": "a cluster" if combination.on_cluster else "the worker",
        "driver_python": spark.python,
        "kafka": combination.kafka,
        "seconds": seconds,
        "package": package,
    }


if __name__ == "__main__":
    main()
