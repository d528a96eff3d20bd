"""A load in a process of its own, as a worker runs a task: it can be killed, and everything that it logs is its output.

``python -m tests.integration.spark.cluster.task FOLDER`` takes the operator's arguments from ``task.json`` there.
SIGTERM is what it is to Airflow's task runner: ``on_kill()``, and the end. The last line on stdout is the XCom.
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

TI = SimpleNamespace(dag_id="d", run_id="r", task_id="load", try_number=1, max_tries=0, stats_tags={})
TI.xcom_push = lambda **_: None


def main(folder: Path) -> None:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    operator = KafkaSparkSubmitOperator(task_id="load", **json.loads((folder / "task.json").read_text()))

    def killed(*_: object) -> None:
        operator.on_kill()
        os._exit(143)

    signal.signal(signal.SIGTERM, killed)
    context: Any = {"ti": TI}
    print(json.dumps(operator.execute(context)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
