"""A Spark standalone cluster on this machine: a master and two workers, from PySpark's own jars.

Each is a Java process that ends with this one. They listen on free ports of 127.0.0.1. The workers' folders, with the
logs of each executor, are in ``.local/spark`` until the end.

    with SparkCluster() as cluster:
        SparkSession.builder.master(cluster.master_url)
        cluster.kill_executor()  # SIGKILL, as a crash or the kernel's out-of-memory killer does; Spark replaces it
        cluster.workers[0].kill()  # a node fails, with everything that runs on it

Executors are found by their command lines, which name their worker. Drivers run elsewhere: Spark sends no Python
application to such a cluster.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import shutil
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psutil  # type: ignore[import-untyped]  # Airflow brings it, without types
import pyspark

from dev import LOCAL
from dev.java import java_home
from dev.java_server import JavaServer
from dev.ports import HOST, free_ports

SPARK_HOME = Path(pyspark.__file__).parent
SIZE = 2
CORES = 4
"""The cores that a worker offers. They may be more than the machine has, so that nothing has to wait for free cores."""
WORKER_MEMORY = "3g"
"""The memory that a worker offers: for executors of Spark's default of 1 GiB each. It isn't reserved."""
DAEMON_MEMORY = "256m"

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_DEADLINE_S = 30.0


class SparkCluster:
    """A master and :data:`SIZE` workers: a context manager.

    On Linux the processes are bound to the thread that called :meth:`start`.

    :param name: prefix of the names of the folder and log files.
    :param home: the Spark whose jars they run.
    :param python: the executors' Python.
    """

    def __init__(self, name: str = "spark", home: Path = SPARK_HOME, python: str = sys.executable) -> None:
        self._home, self._python = home, python
        self._port, self._web_port, *self._worker_ports = free_ports(2 + SIZE)
        self.folder = LOCAL / "spark" / f"{name}-{self._port}"
        self.master = JavaServer("Spark's master", self._log_file("master"))
        self.workers = [JavaServer(f"Spark's worker {n}", self._log_file(f"worker-{n}")) for n in range(SIZE)]

    @property
    def master_url(self) -> str:
        """The address for ``--master``."""
        return f"spark://{HOST}:{self._port}"

    @property
    def web_url(self) -> str:
        """The master's web page; with ``/json/`` appended, its workers and applications as JSON."""
        return f"http://{HOST}:{self._web_port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start all processes and wait until the workers have registered with the master.

        :raises RuntimeError: a process ended or didn't answer in time; the message has the last lines of its log.
        """
        atexit.register(self.close)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.master.launch(self._master_command())
            self.master.wait_until(lambda: self.state() is not None)
            for number, worker in enumerate(self.workers):
                worker.launch(self._worker_command(number))
            self.wait_until_whole()
        except BaseException:
            self.close()
            raise

    def heal(self) -> None:
        """Start workers that were killed, on their old ports, and wait until they have registered."""
        for number, worker in enumerate(self.workers):
            if not worker.is_running:
                worker.launch(self._worker_command(number))
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Wait until all workers have registered with the master.

        :raises RuntimeError: a worker ended or didn't register in time; the message has the last lines of its log.
        """
        for port, worker in zip(self._worker_ports, self.workers, strict=True):
            worker.wait_until(lambda port=port: port in self._live_workers())  # type: ignore[misc]

    def close(self) -> None:
        """Kill all processes, including executors, and remove their folders. The log files stay."""
        for each in self.executors():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        for server in (*self.workers, self.master):
            server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def state(self) -> Any:
        """The master's state: ``workers``, ``activeapps`` and so on; None if it doesn't answer."""
        try:
            with urllib.request.urlopen(f"{self.web_url}/json/", timeout=5) as answer:
                return json.load(answer)
        except OSError:
            return None

    def executors(self) -> list[psutil.Process]:
        """The processes of running executors, oldest first."""
        ours = {f"spark://Worker@{HOST}:{port}" for port in self._worker_ports}
        found = [each for each, command in _commands() if _EXECUTOR in command and ours.intersection(command)]
        return sorted(found, key=lambda each: float(each.create_time()))

    def kill_executor(self) -> int:
        """Kill the oldest executor's process (SIGKILL), but not its Python workers.

        :returns: its process id.
        :raises LookupError: no executor has started within 30 s.
        """
        deadline = time.monotonic() + _DEADLINE_S
        while not (found := self.executors()):
            if time.monotonic() > deadline:
                raise LookupError(f"No executor runs on {self.master_url}.")
            time.sleep(0.05)
        found[0].kill()
        found[0].wait(_DEADLINE_S)
        return int(found[0].pid)

    def _live_workers(self) -> set[int]:
        state = self.state() or {"workers": ()}
        return {each["port"] for each in state["workers"] if each["state"] == "ALIVE"}

    def _master_command(self) -> list[str]:
        ports = ["--host", HOST, "--port", str(self._port), "--webui-port", str(self._web_port)]
        return self._spark_class("org.apache.spark.deploy.master.Master", *ports)

    def _worker_command(self, number: int) -> list[str]:
        address = ["--host", HOST, "--port", str(self._worker_ports[number]), "--webui-port", "0"]
        lends = ["--cores", str(CORES), "--memory", WORKER_MEMORY, "--work-dir", str(self.folder / f"worker-{number}")]
        # Each application's folder contains 50 MB of jars.
        cleans = {"enabled": "true", "interval": "30", "appDataTtl": "60"}
        options = " ".join(f"-Dspark.worker.cleanup.{name}={value}" for name, value in cleans.items())
        worker = "org.apache.spark.deploy.worker.Worker"
        return self._spark_class(worker, *address, *lends, self.master_url, SPARK_WORKER_OPTS=options)

    def _spark_class(self, java_class: str, *arguments: str, **variables: str) -> list[str]:
        variables |= {
            "SPARK_HOME": str(self._home),
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "PYSPARK_PYTHON": self._python,
        }
        program = str(self._home / "bin" / "spark-class")
        return ["env", *(f"{name}={value}" for name, value in variables.items()), program, java_class, *arguments]

    def _log_file(self, name: str) -> Path:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        return self.folder.with_name(f"{self.folder.name}-{name}.log")


def _commands() -> Iterator[tuple[psutil.Process, list[str]]]:
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            yield each, each.cmdline()
