"""The command that clears the run of a window: it is one of Airflow's, and names the run whose rows count."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from airflow_kafka_offsets.compat import airflow_versions
from airflow_kafka_offsets.ledger.entries import Attempted
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.runs.clearing import run_of, told_runs

RUN_ID = "scheduled__2026-10-31T07:00:00+00:00"


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
