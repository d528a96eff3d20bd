"""The oldest Airflow with the oldest provider submits to the oldest Spark, on the oldest Python that drivers run on.

The other combinations are ``make matrix``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from airflow_kafka_offsets.submission.application import BUNDLE_NAME, bundle
from dev import ROOT
from dev.matrix import COMBINATIONS, run
from dev.matrix_environments import airflow_environment, build, python_of, tools_of_tests

OLDEST = COMBINATIONS[0]
ROOMS = ("cli", "conditions", "lineage", "operators", "pipelines", "submission")
NEWER = ("application", "driver_status", "spark_program")
"""Tests of ``submission`` that need what the newest Spark provider or PySpark has."""


@pytest.mark.nightly("minutes of example Dags; the test below has the oldest Airflow run unit tests")
@pytest.mark.timeout(1800)
def test_the_oldest_of_all_runs_the_example_dags_from_the_wheel() -> None:
    assert run(OLDEST, build())["lag_s"] < 60


@pytest.mark.timeout(1200)
def test_the_oldest_airflow_passes_the_unit_tests_of_what_depends_on_its_version(tmp_path: Path) -> None:
    """And the oldest Spark provider. Some unit tests make timetables that only newer ones have."""
    python = airflow_environment(OLDEST.airflow, build()) / "bin" / "python"
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTEST"))}
    variables |= {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(ROOT), str(tools_of_tests())])}
    tests = [f"tests/unit/{room}" for room in ROOMS]
    tests += [f"--ignore=tests/unit/submission/test_{each}.py" for each in NEWER]
    command = [str(python), "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider", *tests]
    ran = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("version", "said"), [("3.10", "imported"), ("3.9", "airflow-kafka-offsets needs 3.10 or newer")]
)
def test_an_older_python_on_the_driver(tmp_path: Path, version: str, said: str) -> None:
    """Without PySpark: what a driver imports first."""
    (tmp_path / BUNDLE_NAME).write_bytes(bundle())
    code = """
import sys

sys.path.insert(0, sys.argv[1])
import airflow_kafka_offsets.ledger.log
import airflow_kafka_offsets.spark.session.conf

print("imported")
"""
    command = [python_of(version), "-I", "-S", "-c", code, str(tmp_path / BUNDLE_NAME)]
    answer = subprocess.run(command, cwd="/", capture_output=True, text=True)
    assert said in answer.stdout + answer.stderr
