"""The demo's second half, ``make demo UI=1``: a whole Airflow with what the first half has loaded, until Ctrl-C.

The broker stays too. The topic ends at noon of a day that isn't loaded yet, and a run of the Dag waits for its end.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from rich.console import Console

from airflow_kafka_offsets.lineage import PREFIX
from dev import ROOT
from dev.airflow_services import START_DEADLINE_S, AirflowServices

DAG = "flights_daily"
_OWN = ("AIRFLOW_HOME", "AIRFLOW__CORE__", "AIRFLOW__DATABASE__")
"""Settings for which the services have values of their own."""
_IDLE = 'idle="assume_after",\n        idle_after=timedelta(hours=1),'
_DATES = ("start_date=datetime(2013, 1, 1,", "end_date=datetime(2013, 12, 31,")


def serve(console: Console, home: Path, variables: Mapping[str, str], waiting: date) -> None:
    """Start Airflow, make a run wait for a day's end, print the addresses, and keep running.

    :param home: the demo's folder, with Airflow's database.
    :param variables: the environment in which the days were loaded.
    :param waiting: the day.
    """
    given = {name: value for name, value in variables.items() if not name.startswith(_OWN)}
    with AirflowServices(home, given) as airflow:
        (airflow.dags_folder / f"{DAG}.py").write_text(_of_one_day(waiting))
        airflow.unpause(DAG)
        airflow.wait_until(lambda: "deferred" in _states(airflow), START_DEADLINE_S)
        console.print(f"The run for {waiting} waits, because the topic ends at noon of that day")
        for name, place in {"Kafka windows": f"{airflow.url}{PREFIX}/", "Airflow": airflow.url}.items():
            console.print(f"{name:>16}  {place}", highlight=False, soft_wrap=True)
        console.print("Airflow and the broker run until you press Ctrl-C; no login is needed")
        console.file.flush()
        signal.pause()


def _of_one_day(day: date) -> str:
    """The example Dag, with a schedule of one day. It mustn't take the topic for idle, although the flights are old."""
    changes = {bound: f"{bound.partition('=')[0]}=datetime({day.year}, {day.month}, {day.day}," for bound in _DATES}
    source = (ROOT / "dags" / f"{DAG}.py").read_text(encoding="utf-8")
    for before, after in (changes | {_IDLE: 'idle="wait",'}).items():
        assert before in source, before
        source = source.replace(before, after)
    return source


def _states(airflow: AirflowServices) -> list[str | None]:
    """The task states of the schedule's only run. The earlier days' runs were triggered by hand."""
    scheduled = [run for run in airflow.runs(DAG) if run.startswith("scheduled__")]
    return [state for run in scheduled for state in airflow.task_states(DAG, run).values()]
