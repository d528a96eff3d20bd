"""Holes as tasks tell of them, with the ways to load them, and what clears a run: as Airflow itself reads them."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, CronDataIntervalTimetable, CronPartitionTimetable, CronTriggerTimetable

from airflow_kafka_offsets.compat import airflow_versions
from airflow_kafka_offsets.ledger.entries import Attempted
from airflow_kafka_offsets.ledger.holes import Hole
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.instants import instant_ms
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.runs.around import refusal, run_of, told_runs
from airflow_kafka_offsets.runs.interval import run_interval

HOUR = timedelta(hours=1)
SIX = datetime(2026, 10, 31, 6, tzinfo=UTC)
RUN_ID = "scheduled__2026-10-31T07:00:00+00:00"


def hour(number: int) -> tuple[int, int]:
    """An hour after six, in Unix milliseconds."""
    return instant_ms(SIX + number * HOUR), instant_ms(SIX + (number + 1) * HOUR)


def said(start_ms: int, end_ms: int, who: dict[str, Any], *pinned: Window) -> str:
    """What verify says about a hole of a hundred offsets."""
    ranges = (LogRange("t", 0, 0, 100),)
    missing = Hole(start_ms, end_ms, pinned, ranges, () if pinned else ranges)
    return str(refusal({"ti": SimpleNamespace(dag_id="loads")}, who, "w", [missing]))


def made_by(command: str, timetable: Any) -> set[tuple[int, int]]:
    """The windows of the runs that Airflow makes of a backfill command."""
    from airflow.cli import cli_parser
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import DagSerialization

    with DAG("loads", schedule=timetable, start_date=datetime(2020, 1, 1, tzinfo=UTC)) as dag:
        pass
    airflow, *words = shlex.split(command)
    args = cli_parser.get_parser().parse_args(words)
    assert (airflow, args.dag_id, args.reprocess_behavior) == ("airflow", "loads", "failed")
    served: SerializedDAG = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    contexts = [
        {
            "dag": dag,
            "partition_date": each.partition_date,
            "data_interval_start": each.data_interval and each.data_interval.start,
            "data_interval_end": each.data_interval and each.data_interval.end,
        }
        for each in served.iter_dagrun_infos_between(args.from_date, args.to_date)
    ]
    found = [run_interval(each, None, None) for each in contexts]
    return {(each.start_ms, each.end_ms) for each in found}


@pytest.mark.parametrize(
    "timetable",
    [
        CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
        CronDataIntervalTimetable("0 * * * *", timezone="America/New_York"),
        CronTriggerTimetable("0 * * * *", timezone="UTC", interval=HOUR),
        CronPartitionTimetable("0 * * * *", timezone="UTC", run_offset=-1),
    ],
    ids=["start", "another zone", "end", "partition"],
)
@pytest.mark.parametrize(("first", "last"), [(1, 2), (1, 4), (20, 26)], ids=["an hour", "three", "clocks change"])
def test_the_backfill_loads_the_hole_and_takes_in_a_neighbour_at_most(timetable: Any, first: int, last: int) -> None:
    """Which is there, and so left alone."""
    command = re.search(r"(airflow .* failed), or", said(hour(first)[0], hour(last)[0], {}))
    assert command is not None
    wanted = {hour(each) for each in range(first, last)}
    assert wanted <= made_by(command[1], timetable) <= wanted | {hour(first - 1), hour(last)}


@pytest.mark.parametrize(
    ("who", "dag_id"), [({"dag_id": "other"}, "other"), ({}, "loads"), ({"by": "me, at a shell"}, "loads")]
)
def test_the_run_is_one_of_the_dag_that_loads_the_pipeline(who: dict[str, Any], dag_id: str) -> None:
    """A hole may be no window of its schedule."""
    message = said(*hour(1), who)
    assert "no window has 100 of the 100 offsets from 2026-10-31T07:00:00" in message
    assert f"--dag-id {dag_id} " in message
    assert f"a run of {dag_id} with start=2026-10-31T07:00:00.000Z and end=2026-10-31T08:00:00.000Z" in message


def test_what_is_pinned_is_waited_for_and_not_loaded_a_second_time() -> None:
    window = Window("20261031T070000000Z_20261031T080000000Z", *hour(1), 3, "m", 100)
    message = said(*hour(1), {}, window)
    assert f"load what is pinned: wait for the runs of {window.name}" in message
    assert "kafka-offsets ledger void" in message
    assert "backfill" not in message


def loaded_by(who: dict[str, Any]) -> Window:
    name = "20261031T060000000Z_20261031T070000000Z"
    return Window(name, 1, 2, 3, "m", 100, attempts=(Attempted(name, who, number=4),))


def test_airflow_has_the_command() -> None:
    from airflow.cli import cli_parser

    command = run_of(loaded_by({"dag_id": "loads", "run_id": RUN_ID, "task_id": "load"}))
    assert command is not None
    airflow, *words = shlex.split(command)
    args = cli_parser.get_parser().parse_args(words)
    assert (airflow, args.subcommand, args.dag_id, args.run_id, args.yes) == ("airflow", "clear", "loads", RUN_ID, True)


def test_an_older_airflow_has_only_the_button(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_versions, "version", lambda _: "3.2.1")
    (line,) = told_runs([loaded_by({"dag_id": "loads", "run_id": RUN_ID})])
    assert line.endswith(f"Airflow's page of run {RUN_ID} of Dag loads, by its button Clear")


def test_what_no_run_has_loaded_is_begun_anew() -> None:
    assert run_of(loaded_by({"by_hand": "me"})) is None
    (line,) = told_runs([loaded_by({"by_hand": "me"})])
    assert "kafka-offsets ledger begin" in line
