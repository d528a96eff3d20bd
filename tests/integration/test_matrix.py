"""The oldest Airflow with the oldest provider submits to the oldest Spark, on the oldest Python that drivers run on.

The other combinations are ``make matrix``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from airflow_kafka_offsets.submission.driver_bundle import application_bundle
from dev import ROOT
from dev.matrix import COMBINATIONS, run
from dev.matrix_environments import airflow_environment, build, python_of, tools_of_tests

OLDEST = COMBINATIONS[0]
ROOMS = ("cli", "conditions", "lineage", "operators", "pipelines", "submission")
NEWER = ("driver_bundle", "earlier_driver", "spark_program")
"""Tests of ``submission`` that need what the newest Spark provider or PySpark has."""


@pytest.mark.nightly("minutes of example Dags; the test below has the oldest Airflow run unit tests")
@pytest.mark.timeout(1800)
def test_the_oldest_of_all_runs_the_example_dags_from_the_wheel() -> None:
    assert run(OLDEST, build())["lag_s"] < 60


@pytest.mark.timeout(1200)
def test_the_oldest_airflow_passes_the_unit_tests_of_what_asks_for_its_version(tmp_path: Path) -> None:
    """And the oldest Spark provider. Some unit tests make timetables that only newer ones have."""
    python = airflow_environment(OLDEST.airflow, build()) / "bin" / "python"
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTEST"))}
    variables |= {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(ROOT), str(tools_of_tests())])}
    tests = ["tests/unit/compat/test_oldest_airflow.py", *(f"tests/unit/{room}" for room in ROOMS)]
    tests += [f"--ignore=tests/unit/submission/test_{each}.py" for each in NEWER]
    command = [str(python), "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider", *tests]
    ran = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("version", "said"), [("3.10", "usage: "), ("3.9", "airflow-kafka-offsets needs 3.10 or newer")]
)
def test_an_older_python_on_the_driver(tmp_path: Path, version: str, said: str) -> None:
    """Without PySpark: what is asked for is how it is started."""
    (tmp_path / "app.py").write_text(
        "import airflow_kafka_offsets.spark.session.conf\n"
        "import airflow_kafka_offsets.offsets.windows.manifest\n"
        "print('usage: ')"
    )
    bundle = tmp_path / "bundle.jar"
    bundle.write_bytes(application_bundle(str(tmp_path / "app.py"), None))
    answer = subprocess.run([python_of(version), "-I", "-S", str(bundle)], cwd="/", capture_output=True, text=True)
    assert said in answer.stdout + answer.stderr
