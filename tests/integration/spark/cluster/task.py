"""A load in a process of its own, as a worker runs a task: it can be killed, and everything that it logs is its output.

``python -m tests.integration.spark.cluster.task FOLDER`` takes the operator's arguments from ``task.json`` there and
keeps the task's state in ``state.json``, which outlives the process as Airflow's own store does. SIGTERM is what it is
to Airflow's task runner: ``on_kill()``, and the end. The last line on stdout is the XCom.

A task that defers leaves its trigger in ``deferred.json``, and exits with 100. Run again with the word ``resume``, this
is the triggerer first, and then the worker that takes the event.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import TaskDeferred

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.triggers.driver_ended import KafkaDriverEndedTrigger


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


TI = SimpleNamespace(dag_id="d", run_id="r", task_id="load", try_number=1, max_tries=0, stats_tags={})
TI.xcom_push = lambda **_: None
DEFERRED = 100
"""Exit status of a task that waits on the triggerer."""


def event_of(deferred: dict[str, Any]) -> dict[str, Any]:
    """What the triggerer makes of a trigger that was kept as JSON."""
    trigger = KafkaDriverEndedTrigger(**deferred["trigger"])

    async def first() -> dict[str, Any]:
        return dict((await anext(trigger.run())).payload)  # type: ignore[call-overload]  # an async generator

    return asyncio.run(first())


def run(operator: KafkaSparkSubmitOperator, context: Any, folder: Path, *, resume: bool) -> dict[str, Any]:
    """A part of the task; the XCom at its end."""
    kept = folder / "deferred.json"
    try:
        if not resume:
            return operator.execute(context)
        deferred = json.loads(kept.read_text())
        event = event_of(deferred)
        logging.info("The trigger fired: %s", json.dumps(event))
        return dict(getattr(operator, deferred["method"])(context, event, **deferred["kwargs"]))
    except TaskDeferred as left:
        _, arguments = left.trigger.serialize()
        kept.write_text(json.dumps({"trigger": arguments, "method": left.method_name, "kwargs": left.kwargs}))
        sys.exit(DEFERRED)


def main(folder: Path, *, resume: bool = False) -> None:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    operator = KafkaSparkSubmitOperator(task_id="load", **json.loads((folder / "task.json").read_text()))

    def killed(*_: object) -> None:
        operator.on_kill()
        os._exit(143)

    signal.signal(signal.SIGTERM, killed)
    context = {"ti": TI, "task_state_store": StateFile(folder / "state.json")}
    print(json.dumps(run(operator, context, folder, resume=resume)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), resume=sys.argv[2:] == ["resume"])
