"""One task of a window, in a process of its own: ``python -m tests.benchmarks.window_task <JSON>``.

The JSON says which: ``{"task": "resolve" or "load", ...}`` with the operator's arguments; a pipeline by its name and
topics. Prints the task's XCom as the last line, and before that how long Python took to import Airflow and the
operators, and how long the task itself ran.
"""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace
from typing import Any


def main() -> None:
    """Run the task."""
    started = time.perf_counter()
    from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
    from airflow_kafka_offsets.operators.resolve_window import KafkaResolveWindowOperator
    from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator

    imported = time.perf_counter()
    given = json.loads(sys.argv[1])
    kind = {"resolve": KafkaResolveWindowOperator, "load": KafkaSparkSubmitOperator}[given.pop("task")]
    if "pipeline" in given:
        given["pipeline"] = KafkaPipeline(*given["pipeline"])
    ti = SimpleNamespace(dag_id="bench", run_id="r", task_id="t", try_number=1, max_tries=0, task=None)
    ti.xcom_push = lambda key, value: None
    context: Any = {"ti": ti}
    answer = kind(task_id="t", **given).execute(context)
    steps = {"imports": imported - started, "task": time.perf_counter() - imported}
    print(json.dumps({"steps": steps, "xcom": answer}))


if __name__ == "__main__":
    main()
