"""Many windows in one run of Spark, whose driver is killed at random moments, also between the tables of two topics:
none is lost, and none is doubled.

``MANY_WINDOWS`` and ``MANY_KILLS`` set how many; the whole is ``make many``.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.errors import WindowsFailedError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger import file_lists
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.references import WindowRef
from dev.spark_packages import jars_of
from tests.integration.airflow.conftest import FOR_EVER, LOCAL_SPARK, T0, T0_MS, Context
from tests.integration.conftest import MakeTopic, Produce

WINDOWS = int(os.environ.get("MANY_WINDOWS", "60"))
KILLS = int(os.environ.get("MANY_KILLS", "4"))
EACH, MINUTE_MS, TOPICS = 20, 60_000, 2
SEED = int(os.environ.get("MANY_SEED", "0")) or random.randrange(1, 1_000_000)
APPLICATION = str(Path(__file__).with_name("many_load.py"))
FLAT = 1.2
"""How much more of the heap may be in use after the last window than after the first ones."""
pytestmark = [
    pytest.mark.timeout(3_600),
    pytest.mark.nightly("starts Spark again and again; windows/test_many_windows.py loses a driver once"),
]


@pytest.fixture
def windows(topic: MakeTopic, produce: Produce, context: Context) -> list[dict[str, Any]]:
    """A window of each minute, with the same number of records of each topic."""
    names, step_ms = [topic(config=FOR_EVER) for _ in range(TOPICS)], MINUTE_MS // EACH
    for name in names:
        produce(name, 0, [(T0_MS + n * step_ms, None, b"%d" % n) for n in range(WINDOWS * EACH + 1)])
    times = {"start": T0.isoformat(), "end": (T0 + timedelta(minutes=WINDOWS)).isoformat()}
    pipeline = KafkaPipeline("loads", names)
    resolve = KafkaResolveWindowOperator(task_id="r", pipeline=pipeline, split=timedelta(minutes=1), **times)
    found: list[dict[str, Any]] = resolve.execute(context)
    assert len(found) == WINDOWS
    return found


def load(windows: list[dict[str, Any]], sink: str, output: Path, **arguments: Any) -> KafkaSparkSubmitOperator:
    """The task, with Delta's jars and confs. Each topic has a table of its own in Delta."""
    return KafkaSparkSubmitOperator(
        task_id="load",
        window=windows,
        application=APPLICATION,
        application_args=[sink, output.as_uri() + ("/{topic}" if sink == "delta" else "")],
        jars=f"{jars_of('connector')},{jars_of('tables')}",
        conf={
            "spark.ui.enabled": "false",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        **arguments,
    )


def kill(task: KafkaSparkSubmitOperator, results: int, folder: Path, ended: threading.Event) -> None:
    """Kill a task's driver a moment after it has counted so many more windows; or while it starts."""
    before = len(list(folder.rglob("*.result.json")))
    while not ended.is_set() and len(list(folder.rglob("*.result.json"))) < before + results:
        time.sleep(0.05)
    while not ended.is_set():
        process = getattr(task._hook, "_submit_sp", None)
        if process is not None:
            time.sleep(random.uniform(0, 1.0 if results else 15.0))
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            return
        time.sleep(0.05)


def rows_of(sink: str, output: Path, windows: list[dict[str, Any]]) -> Counter[tuple[str, int]]:
    """How often each topic's offset is in what readers find."""
    import pyarrow.parquet as pq

    if sink == "delta":
        found = [file for log in output.glob("*/_delta_log") for file in files_in(log)]
    else:
        listed = file_lists.published_files(WindowRef.from_json(windows[0]).ledger(), None, None)
        found = [Path(file.removeprefix("file://")) for files_of in listed.values() for file in files_of]
    counts: Counter[tuple[str, int]] = Counter()
    for file in found:
        rows = pq.ParquetFile(file).read(["topic", "offset"]).to_pydict()
        counts.update(zip(rows["topic"], rows["offset"], strict=True))
    return counts


def files_in(log: Path) -> list[Path]:
    """The files of a Delta table now."""
    files: set[str] = set()
    for commit in sorted(log.glob("*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            files |= {action["add"]["path"]} if "add" in action else set()
            files -= {action["remove"]["path"]} if "remove" in action else set()
    return [log.parent / file for file in files]


@pytest.mark.parametrize("sink", ["parquet", "delta"])
def test_each_record_is_loaded_once_and_the_heap_stays_as_it_is(
    sink: str,
    windows: list[dict[str, Any]],
    context: Context,
    ledger_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random.seed(SEED)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # of spark-submit
    output, died = tmp_path / "table", 0
    for number in range(KILLS):
        context["ti"].try_number = number + 1
        task, ended = load(windows, sink, output), threading.Event()
        most = max(1, WINDOWS // (KILLS + 1))
        killer = threading.Thread(target=kill, args=(task, random.randrange(most), ledger_root, ended))
        killer.start()
        try:
            task.execute(context)
        except WindowsFailedError:  # one that no retry helps would be another one of Airflow's
            died += 1
        finally:
            ended.set()
            killer.join()
    assert died, f"seed {SEED}: no driver was killed in time"
    context["ti"].try_number = KILLS + 1
    last = load(windows, sink, output)
    reports = last.execute(context)
    names = WindowRef.from_json(windows[0]).ledger().offsets_at(T0_MS).topics
    whole = Counter({(name, offset): 1 for name in names for offset in range(WINDOWS * EACH)})
    assert sum(each["rows"] for each in reports) == TOPICS * WINDOWS * EACH
    assert rows_of(sink, output, windows) == whole, f"seed {SEED}"
    verified = KafkaVerifyWindowOperator(task_id="v", window=windows).execute(context)
    assert {each["verdict"] for each in verified} == {"read = written = log"}
    heap = [int(each) for each in re.findall(r"heap after \d+: (\d+)", "\n".join(last._printed()))]
    assert len(heap) > 2
    assert heap[-1] <= FLAT * max(heap[:2]), heap
