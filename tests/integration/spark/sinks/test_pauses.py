"""Two loads of one window, by Airflow's tasks and two Spark drivers, of which the first pauses at each step in turn.

The second one runs from its beginning to its end meanwhile, and the first goes on then. Whatever they do, the ledger,
``read_published`` and the table say the same in the end, and each record is there once.

``PAUSES=all`` tries each pair of loads at each step with each kind of output, some hundred times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import CommitConflictError, LedgerConflictError, SparkFailedError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.pipelines import loads as airflows_side
from dev import ROOT
from tests.integration.airflow.conftest import FOR_EVER
from tests.integration.conftest import MakeTopic, Produce
from tests.integration.spark.sinks.faults import wait_for
from tests.integration.spark.sinks.resident import DRIVER_STEPS, Pause
from tests.integration.spark.sinks.tasks import Tasks, XCom, driver, in_sparks_place, place_of_table, sockets
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.timeout(900)

__all__ = ["driver", "in_sparks_place", "sockets"]

PAUSING = "local[1]"
"""The master by which the program in Spark's place finds the driver that pauses."""
PAUSED = "paused"
"""How the thread of the task is called that pauses."""
BEGIN, _, WRITE, COMMITTED, *BRANCH, _, _ = DRIVER_STEPS
ATTEMPT, PUBLISH, PUBLISHED = "before its attempt begins", "before it publishes", "after it has published"
STEPS = (ATTEMPT, *DRIVER_STEPS, PUBLISH, PUBLISHED)
RECORDS = 5
"""Of each window."""


@pytest.fixture(scope="session")
def pause(sockets: Path, connector: str, table_jars: str, warehouse: Path) -> Iterator[Pause]:
    """Where the first driver pauses, a process of its own."""
    words = [str(sockets / PAUSING), str(sockets), f"{connector},{table_jars}", str(warehouse)]
    command = [sys.executable, "-m", "tests.integration.spark.sinks.resident", *words]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE) as process:
        yield Pause(sockets)
        process.terminate()


@pytest.fixture
def both(driver: None, pause: Pause, sockets: Path, monkeypatch: pytest.MonkeyPatch) -> Pause:
    """Both drivers, and the tasks that submit to them: that of a thread called :data:`PAUSED` pauses, too."""
    monkeypatch.setenv("AIRFLOW_CONN_PAUSING", json.dumps({"conn_type": "spark", "host": PAUSING}))
    for step, owner, name, how in (
        (ATTEMPT, Ledger, "change", pause.before),
        (PUBLISH, airflows_side, "publish_each_asked", pause.before),
        (PUBLISHED, airflows_side, "publish_each_asked", pause.after),
    ):
        monkeypatch.setattr(owner, name, here_alone(pause, step, getattr(owner, name), how))
    wait_for(sockets / PAUSING)
    return pause


def here_alone(pause: Pause, step: str, work: Callable[..., Any], how: Callable[..., Any]) -> Callable[..., Any]:
    """Work that pauses in one thread, where that is asked for."""
    slow = how(work)

    def either(*arguments: Any, **named: Any) -> Any:
        pauses = threading.current_thread().name.startswith(PAUSED) and pause.step == step
        return (slow if pauses else work)(*arguments, **named)

    return either


@pytest.fixture
def tasks(kind: str, topic: MakeTopic, produce: Produce, spark: SparkSession, tmp_path: Path, both: Pause) -> Tasks:
    root, output = (tmp_path / "ledger").as_uri(), place_of_table(kind, tmp_path)
    return Tasks(root, topic(config=FOR_EVER), kind, output, produce, spark)


@dataclass(frozen=True, slots=True)
class Loads:
    """Two loads of one window, of which the first pauses.

    :param runs: their Dag runs.
    :param reload: whether the second one asks for the window to be loaded again.
    """

    runs: tuple[str, str]
    reload: bool = False


PAIRS = {
    "its own retry": Loads(("r", "r")),
    "another run": Loads(("r-1", "r-2")),
    "one that loads it again": Loads(("r-1", "r-2"), reload=True),
}
OF_TABLES = tuple(step for step in STEPS if step not in BRANCH)
EACH = [
    (kind, pair, OF_TABLES if kind != "iceberg" else STEPS)
    for kind in ("delta", "iceberg", "parquet")
    for pair in PAIRS
]
SOME = [
    ("delta", "one that loads it again", (ATTEMPT, WRITE, COMMITTED, PUBLISH)),
    ("delta", "another run", (WRITE, COMMITTED)),
    ("delta", "its own retry", (PUBLISH,)),
    ("parquet", "its own retry", (BEGIN, WRITE)),
    ("iceberg", "one that loads it again", (WRITE, *BRANCH)),
    ("iceberg", "another run", (COMMITTED,)),
]

OTHERS = pytest.mark.nightly("other pairs and steps; Delta beside its own retry pauses before it publishes")


@pytest.mark.parametrize(
    ("kind", "loads", "steps"),
    [
        pytest.param(
            *(kind, PAIRS[pair], steps),
            id=f"{kind}, beside {pair}",
            marks=[] if (kind, pair) == ("delta", "its own retry") else OTHERS,
        )
        for kind, pair, steps in (EACH if os.environ.get("PAUSES") == "all" else SOME)
    ],
)
def test_a_load_that_pauses_at_a_step_and_one_that_does_not_end_in_one_truth(
    tasks: Tasks, both: Pause, loads: Loads, steps: tuple[str, ...]
) -> None:
    for tasks.number, step in enumerate(steps):
        window, ended = load_beside(tasks, both, loads, step)
        assert {type(each) for each in ended if isinstance(each, BaseException)} <= {LedgerConflictError}, (step, ended)
        counts = tasks.truth(window)
        if loads.reload:
            again = tasks.ledger.window(window["window"])
            assert again.loaded == counts, step


def load_beside(tasks: Tasks, pause: Pause, loads: Loads, step: str) -> tuple[XCom, list[XCom | BaseException]]:
    """The window, and how the two loads ended."""
    tasks.write(*range(RECORDS))
    window = tasks.resolve()
    pause.ask(step)
    with ThreadPoolExecutor(1, PAUSED) as thread:
        first = thread.submit(tasks.load, window, loads.runs[0], "pausing")
        try:
            wait_until_paused(pause, first)
            second = tasks.load(window, loads.runs[1], reload=loads.reload)
            look(tasks, window)
        finally:
            pause.end()
        ended = first.result(PATIENCE_S)
    if isinstance(ended, SparkFailedError | CommitConflictError) and "Run the task again" in str(
        ended
    ):  # as Airflow does
        ended = tasks.load(window, loads.runs[0])
    return window, [ended, second]


def look(tasks: Tasks, window: XCom) -> None:
    """What readers see while a load pauses: the truth, or that it can't be told."""
    if tasks.publication(window) is not None:
        with suppress(LedgerConflictError):
            tasks.truth(window)


def wait_until_paused(pause: Pause, load: Future[Any]) -> None:
    deadline = time.monotonic() + 2 * PATIENCE_S
    while not (pause.folder / "begun").exists():
        assert not load.done(), load.result()
        assert time.monotonic() < deadline
        time.sleep(0.02)
