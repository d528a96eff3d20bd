"""Many windows in one run of Spark: small topics with a window each, and the hours of a day.

A hundred small topics are loaded by one task, as one from nothing: a new process that imports Airflow, begins all
windows, and starts ``spark-submit`` once. The peer is ``spark-submit`` for each topic, with a program that reads and
writes the same offsets, and proves nothing; a few are measured, and the rest is judged by them. Packages were resolved
before on both sides.

A day's 24 hours are loaded as one window each, in one run, and as a single window, by the same load.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.offsets.instants import iso_instant
from dev.spark_packages import jars_of
from tests.benchmarks import bare_load
from tests.benchmarks.clusters import HOUR_MS, INSTANT_MS, Clusters, Topic, create, wait_for_leaders
from tests.benchmarks.processes import run, worker_environment
from tests.benchmarks.records import write_records
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import CORES

_TOPICS, _RECORDS, _MEASURED = 100, 2_000, 5
_HOURS, _PARTITIONS, _RECORDS_AN_HOUR = 24, 4, 12_500
_ROUNDS = 3
_DAY_MS = INSTANT_MS - INSTANT_MS % HOUR_MS
"""When the day begins; hours of UTC."""


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Tasks and peers, each as a process of its own.

    :param jars: the Kafka connector's.
    """

    folder: Path
    servers: str
    jars: str

    def resolve(self, pipelines: Sequence[tuple[str, str, int, int]]) -> Any:
        """Pin windows, which isn't measured.

        :param pipelines: of each, its pipeline, its topic, and its instants.
        """
        each = [
            {"pipeline": [name, topic], "start": iso_instant(start_ms), "end": iso_instant(end_ms)}
            for name, topic, start_ms, end_ms in pipelines
        ]
        return self._task("resolve", {"each": each})[0]

    def load(self, windows: Any, output: str) -> tuple[Any, float]:
        """Load windows. Returns the XCom and the seconds."""
        arguments = {"application_args": ["--output", (self.folder / output).as_uri()], "jars": self.jars}
        return self._task("load", {"window": windows, **arguments})

    def bare(self, topic: str) -> float:
        """The peer for one topic. Returns its seconds."""
        options = ["--master", f"local[{CORES}]", "--jars", self.jars]
        starts, ends = (json.dumps({topic: {"0": end}}) for end in (0, _RECORDS))
        given = ["--servers", self.servers, "--topic", topic, "--starts", starts, "--ends", ends]
        output = ["--output", (self.folder / "bare" / topic).as_uri(), "--window", "w"]
        return run(["spark-submit", *options, str(bare_load.__file__), *given, *output], self.folder / "bare.log")[1]

    def _task(self, task: str, arguments: Mapping[str, Any]) -> tuple[Any, float]:
        said = json.dumps({"task": task, **arguments})
        command = [sys.executable, "-m", "tests.benchmarks.window_task", said]
        lines, seconds, _ = run(command, self.folder / f"{task}.log")
        return json.loads(lines[-1])["xcom"], seconds


def many_windows(clusters: Clusters) -> Iterator[Row]:
    """Small topics, and the hours of a day."""
    os.environ |= worker_environment(clusters.records.bootstrap_servers)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT"] = (Path(folder) / "ledger").as_uri()
        tasks = _Tasks(Path(folder), clusters.records.bootstrap_servers, jars_of("connector"))
        yield from _small_topics(clusters, tasks)
        yield from _hours(clusters, tasks)


def _small_topics(clusters: Clusters, tasks: _Tasks) -> Iterator[Row]:
    topics = [f"many-{number}" for number in range(_TOPICS)]
    clusters.say(f"writing {_RECORDS:,} records into each of {_TOPICS} topics")
    for topic in topics:
        create(tasks.servers, Topic(topic, 1))
    wait_for_leaders(tasks.servers, [Topic(topic, 1) for topic in topics])
    for topic in topics:
        write_records(tasks.servers, topic, {0: _RECORDS})
    clusters.say("resolving a window of each")
    windows = tasks.resolve([(topic, topic, INSTANT_MS, INSTANT_MS + HOUR_MS) for topic in topics])
    clusters.say("loading them")
    reports, ours_s = tasks.load(windows, "many")
    if sum(each["rows"] for each in reports) != _TOPICS * _RECORDS:
        raise AssertionError(f"{sum(each['rows'] for each in reports)} rows were written")
    theirs_s = statistics.median(tasks.bare(topic) for topic in topics[:_MEASURED])
    yield Row.ratio(
        f"one run loads and proves {_TOPICS} topics of {_RECORDS:,} records, a window each",
        ours_s,
        f"{_TOPICS} times spark-submit --jars, no proof",
        theirs_s * _TOPICS,
        limit=0.12,
        requests=f"theirs: judging by {_MEASURED}, {theirs_s:.1f} s each",
    )


def _hours(clusters: Clusters, tasks: _Tasks) -> Iterator[Row]:
    topic, end_ms = Topic("hours-of-a-day", _PARTITIONS), _DAY_MS + _HOURS * HOUR_MS
    clusters.say(f"writing {_RECORDS_AN_HOUR:,} records an hour into each of {_PARTITIONS} partitions")
    create(tasks.servers, topic)
    wait_for_leaders(tasks.servers, [topic])
    for hour in range(_HOURS):
        counts = dict.fromkeys(range(_PARTITIONS), _RECORDS_AN_HOUR)
        write_records(tasks.servers, topic.name, counts, _DAY_MS + hour * HOUR_MS)
    seconds: dict[str, list[float]] = {"hours": [], "day": []}
    for number in range(_ROUNDS):
        for name in seconds:
            clusters.say(f"loading them: {name}")
            pipeline, length_ms = f"{name}-{number}", HOUR_MS if name == "hours" else end_ms - _DAY_MS
            starts = range(_DAY_MS, end_ms, length_ms)
            windows = tasks.resolve([(pipeline, topic.name, start, start + length_ms) for start in starts])
            reports, taken_s = tasks.load(windows, pipeline)
            _require(reports, _HOURS * _PARTITIONS * _RECORDS_AN_HOUR)
            seconds[name].append(taken_s)
            shutil.rmtree(tasks.folder / pipeline)
            os.sync()
    records = _HOURS * _PARTITIONS * _RECORDS_AN_HOUR
    yield Row.ratio(
        f"one run loads and proves {_HOURS} hourly windows with {records:,} records",
        statistics.median(seconds["hours"]),
        "the same day as one window",
        statistics.median(seconds["day"]),
        limit=2.0,
    )


def _require(reports: Sequence[Mapping[str, Any]], rows: int) -> None:
    found = sum(each["rows"] for each in reports)
    if found != rows:
        raise AssertionError(f"{found} rows were written, not {rows}")
