"""Processes that benchmarks measure from their start to their end, with what a worker's environment has."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from dev.java import java_home
from tests.benchmarks.spark_session import CORES


def run(command: Sequence[str], output: Path, environment: Mapping[str, str] = {}) -> tuple[list[str], float, float]:
    """Run a process. Returns its output, its seconds, and the CPU seconds of all that it started.

    :raises AssertionError: when it fails.
    """
    with output.open("wb") as file:
        redirected = [(os.POSIX_SPAWN_DUP2, file.fileno(), 1), (os.POSIX_SPAWN_DUP2, file.fileno(), 2)]
        started = time.perf_counter()
        child = os.posix_spawnp(command[0], command, os.environ | environment, file_actions=redirected)
        _, status, used = os.wait4(child, 0)
        seconds = time.perf_counter() - started
    lines = output.read_text(errors="replace").splitlines()
    if status:
        raise AssertionError(f"{output.stem} failed: {lines[-20:]}")
    return lines, seconds, used.ru_utime + used.ru_stime


def worker_environment(servers: str) -> dict[str, str]:
    """What a worker's environment has.

    :param servers: the brokers of ``kafka_default``.
    """
    home = Path(pyspark.__file__).parent
    return {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": servers}}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": f"local[{CORES}]"}),
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
    }
