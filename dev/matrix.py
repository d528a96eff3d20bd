"""The matrix: the wheel beside older and newer Airflows, on older and newer Sparks. Run it with ``make matrix``.

Each Airflow and each Spark has an environment of its own under ``.local/matrix``, as a worker and the Spark that it
submits to have. Beside the versions that constraints files name, an Airflow gets what the registry had on the day of
its release. A combination is: the wheel installs; Airflow lists the provider; the command answers without a metadata
database; the four sensors and one day of ``flights_daily`` run to their ends as Dags do; the ledger proves that day.

What has passed isn't run again as long as the package stays the same. The results are kept in
``docs/development/versions.json``, from which the README's table is written.

    python -m dev.matrix            # all
    python -m dev.matrix 3.1-3.5    # those whose name begins so
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer
from rich.console import Console

from dev import LOCAL, ROOT, flights
from dev.airflow_home import environment
from dev.kafka import KAFKA_VERSION, Broker, BrokerSettings
from dev.zookeeper_broker import ZooKeeperBroker

FOLDER = LOCAL / "matrix"
README = ROOT / "README.md"
_BEGIN, _END = "<!-- versions: written by make matrix -->", "<!-- end of versions -->"
_COLUMNS = {
    "airflow": "Airflow",
    "spark_provider": "Spark provider",
    "python": "Python",
    "spark": "Spark, connector",
    "driver_python": "driver's Python",
    "kafka": "Kafka",
    "date": "passed on",
}
RESULTS = ROOT / "docs" / "development" / "versions.json"
DAY = date(2013, 3, 9)
READER = "flights-reader"


class MatrixError(Exception):
    """A combination doesn't work; the message ends with what the program said."""


@dataclass(frozen=True, slots=True)
class Airflow:
    """An Airflow with what its constraints file names.

    :param version: of ``apache-airflow``.
    :param python: what it runs on.
    :param released: nothing newer is installed beside it; None for whatever is newest.
    :param pins: what constraints files name, by package.
    :param has_pyspark: whether the PySpark that the provider asks for is beside it; a worker whose ``spark-submit`` is
        elsewhere needs none.
    """

    version: str
    python: str
    released: str | None
    pins: Mapping[str, str]
    has_pyspark: bool = True

    @property
    def minor(self) -> str:
        return self.version.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Spark:
    """A Spark, as PySpark brings it.

    :param version: of ``pyspark``.
    :param python: what its driver runs on.
    """

    version: str
    python: str


@dataclass(frozen=True, slots=True)
class Combination:
    """An Airflow that submits to a Spark, which reads a Kafka; one of before 4.0 keeps its metadata in ZooKeeper."""

    airflow: Airflow
    spark: Spark
    kafka: str = KAFKA_VERSION

    @property
    def name(self) -> str:
        return f"{self.airflow.version}-{self.spark.version}"


SPARK_PROVIDER, COMPAT = "apache-airflow-providers-apache-spark", "apache-airflow-providers-common-compat"
OLDEST = Airflow("3.1.8", "3.11", "2026-04-05", {SPARK_PROVIDER: "5.5.0", COMPAT: "1.13.1"}, has_pyspark=False)
NEWEST = Airflow("3.3.2", "3.13", None, {SPARK_PROVIDER: "6.3.2"})
COMBINATIONS = (
    Combination(OLDEST, Spark("3.5.1", "3.10"), "2.8.2"),
    Combination(OLDEST, Spark("4.2.0", "3.11")),
    Combination(
        Airflow("3.2.1", "3.12", "2026-05-01", {SPARK_PROVIDER: "6.0.1", COMPAT: "1.14.3"}),
        Spark("4.0.0", "3.12"),
        "3.9.1",
    ),
    Combination(
        Airflow("3.3.1", "3.11", "2026-09-01", {SPARK_PROVIDER: "6.3.1", COMPAT: "1.18.0"}),
        Spark("4.1.1", "3.10"),
    ),
    Combination(NEWEST, Spark("3.5.1", "3.10")),
    Combination(NEWEST, Spark("4.2.0", "3.11")),
)
"""Each version at least once, and oldest and newest with each other."""


