"""An Airflow that is too old says so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_kafka_offsets.compat.oldest_airflow import require_airflow
from airflow_kafka_offsets.errors import ConfigurationError

OLD = """
from importlib import metadata
metadata.version = lambda _: "3.0.6"
from airflow_kafka_offsets.{folder} import anything
"""


@pytest.mark.parametrize("found", ["2.11.0", "3.0.6"])
def test_an_older_one_is_refused(found: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"needs Airflow 3\.1 or newer, but this is {found}: upgrade it"):
        require_airflow(found)


@pytest.mark.parametrize("found", ["3.1.0", "3.1.0rc1", "3.1rc1", "3.10.0", "4.0.0.dev0", None])
def test_a_newer_one_is_not(found: str | None) -> None:
    require_airflow(found)


@pytest.mark.parametrize("folder", ["operators", "sensors", "task_groups", "triggers"])
def test_dags_hear_it_before_any_import_fails(folder: str) -> None:
    answer = subprocess.run([sys.executable, "-c", OLD.format(folder=folder)], capture_output=True, text=True)
    assert answer.stderr.splitlines()[-1].endswith(
        "ConfigurationError: airflow-kafka-offsets needs Airflow 3.1 or newer, but this is 3.0.6: upgrade it."
    )
