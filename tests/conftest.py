"""What every test shares: an Airflow home of its own, set before anything imports Airflow."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from dev.class_archives import QUICK_START
from tests import endings

REPOSITORY = Path(__file__).resolve().parent.parent

# At import, not in a fixture: Airflow reads its home and settings once, when the first test module imports it.
AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="airflow-home-"))
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)
os.environ |= {
    # As in an environment that is activated: loads look for spark-submit before they begin.
    "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
    "AIRFLOW_HOME": str(AIRFLOW_HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    # On a busy machine, the imports of a Dag's file take longer than Airflow's own 30 and 50 seconds.
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
    "AIRFLOW__KAFKA_OFFSETS__JARS_FOLDER": str(AIRFLOW_HOME / "jars"),
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{AIRFLOW_HOME}/airflow.db",
    "JDK_JAVA_OPTIONS": QUICK_START,
}

# By default an example that takes 0.2 s fails, as it now and then does while brokers start beside it.
settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")


@pytest.fixture(scope="session")
def airflow_db() -> Path:
    """Airflow's metadata database, migrated; answers the file that holds it."""
    from airflow.utils.db import initdb

    initdb()
    return AIRFLOW_HOME / "airflow.db"


_TOGETHER = {
    # One cluster of three brokers, one guarded broker and one old one.
    "cluster": (
        "tests/integration/client/cases/",
        "tests/integration/airflow/test_cli_old_broker.py",
        "tests/integration/airflow/waits/test_faults.py",
        "tests/integration/airflow/windows/test_compaction.py",
        "tests/integration/airflow/windows/cluster/",
        "tests/integration/fuzz/",
    ),
    # One broker that deletes.
    "retention": ("tests/integration/airflow/retention_watch/",),
    # One Spark session each; what is named first has it.
    "spark cluster": ("tests/integration/spark/cluster/", "tests/integration/spark/sinks/test_killed.py"),
    # Those that write tables of Delta Lake and Iceberg, which take a Spark as long to load as Spark itself.
    "spark tables": (
        "tests/integration/spark/sinks/",
        "tests/integration/spark/audits/",
        "tests/integration/spark/test_many_windows.py",
    ),
    "spark": ("tests/integration/spark/",),
    # One Airflow, which takes half a minute to start.
    "airflow": (
        "tests/integration/page/browser/",
        "tests/integration/airflow/test_outlets.py",
        "tests/integration/airflow/waits/test_triggerer.py",
        "tests/integration/airflow/waits/test_watchers.py",
    ),
}
# What takes minutes goes first, so that what is left for the end is short and all processes end together.
_LONGEST_FIRST = [
    "spark tables",
    "cluster",
    "spark",
    "airflow",
    "spark cluster",
    "tests/integration/airflow/test_on_yarn.py",
    "tests/integration/ledger/test_contention.py",
    "tests/chaos/",
    "tests/integration/airflow/backfill/",
    "tests/integration/airflow/test_example_dags.py",
    "tests/integration/airflow/test_s3.py",
    "tests/integration/test_matrix.py",
    "tests/integration/test_wheel.py",
    "tests/integration/airflow/doc_commands/",
    "tests/integration/client/",
    "tests/integration/airflow/",
    "tests/integration/",
]


def _unit(nodeid: str) -> str:
    """What a test shares with others of one process: its file, or the name of several files."""
    file = nodeid.partition("::")[0]
    return next((name for name, starts in _TOGETHER.items() if file.startswith(starts)), file)


def _place(item: pytest.Item) -> int:
    """Where a test's unit stands in :data:`_LONGEST_FIRST`."""
    unit = _unit(item.nodeid)
    known = (n for n, each in enumerate(_LONGEST_FIRST) if unit == each or item.nodeid.startswith(each))
    return next(known, len(_LONGEST_FIRST))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("nightly"):
            if not mark.args:
                raise pytest.UsageError(f"{item.nodeid}: nightly needs a reason, why make test leaves this test out.")
    items.sort(key=_place)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End what the tests of a unit share with the last of them."""
    if nextitem is None or _unit(nextitem.nodeid) != _unit(item.nodeid):
        endings.end(item.session)


class _ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist's class
    """Where tests run in several processes: a file's tests share what it starts, and so do some files."""

    def _split_scope(self, nodeid: str) -> str:
        return _unit(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByFile:
    return _ByFile(config, log)