def main() -> None:
    """All combinations whose names begin as asked, and the README's table."""
    console = Console()
    asked = tuple(sys.argv[1:]) or ("",)
    chosen = [each for each in COMBINATIONS if each.name.startswith(asked)]
    wheel, package = build(), package_hash()  # as it is now: somebody may be at work on it
    kept = {each["name"]: each for each in _kept()}
    failed = []
    for each in chosen:
        if kept.get(each.name, {}).get("package") == package:
            console.print(f"{each.name}: passed on {kept[each.name]['date']}, and the package is the same")
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
    """Do one combination, on a broker of its own.

    :param tell: hears of each step.
    :returns: how long some steps took, seconds.
    :raises MatrixError: what doesn't work.
    """
    tell(f"environments of Airflow {combination.airflow.version} and Spark {combination.spark.version}")
    programs = airflow_environment(combination.airflow, wheel) / "bin"
    spark = spark_environment(combination.spark) / "bin"
    home = FOLDER / combination.name
    shutil.rmtree(home, ignore_errors=True)
    with _broker(combination) as broker:
        variables = _variables(home, spark, broker.bootstrap_servers)
        run_one = _Programs(programs, os.environ | variables)
        tell("providers list")
        run_one("airflow", "db", "migrate")
        listed = json.loads(run_one("airflow", "providers", "list", "--output", "json"))
        if not any(row["package_name"] == "airflow-kafka-offsets" for row in listed):
            raise MatrixError(f"airflow providers list doesn't have the package: {listed}")
        flights.load(broker.bootstrap_servers)
        _read_all(broker.bootstrap_servers)
        tell("kafka-offsets lag")
        command_s = _lag_is_told(run_one, broker.bootstrap_servers)
        run_one("airflow", "dags", "reserialize")
        started = time.monotonic()
        for dag_id in ("group_caught_up", "drained", "flights_daily", "incremental"):
            tell(f"Dag {dag_id}")
            _run_dag(run_one, dag_id)
            if dag_id == "flights_daily":
                _is_proved(run_one)
    return {"lag_s": round(command_s, 2), "dags_s": round(time.monotonic() - started)}


def build() -> Path:
    """The wheel, of the package as it is now."""
    folder = FOLDER / "dist" / package_hash()
    if not list(folder.glob("*.whl")):
        _run([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)], os.environ)
    (wheel,) = folder.glob("*.whl")
    return wheel


def package_hash() -> str:
    """Of everything that a combination's result depends on."""
    digest = hashlib.sha256()
    files = [*(ROOT / "airflow_kafka_offsets").rglob("*.py"), *(ROOT / "dags").glob("*.py"), ROOT / "pyproject.toml"]
    for file in sorted(files):
        digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def airflow_environment(airflow: Airflow, wheel: Path) -> Path:
    """The environment of an Airflow, with the wheel in it."""
    pins = [f"{name}=={version}" for name, version in airflow.pins.items()]
    wanted = [f"apache-airflow=={airflow.version}", *pins, "apache-airflow-providers-apache-kafka"]
    newer = ["--exclude-newer", airflow.released] if airflow.released else []
    without = [] if airflow.has_pyspark else ["--override", str(_without_pyspark())]
    folder = _environment(f"airflow-{airflow.version}", airflow.python, [*newer, *without, *wanted])
    # The wheel and what it needs, and nothing else may change: so it is beside a constraints file.
    frozen = folder / "constraints.txt"
    if not frozen.exists():
        frozen.write_text(_uv("pip", "freeze", "--python", str(folder)), encoding="utf-8")
    _uv(
        *("pip", "install", "--python", str(folder), "--reinstall-package", "airflow-kafka-offsets", str(wheel)),
        *("--constraint", str(frozen), *without),
    )
    return folder


def _without_pyspark() -> Path:
    """What uv takes to leave PySpark out, whoever asks for it."""
    file = FOLDER / "without_pyspark.txt"
    file.write_text("pyspark ; sys_platform == 'none'\npyspark-client ; sys_platform == 'none'\n")
    return file


def spark_environment(spark: Spark) -> Path:
    """The environment of a Spark: PySpark and nothing else."""
    return _environment(f"spark-{spark.version}-{spark.python}", spark.python, [f"pyspark=={spark.version}"])


def python_of(version: str) -> str:
    """That Python, such as 3.10: on PATH, among pyenv's, or one that uv brings.

    :raises MatrixError: uv can't bring it.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in (shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))):
        # What is on PATH may be a shim for none.
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    there = os.environ | {"UV_PYTHON_INSTALL_DIR": str(FOLDER / "python")}
    _run([_UV, "python", "install", "--quiet", "--no-bin", version], there)
    return _run([_UV, "python", "find", "--managed-python", version], there).strip()


def write_results(results: Iterable[Mapping[str, Any]]) -> None:
    """Keep the results."""
    names = [each.name for each in COMBINATIONS]
    ordered = sorted((each for each in results if each["name"] in names), key=lambda each: names.index(each["name"]))
    RESULTS.write_text(json.dumps({"combinations": ordered}, indent=2) + "\n", encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), ordered), encoding="utf-8")


def with_table(readme: str, results: Iterable[Mapping[str, Any]]) -> str:
    """The README with the table of what has passed."""
    before, _, rest = readme.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    rows = [[f"{each[name]}" for name in _COLUMNS] for each in results]
    lines = [_row(_COLUMNS.values()), _row("---" for _ in _COLUMNS), *map(_row, rows)]
    return "\n".join([f"{before}{_BEGIN}", *lines, f"{_END}{after}"])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


_UV = str(Path(sys.executable).with_name("uv"))


class _Programs:
    """The programs of one environment."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._variables = variables

    def __call__(self, program: str, *arguments: str) -> str:
        return _run([str(self._folder / program), *arguments], self._variables)


