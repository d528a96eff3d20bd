"""Example Dags as Airflow renders them.

As a program it does so in another environment, and prints a list of :class:`Rendered` as JSON. Its arguments: what the
prepare task returned as JSON, Airflow's variables as JSON, and the Dags' files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.sdk import DAG


@dataclass(frozen=True, slots=True)
class Rendered:
    """A Dag, and the request that its task ``submit`` makes.

    :param order: its tasks' ids.
    :param submit: that task's template fields.
    """

    dag_id: str
    order: list[str]
    catchup: bool
    native: bool
    submit: dict[str, Any]


def dag_of(file: Path) -> DAG:
    """An example Dag."""
    names: dict[str, Any] = {}
    exec(file.read_text(encoding="utf-8"), names)  # our own
    dag: DAG = names["verify"].dag
    return dag


def submit_of(file: Path, prepared: Mapping[str, Any], variables: Mapping[str, str]) -> Any:
    """The operator that submits, rendered."""
    dag = dag_of(file)
    submit = dag.get_task("submit")
    ti = SimpleNamespace(xcom_pull=lambda task_ids: prepared)
    context: Any = {"ti": ti, "var": SimpleNamespace(value=SimpleNamespace(**variables))}
    submit.render_template_fields(context, dag.get_template_env())
    return submit


def rendered(file: Path, prepared: Mapping[str, Any], variables: Mapping[str, str]) -> Rendered:
    """The Dag and its request."""
    submit = submit_of(file, prepared, variables)
    dag = submit.dag
    return Rendered(
        dag.dag_id,
        [task.task_id for task in dag.topological_sort()],
        dag.catchup,
        dag.render_template_as_native_obj,
        {name: getattr(submit, name) for name in submit.template_fields},
    )


if __name__ == "__main__":
    returned, known, *files = sys.argv[1:]
    print(json.dumps([asdict(rendered(Path(each), json.loads(returned), json.loads(known))) for each in files]))
