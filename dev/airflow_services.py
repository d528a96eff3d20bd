"""A whole Airflow on this machine: api-server, scheduler with its LocalExecutor, dag-processor and triggerer.

Each is a process with its own log file. The database is SQLite or PostgreSQL (:mod:`dev.postgres`). They end when this
process ends, for whatever reason.

    with AirflowServices(home) as airflow:
        (airflow.dags_folder / "wait.py").write_text(...)
        airflow.unpause("wait")
        run_id = airflow.trigger("wait")
        airflow.wait_until(lambda: airflow.runs("wait")[run_id] == "success")

Results are read from the database, over a read-only connection; actions go through the REST API. The settings are in
:mod:`dev.airflow_settings`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from dev.airflow_process import AirflowProcess
from dev.airflow_settings import database_file, service_variables, without_airflow
from dev.ports import HOST, free_ports

START_DEADLINE_S = 240.0
WAIT_DEADLINE_S = 120.0

# Logs are read as files, so they needn't be served over HTTP.
COMMANDS = {
    "api-server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}

T = TypeVar("T")


class AirflowServices:
    """Airflow's services and their database: a context manager, or :meth:`start` and :meth:`close`.

    On Linux the processes are bound to the thread that called :meth:`start`.

    :param home: a folder for the database, logs and Dags. It is created if missing, and not removed.
    :param environment: variables for all services, which add to ours or override them, such as connections, settings
        (``AIRFLOW__TRIGGERER__CAPACITY``) or ``PYTHONPATH``. The services also inherit this process's variables, except
        those that Airflow reads.
    :param postgres_url: an empty PostgreSQL database, ``postgresql://…``; None for SQLite.
    """

    def __init__(
        self, home: Path, environment: Mapping[str, str] | None = None, postgres_url: str | None = None
    ) -> None:
        self.home = home
        self._postgres_url = postgres_url
        (port,) = free_ports(1)
        settings = service_variables(home, port, postgres_url)
        self.environment = without_airflow(os.environ) | settings | dict(environment or {})
        self.url = f"http://{HOST}:{port}"
        self._processes = {name: self._process(name, command) for name, command in COMMANDS.items()}

    @property
    def dags_folder(self) -> Path:
        """The folder for Dag files. New and changed files are parsed within seconds."""
        return Path(self.environment["AIRFLOW__CORE__DAGS_FOLDER"])

    @property
    def trigger_runner_pid(self) -> int:
        """Process id of the triggerer's child, in whose event loop the triggers run.

        :raises LookupError: it isn't running.
        """
        children = self._processes["triggerer"].child_pids
        if not children:
            raise LookupError("the triggerer has no child that runs triggers")
        return children[0]

    def log_file(self, service: str) -> Path:
        """The log file of a service: ``api-server``, ``scheduler``, ``dag-processor`` or ``triggerer``."""
        return self._processes[service].log_file

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Create the database, start all services, and wait until each reports that it is healthy.

        :raises RuntimeError: a service ended, or wasn't healthy in time; the message has the last lines of its log.
        """
        atexit.register(self.close)
        try:
            self._make_folders()
            # It takes longest to start, and reads the database only on request.
            self._processes["api-server"].launch()
            self.run_command("db", "migrate")
            for name in ("scheduler", "dag-processor", "triggerer"):
                self._processes[name].launch()
            self.wait_until(lambda: all(self.health().values()), START_DEADLINE_S)
            self._warm_up()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill all services. The home folder stays."""
        for each in self._processes.values():
            each.kill()
        atexit.unregister(self.close)

    def health(self) -> dict[str, bool]:
        """Whether each service is healthy, by its latest heartbeat; for the api-server, whether it answers."""
        names = {"scheduler": "scheduler", "dag-processor": "dag_processor", "triggerer": "triggerer"}
        try:
            answer = self._request("GET", "/monitor/health")
        except httpx.TransportError:
            return dict.fromkeys(COMMANDS, False)
        return {"api-server": True} | {name: answer[key]["status"] == "healthy" for name, key in names.items()}

    def kill_triggerer(self) -> None:
        """Kill the triggerer and its child (SIGKILL), like a crash of its machine."""
        self._processes["triggerer"].kill()

    def start_triggerer(self) -> None:
        """Start a triggerer and wait until it is in the database. It won't have taken over a killed one's triggers yet.

        :raises RuntimeError: it ended or wasn't there in time; the message has the last lines of its log.
        """
        last_job = "SELECT coalesce(max(id), 0) FROM job WHERE job_type = 'TriggererJob'"
        before = self.query(last_job)
        self._processes["triggerer"].launch()
        self.wait_until(
            lambda: self.query(last_job) > before and self._processes["triggerer"].child_pids, START_DEADLINE_S
        )

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler run a Dag. Waits until the Dag's file has been parsed."""
        self.wait_for_dag(dag_id)
        self._request("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def wait_for_dag(self, dag_id: str) -> None:
        """Wait until a Dag's file has been parsed, so that the Dag can be run."""
        self.wait_until(lambda: self.query("SELECT 1 FROM serialized_dag WHERE dag_id = ?", dag_id))

    def start_watchers(self, dag_id: str) -> None:
        """Wait until the watchers of an unpaused Dag's assets have their triggers.

        The scheduler activates the assets. Then the Dag's file must be parsed again, which would otherwise take 30 s.
        """
        assets = """
            SELECT asset.id FROM dag_schedule_asset_reference AS scheduled JOIN asset ON asset.id = scheduled.asset_id
            JOIN asset_active AS active ON active.name = asset.name AND active.uri = asset.uri
            WHERE scheduled.dag_id = ?"""
        watchers = f"SELECT 1 FROM asset_watcher WHERE asset_id IN ({assets})"
        self.wait_until(lambda: self.query(assets, dag_id))
        ((file,),) = self.query("SELECT fileloc FROM dag WHERE dag_id = ?", dag_id)
        os.utime(file)
        self.wait_until(lambda: self.query(watchers, dag_id))

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Trigger a run of a Dag. Returns its run id.

        :param conf: the run's configuration.
        """
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self._request("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def clear(self, dag_id: str, run_id: str, *, only_failed: bool = False) -> None:
        """Clear the tasks of a run, so that they run again.

        :param only_failed: clear only tasks that failed, and those downstream of them.
        """
        body = {"dry_run": False, "only_failed": only_failed}
        self._request("POST", f"/dags/{dag_id}/dagRuns/{run_id}/clear", body)

    def run_command(self, *words: str) -> None:
        """Run a command of Airflow's command line, such as ``backfill create …``, and wait until it ends.

        :raises RuntimeError: it failed; the message has the last lines of its output.
        """
        process = self._process(words[0], list(words))
        process.launch()
        if process.wait() != 0:
            raise RuntimeError(f"airflow {' '.join(words)} failed.\n{process.last_log_lines()}")

    def runs(self, dag_id: str) -> dict[str, str]:
        """The states of a Dag's runs by run id, oldest first."""
        return dict(self.query("SELECT run_id, state FROM dag_run WHERE dag_id = ? ORDER BY id", dag_id))

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """The states of a run's tasks by task: ``wait``, or ``wait[7]`` for a mapped task. None before scheduling."""
        found = self.query(
            "SELECT task_id, map_index, state FROM task_instance WHERE dag_id = ? AND run_id = ? ORDER BY 1, 2",
            dag_id,
            run_id,
        )
        return {task if index < 0 else f"{task}[{index}]": state for task, index, state in found}

    def query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Rows of the database, over a read-only connection. Writers don't block it (SQLite's WAL).

        :param statement: with ``?`` for each parameter. Instants and JSON are returned as SQLite or psycopg give them.
        """
        if self._postgres_url is not None:
            import psycopg  # which the demo doesn't install

            with psycopg.connect(self._postgres_url, options="-c default_transaction_read_only=on") as reader:
                return reader.execute(statement.replace("?", "%s").encode(), parameters).fetchall()
        database = f"{database_file(self.home).as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(database, uri=True, timeout=30)) as connection:
            return connection.execute(statement, parameters).fetchall()

    def wait_until(self, answers: Callable[[], T], deadline_s: float = WAIT_DEADLINE_S) -> T:
        """Poll until a condition is true, five times a second. Returns its last answer.

        :param answers: the condition.
        :raises RuntimeError: a service ended, or the condition wasn't true in time; the message has each one's health.
        """
        deadline = time.monotonic() + deadline_s
        while not (answer := answers()):
            for each in self._processes.values():
                if each.has_ended:
                    raise RuntimeError(f"{each.name} ended.\n{each.last_log_lines()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"The condition wasn't true within {deadline_s:.0f} s.\n{self._how_services_are()}")
            time.sleep(0.2)
        return answer

    def _how_services_are(self) -> str:
        healthy = ", ".join(f"{name}: {'healthy' if is_so else 'NOT healthy'}" for name, is_so in self.health().items())
        return "\n".join([healthy, *(each.last_log_lines(10) for each in self._processes.values())])

    def _process(self, name: str, command: list[str]) -> AirflowProcess:
        return AirflowProcess(command, self.home / "logs" / f"{name}.log", self.environment)

    def _make_folders(self) -> None:
        for folder in (self.home / "logs", self.home / "airflow", self.dags_folder):
            folder.mkdir(parents=True, exist_ok=True)

    def _warm_up(self) -> None:
        """Make a first request to the API for tasks: the api-server builds it then, which blocks other requests for
        seconds."""
        httpx.get(f"{self.url}/execution/health", timeout=START_DEADLINE_S).raise_for_status()

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request to the REST API and return its answer.

        :raises httpx.HTTPStatusError: the API refused; its reason is a note on the error.
        """
        answer = httpx.request(method, f"{self.url}/api/v2{path}", json=body, timeout=120)
        try:
            return answer.raise_for_status().json()
        except httpx.HTTPStatusError as error:
            error.add_note(answer.text[:1_000])
            raise
