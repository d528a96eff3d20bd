"""The README: it is short, its Dag is loaded by Airflow, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dev import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


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


def test_its_links_lead_somewhere() -> None:
    links: list[Any] = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_extra_it_names_exists() -> None:
    assert "\ns3 = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
