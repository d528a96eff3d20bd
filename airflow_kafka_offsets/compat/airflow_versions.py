"""What depends on the version of Airflow: mostly what 3.1 and 3.2 lack. Imports Airflow only when asked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_CLEARS_RUNS = (3, 3)
"""The first version with a command that clears a run by its id."""
_CRONS = ("CronDataIntervalTimetable", "CronTriggerTimetable", "CronPartitionTimetable")
_BY_ASSETS_TOO = "AssetOrTimeSchedule"


def task_state(context: Mapping[str, Any]) -> Any:
    """The running task's state store, which outlives its pokes and tries; None before Airflow 3.3."""
    return context.get("task_state_store")


def deferral_timeout() -> type[Exception]:
    """The exception that a deferred task gets when its trigger takes too long; Airflow 3.2 has moved it."""
    try:
        from airflow.sdk.exceptions import TaskDeferralTimeout
    except ImportError:
        from airflow.exceptions import TaskDeferralTimeout  # type: ignore[no-redef]

    return TaskDeferralTimeout


def needs_airflow(what: str, since: str, instead: str) -> str:
    """The message that this Airflow lacks something, and what happens instead, or what to do."""
    return f"{what} needs Airflow {since}, but this is {version('apache-airflow-core')}: {instead}"


def clears_run(dag_id: str, run_id: str) -> str:
    """What clears a run, in words for the end of a sentence: the command, or the page in Airflow's UI."""
    if _installed() < _CLEARS_RUNS:
        return f"Airflow's page of run {run_id} of Dag {dag_id}, by its button Clear"
    return shlex.join(["airflow", "dags", "clear", dag_id, "--run-id", run_id, "--yes"])


def _installed() -> tuple[int, ...]:
    """The first two numbers of Airflow's version; the newest that is known to have the command, if it isn't here."""
    try:
        return tuple(int(number) for number in version("apache-airflow-core").split(".")[:2])
    except PackageNotFoundError:
        return _CLEARS_RUNS


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule of one cron expression.

    :param timezone: its time zone, or the zone's name.
    :param interval: length of the windows that end at its ticks; None where they reach from tick to tick.
    """

    expression: str
    timezone: Any
    interval: timedelta | None = None


def cron_of(timetable: Any) -> Cron | None:
    """The schedule of a timetable, also if that waits for assets too; None for one with several crons, or none.

    A Dag may use the timetables of ``airflow.timetables`` or, since Airflow 3.2, those of ``airflow.sdk``. The two
    families share no class, and the older one keeps its arguments in private attributes. Names of classes and of
    arguments are the same in both.
    """
    names = [each.__name__ for each in type(timetable).__mro__]
    if _BY_ASSETS_TOO in names:
        return cron_of(timetable.timetable)
    if not any(name in _CRONS for name in names):  # private attributes of others may mean something else
        return None
    interval = _of(timetable, "interval")
    return Cron(_of(timetable, "expression"), _of(timetable, "timezone"), interval or None)


def _of(timetable: Any, part: str) -> Any:
    return getattr(timetable, part, getattr(timetable, f"_{part}", None))
