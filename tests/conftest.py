"""What every test shares: an Airflow home of its own, set before anything imports Airflow."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

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
