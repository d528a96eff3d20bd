"""The README: its Dag is loaded by Airflow, its commands are run, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dev import ROOT
from dev.kafka import Broker
from tests.integration.airflow.conftest import Resolve, Run

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands(first_word: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines())
    return [line for line in lines if line.startswith(f"{first_word} ")]


def test_it_is_short_enough_to_be_read() -> None:
    assert len(README.splitlines()) <= 200


@pytest.mark.filterwarnings("default")  # Airflow's own code
def test_its_dag_loads(tmp_path: Path, airflow_db: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    file = tmp_path / "orders_hourly.py"
    file.write_text(blocks("python")[0], encoding="utf-8")
    bag = DagBag(str(file), bundle_name="dags-folder")
    assert not bag.import_errors
    assert bag.dags["orders_hourly"].catchup, "hours that an outage skips would be in no window"
    assert [task.task_id for task in bag.dags["orders_hourly"].topological_sort()] == [
        "window_load.complete",
        "window_load.resolve",
        "window_load.load",
        "window_load.verify",
        "commit",
    ]


@pytest.mark.parametrize("command", commands("make"))
def test_its_make_targets_exist(command: str) -> None:
    assert (
        subprocess.run(["make", "-n", command.split()[1]], cwd=ROOT, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.parametrize("command", commands("kafka-offsets"))
def test_its_commands_run(
    command: str,
    flights: None,
    broker: Broker,
    resolve: Resolve,
    run: Run,
) -> None:
    from airflow_kafka_offsets.client.connection.settings import ClientSettings
    from airflow_kafka_offsets.client.offsets_client import OffsetsClient
    from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets

    with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})) as client:
        client.commit_offsets("flights-daily", CommittedOffsets([CommittedOffset("flights", 0, 1)]))
    resolve("flights", "2013-03-09T00:00:00Z", "2013-03-10T00:00:00Z", pipeline="flights_daily")
    code, out, err = run(*command.split()[1:])
    assert (code, err) == (0, "")
    assert out


def test_its_links_lead_somewhere() -> None:
    links: list[Any] = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_extra_it_names_exists() -> None:
    assert "\ns3 = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
