"""One task of a window, in a process of its own: ``python -m tests.benchmarks.window_task <JSON>``.

The JSON says which: ``{"task": "resolve" or "load", ...}`` with the operator's arguments; a pipeline by its name and
topics. With ``{"each": [...]}``, there is a task for each of these, with their own arguments. Prints the task's XCom,
or a list of them, as the last line, and before that how long Python took to import Airflow and the operators, and how
long the task itself ran.
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
    from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
    from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator

    imported = time.perf_counter()
    given = json.loads(sys.argv[1])
    kind = {"resolve": KafkaResolveWindowOperator, "load": KafkaSparkSubmitOperator}[given.pop("task")]
    ti = SimpleNamespace(dag_id="bench", run_id="r", task_id="t", try_number=1, max_tries=0, task=None)
    ti.xcom_push = lambda key, value: None
    context: Any = {"ti": ti}

    def run(**arguments: Any) -> Any:
        if "pipeline" in arguments:
            arguments["pipeline"] = KafkaPipeline(*arguments["pipeline"])
        return kind(task_id="t", **arguments).execute(context)

    each = given.pop("each", None)
    answer = run(**given) if each is None else [run(**given, **own) for own in each]
    steps = {"imports": imported - started, "task": time.perf_counter() - imported}
    print(json.dumps({"steps": steps, "xcom": answer}))


if __name__ == "__main__":
    main()
