"""A load in a process of its own, as a worker runs a task: it can be killed, and everything that it logs is its output.

``python -m tests.integration.spark.cluster.task FOLDER`` takes the operator's arguments from ``task.json`` there and
keeps the task's state in ``state.json``, which outlives the process as Airflow's own store does. SIGTERM is what it is
to Airflow's task runner: ``on_kill()``, and the end. The last line on stdout is the XCom.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator


class StateFile:
    """The task state store, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> Any:
        return self._read().get(key)

    def set(self, key: str, value: Any) -> None:
        self._write(self._read() | {key: value})

    def delete(self, key: str) -> None:
        self._write({name: value for name, value in self._read().items() if name != key})

    def _read(self) -> dict[str, Any]:
        return json.loads(self._path.read_text()) if self._path.exists() else {}

    def _write(self, fields: dict[str, Any]) -> None:
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps(fields))
        draft.replace(self._path)


def main(folder: Path) -> None:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    operator = KafkaSparkSubmitOperator(task_id="load", **json.loads((folder / "task.json").read_text()))

    def killed(*_: object) -> None:
        operator.on_kill()
        os._exit(143)

    signal.signal(signal.SIGTERM, killed)
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="load", try_number=1, max_tries=0, stats_tags={})
    result = operator.execute({"ti": ti, "task_state_store": StateFile(folder / "state.json")})  # type: ignore[typeddict-item,typeddict-unknown-key]
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
