"""Settings of the services of a local Airflow: a database, one small process of each kind, short polling intervals.

Two defaults of Airflow matter, and stay: the triggerer picks up at most 50 triggers in each loop, and its watchdog
warns when the event loop is blocked for 0.2 s.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dev.ports import HOST

TRIGGERER_CAPACITY = 2_000
"""How many triggers a triggerer runs. Airflow's default is 1,000, which is too low for 1,000 waits and an asset
watcher."""

# The triggers of a killed triggerer are taken over once its last heartbeat is older than this. Long enough for a
# triggerer whose heartbeat is late on a busy machine, and short enough to wait for in a test.
_TRIGGERER_DEAD_AFTER_S = 5


def service_variables(home: Path, port: int, postgres_url: str | None = None) -> dict[str, str]:
    """Settings of a whole Airflow, as environment variables.

    :param home: the folder for everything that Airflow writes.
    :param port: the api-server's port.
    :param postgres_url: a PostgreSQL database, ``postgresql://…``; None for SQLite.
    """
    database = _sqlite(home) if postgres_url is None else _postgres(postgres_url)
    sections = _what_it_is(home, port) | {"database": database | {"check_migrations": False}} | _how_quick_it_is()
    named = {
        f"AIRFLOW__{section.upper()}__{option.upper()}": str(value)
        for section, options in sections.items()
        for option, value in options.items()
    }
    return named | {"AIRFLOW_HOME": str(home / "airflow"), "NO_COLOR": "1"}


def without_airflow(variables: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables that Airflow reads, which tests and demo set for the Airflow in-process."""
    return {name: value for name, value in variables.items() if not name.lstrip("_").startswith("AIRFLOW")}


def database_file(home: Path) -> Path:
    """The SQLite database of the services."""
    return home / "airflow" / "airflow.db"


def _what_it_is(home: Path, port: int) -> dict[str, dict[str, object]]:
    address = f"http://{HOST}:{port}"
    return {
        "core": {
            "dags_folder": home / "dags",
            "load_examples": False,
            "executor": "LocalExecutor",
            "parallelism": 4,
            "execution_api_server_url": f"{address}/execution/",
            # No login: every request to the REST API is made as an admin.
            "simple_auth_manager_all_admins": True,
            # No key, so no encryption: triggers' arguments are plain JSON in the database.
            "fernet_key": "",
        },
        "api": {"base_url": address, "host": HOST, "port": port, "workers": 1, "secret_key": os.urandom(16).hex()},
        # One secret for all services: the scheduler signs the tokens that tasks send to the api-server.
        "api_auth": {"jwt_secret": os.urandom(32).hex()},
        "logging": {"logging_level": "INFO", "base_log_folder": home / "airflow" / "logs"},
        # Seconds that a task waits for the api-server. The default is 5, but the machine may be busy.
        "workers": {"execution_api_timeout": 120},
        "usage_data_collection": {"enabled": False},
    }


def _sqlite(home: Path) -> dict[str, object]:
    """The timeout is how many seconds a writer waits for another writer; sqlite3's default is 5."""
    return {"sql_alchemy_conn": f"sqlite:///{database_file(home)}?timeout=60"}


def _postgres(url: str) -> dict[str, object]:
    """The same driver for both: without the second setting, Airflow looks for asyncpg."""
    with_driver = url.replace("postgresql:", "postgresql+psycopg:", 1)
    return {"sql_alchemy_conn": with_driver, "sql_alchemy_conn_async": with_driver}


def _how_quick_it_is() -> dict[str, dict[str, object]]:
    return {
        "scheduler": {
            "scheduler_heartbeat_sec": 1,
            "scheduler_idle_sleep_time": 0.5,
            # Also how often assets are activated; the watchers of inactive assets aren't started.
            "parsing_cleanup_interval": 2,
            "trigger_timeout_check_interval": 2,
        },
        # New and changed Dag files are found at once; unchanged files are parsed again every 30 s.
        "dag_processor": {"refresh_interval": 1, "bundle_refresh_check_interval": 1, "parsing_processes": 1},
        "triggerer": {
            "capacity": TRIGGERER_CAPACITY,
            "job_heartbeat_sec": 1,
            "triggerer_health_check_threshold": _TRIGGERER_DEAD_AFTER_S,
        },
    }
