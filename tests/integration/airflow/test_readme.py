"""The README: it is short, and its Dag is loaded by Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev import ROOT
from tests.integration.doc_blocks import blocks_of

README = ROOT / "README.md"


def test_it_is_short_enough_to_be_read() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.filterwarnings("default")  # Airflow's own code
def test_its_dag_loads(tmp_path: Path, airflow_db: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    file = tmp_path / "orders_hourly.py"
    file.write_text(blocks_of(README)[0].code, encoding="utf-8")
    bag = DagBag(str(file), bundle_name="dags-folder")
    assert not bag.import_errors
    assert bag.dags["orders_hourly"].catchup, "hours that an outage skips would be in no window"
    assert [task.task_id for task in bag.dags["orders_hourly"].topological_sort()] == [
        "window_load.complete",
        "window_load.resolve",
        "window_load.load",
        "window_load.verify",
    ]


def test_the_extra_it_names_exists() -> None:
    assert "\ns3 = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