def _environment(name: str, python: str, packages: list[str]) -> Path:
    """Make an environment once; one that is half made is made anew."""
    folder, wanted = FOLDER / name, " ".join([python, *packages])
    done = folder / "packages.txt"
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _uv("venv", "--quiet", "--no-python-downloads", "--python", python_of(python), str(folder))
        _uv("pip", "install", "--quiet", "--python", str(folder), *packages)
        done.write_text(wanted)
    return folder


def _uv(*arguments: str) -> str:
    """Run uv. The environments are kept: its cache would be half a gigabyte a Spark, for nothing."""
    return _run([_UV, "--no-cache", *arguments], os.environ)


def _run(command: list[str], variables: Mapping[str, str]) -> str:
    """What a program prints, but for its log.

    :raises MatrixError: it failed.
    """
    answer = subprocess.run(command, env=dict(variables), cwd=LOCAL, capture_output=True, text=True)
    if answer.returncode != 0:
        said = "\n".join((answer.stdout + answer.stderr).splitlines()[-40:])
        raise MatrixError(f"{' '.join(command)} ended with {answer.returncode}:\n{said}")
    return answer.stdout


def _variables(home: Path, spark: Path, bootstrap_servers: str) -> dict[str, str]:
    found = environment(home, bootstrap_servers)
    return found | {
        "PATH": f"{spark}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(spark / "python"),
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
        "COLUMNS": "200",
    }


def _lag_is_told(programs: _Programs, bootstrap_servers: str) -> float:
    """Without Airflow's database; how long it takes, seconds."""
    started = time.monotonic()
    lag = json.loads(
        programs("kafka-offsets", "lag", READER, "--bootstrap-servers", bootstrap_servers, "--output", "json")
    )
    if not lag or any(row["lag"] != 0 for row in lag):
        raise MatrixError(f"kafka-offsets lag of a group that has read everything: {lag}")
    return time.monotonic() - started


def _broker(combination: Combination) -> Broker | ZooKeeperBroker:
    name = f"matrix-{combination.name}"
    if combination.kafka == KAFKA_VERSION:
        return Broker(BrokerSettings(name=name))
    return ZooKeeperBroker(name=name, version=combination.kafka)


def _read_all(bootstrap_servers: str) -> None:
    """Have the group of the example Dags read the topic to its end."""
    consumer = KafkaConsumer(
        "flights", bootstrap_servers=bootstrap_servers, group_id=READER, auto_offset_reset="earliest"
    )
    while not consumer.assignment():
        consumer.poll(timeout_ms=1_000)
    ends = consumer.end_offsets(consumer.assignment())
    for partition, end in ends.items():
        consumer.seek(partition, end)
    consumer.poll(timeout_ms=100)
    consumer.commit()
    consumer.close()


def _run_dag(programs: _Programs, dag_id: str) -> None:
    over = datetime(DAY.year, DAY.month, DAY.day + 1, tzinfo=UTC)
    said = programs("airflow", "dags", "test", dag_id, over.isoformat())
    if "Marking run" in said and "failed" in said.rpartition("Marking run")[2].splitlines()[0]:
        raise MatrixError("\n".join(said.splitlines()[-60:]))


def _is_proved(programs: _Programs) -> None:
    rows = json.loads(programs("kafka-offsets", "ledger", "list", "flights_daily", "--output", "json"))
    expected = flights.count_by_utc_day([DAY])[DAY]
    if [(row["state"], row["rows"]) for row in rows] != [("verified", expected)]:
        raise MatrixError(f"the source has {expected} rows of {DAY}, and the ledger: {rows}")
    programs("kafka-offsets", "ledger", "verify", "flights_daily")


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
        "driver_python": spark.python,
        "kafka": combination.kafka,
        "seconds": seconds,
        "package": package,
    }


if __name__ == "__main__":
    main()
