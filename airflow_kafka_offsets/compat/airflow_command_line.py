"""What Airflow's command line lacks before 3.3: a command that clears a run by its id."""

from __future__ import annotations

import shlex
from importlib.metadata import PackageNotFoundError, version

_SINCE = (3, 3)


def clears_run(dag_id: str, run_id: str) -> str:
    """What clears a run, in words for the end of a sentence: the command, or the page in Airflow's UI."""
    if _installed() < _SINCE:
        return f"Airflow's page of run {run_id} of Dag {dag_id}, by its button Clear"
    return shlex.join(["airflow", "dags", "clear", dag_id, "--run-id", run_id, "--yes"])


def _installed() -> tuple[int, ...]:
    """The first two numbers of Airflow's version; the newest that is known to have the command, if it isn't here."""
    try:
        return tuple(int(number) for number in version("apache-airflow-core").split(".")[:2])
    except PackageNotFoundError:
        return _SINCE
