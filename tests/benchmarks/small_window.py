"""A small window, everything from nothing: its load task in a new process, and what one would write by hand.

Each side is a process of its own that starts everything that it needs: the task imports Airflow and the operator, asks
Kafka and starts ``spark-submit``; the peer is ``spark-submit`` alone, with a program that reads and writes the same
offsets, and proves nothing. Packages were resolved before on both sides, and the machine has loaded small windows
before. How much of the task's time goes to importing Airflow and its Spark provider, as for every task that submits
Spark, is noted.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.offsets.instants import iso_instant
from dev.spark_packages import CONNECTOR, DELTA, jars_of
from tests.benchmarks import bare_load
from tests.benchmarks.clusters import HOUR_MS, INSTANT_MS, Clusters
from tests.benchmarks.processes import run, worker_environment
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import CORES, written
from tests.benchmarks.timing import Taken, medians

_TOPIC, _PARTITIONS, _RECORDS = "small", 5, 30_000
_MOST_ROUNDS = 5
"""A round starts five drivers, which takes two to three minutes."""
_LIMITS = {"packages": 1.0, "jars": 1.15, "delta": 1.2}
_DELTA_CONFS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(slots=True)
class _Sides:
    """Both sides, as processes.

    :param cpu_s: CPU seconds of each side's processes, with all that they started, by side.
    :param imports_s: seconds that our tasks took to import Airflow and the operators.
    """

    folder: Path
    servers: str
    count: int
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    imports_s: list[float] = field(default_factory=list)

    def ours(self, name: str, **arguments: Any) -> float:
        """Resolve the window, which isn't measured, and load it. Returns the seconds of the load's process."""
        instants = {"start": iso_instant(INSTANT_MS), "end": iso_instant(INSTANT_MS + HOUR_MS)}
        resolved, _, _ = self._task("resolve", {"pipeline": ["bench", _TOPIC], **instants}, name)
        answer, seconds, cpu_s = self._task("load", {"window": resolved["xcom"], **arguments}, name)
        if answer["xcom"]["rows"] != self.count:
            raise AssertionError(f"{name} wrote {answer['xcom']['rows']} rows of {self.count}")
        self.imports_s.append(answer["steps"]["imports"])
        self.cpu_s.setdefault(name, []).append(cpu_s)
        return seconds

    def theirs(self, name: str, options: Sequence[str], *arguments: str) -> None:
        """Run the peer's program."""
        starts, ends = ({_TOPIC: {str(n): end for n in range(_PARTITIONS)}} for end in (0, self.count // _PARTITIONS))
        given = ["--servers", self.servers, "--topic", _TOPIC, "--starts", json.dumps(starts), "--ends"]
        given += [json.dumps(ends), "--output", self._output(name), "--window", "w", *arguments]
        submit = ["spark-submit", "--master", f"local[{CORES}]", *options, str(bare_load.__file__), *given]
        self.cpu_s.setdefault(name, []).append(self._run(submit, name)[2])

    def arguments(self, name: str, *more: str) -> list[str]:
        """Arguments of the ready-made load."""
        return ["--output", self._output(name), *more]

    def clear(self, name: str) -> None:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        os.sync()

    def _output(self, name: str) -> str:
        return (self.folder / name / "table").as_uri()

    def _task(self, task: str, arguments: Mapping[str, Any], name: str) -> tuple[dict[str, Any], float, float]:
        said = json.dumps({"task": task, **arguments})
        place = {"AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT": (self.folder / name / "ledger").as_uri()}
        lines, *taken = self._run([sys.executable, "-m", "tests.benchmarks.window_task", said], name, place)
        return json.loads(lines[-1]), *taken

    def _run(
        self, command: Sequence[str], name: str, environment: Mapping[str, str] = {}
    ) -> tuple[list[str], float, float]:
        return run(command, self.folder / f"{name}.log", environment)


def small_window(clusters: Clusters) -> Iterator[Row]:
    """Parquet with packages, with jars at hand, and Delta; each side in turn, into a new folder and a new ledger."""
    written(clusters, _TOPIC, dict.fromkeys(range(_PARTITIONS), _RECORDS // _PARTITIONS))
    os.environ |= worker_environment(clusters.records.bootstrap_servers)
    connector, tables = jars_of("connector"), jars_of("tables")
    delta = [word for name, value in _DELTA_CONFS.items() for word in ("--conf", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        sides = _Sides(Path(folder), clusters.records.bootstrap_servers, _RECORDS)
        to_delta = {"packages": DELTA, "conf": _DELTA_CONFS}
        works = {
            "ours": partial(sides.ours, "ours", connector="auto", application_args=sides.arguments("ours")),
            "packages": partial(sides.theirs, "packages", ["--packages", CONNECTOR]),
            "jars": partial(sides.theirs, "jars", ["--jars", connector]),
            "ours-delta": partial(
                sides.ours,
                "ours-delta",
                connector="auto",
                application_args=sides.arguments("ours-delta", "--sink", "delta"),
                **to_delta,
            ),
            "delta": partial(sides.theirs, "delta", ["--jars", f"{connector},{tables}", *delta], "--delta"),
        }

        def before(name: str) -> None:
            clusters.say(f"loading it: {name}")
            sides.clear(name)

        for name in ("ours", "ours-delta"):  # as on a machine that has loaded windows before: the second one is slow
            before(name)
            works[name]()
        sides.cpu_s.clear()
        taken = medians(works, min(clusters.sizes.rounds, _MOST_ROUNDS), before)
        cpu = {name: statistics.median(seconds[1:]) for name, seconds in sides.cpu_s.items()}  # as medians() counts
        imports = statistics.median(sides.imports_s)
    yield _row("read, write as Parquet and prove 30,000 records, 5 partitions", "packages", "ours", taken, cpu)
    yield _row("…", "jars", "ours", taken, cpu)
    yield _row("the same, into Delta", "delta", "ours-delta", taken, cpu)
    yield Row.noted("… imports of Airflow and its Spark provider", f"{imports:.1f} s of ours")


def _row(work: str, peer: str, ours: str, taken: Mapping[str, Taken], cpu: Mapping[str, float]) -> Row:
    named = {
        "packages": "spark-submit --packages",
        "jars": "spark-submit --jars",
        "delta": "spark-submit --jars, replaceWhere",
    }
    remark = f"CPU {cpu[ours]:.1f} s, and {cpu[peer]:.1f} s"
    return Row.compared(work, taken[ours], named[peer], taken[peer], limit=_LIMITS[peer], requests=remark)
