"""What every test shares: an Airflow home of its own, set before anything imports Airflow."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

REPOSITORY = Path(__file__).resolve().parent.parent

# At import, not in a fixture: Airflow reads its home and settings once, when the first test module imports it.
AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="airflow-home-"))
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)
os.environ |= {
    "AIRFLOW_HOME": str(AIRFLOW_HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{AIRFLOW_HOME}/airflow.db",
}


@pytest.fixture(scope="session")
def airflow_db() -> Path:
    """Airflow's metadata database, migrated; answers the file that holds it."""
    from airflow.utils.db import initdb

    initdb()
    return AIRFLOW_HOME / "airflow.db"


_TOGETHER = {
    # Spark's own Ivy cache is for one process at a time.
    "spark": ("tests/integration/spark/", "tests/integration/airflow/test_example_dags.py"),
    # One Airflow, which takes half a minute to start.
    "airflow": (
        "tests/integration/dev/test_airflow_services.py",
        "tests/integration/dev/test_deferred_waits.py",
        "tests/integration/airflow/waits/test_triggerer.py",
    ),
}


class _ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist's class
    """Where tests run in several processes: a file's tests share what it starts, and so do some files."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((name for name, starts in _TOGETHER.items() if file.startswith(starts)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByFile:
    return _ByFile(config, log)
