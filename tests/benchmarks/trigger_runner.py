"""The trigger runner, the process in whose event loop a triggerer's triggers run: what it consumes over a time."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from dev.airflow_services import AirflowServices
from dev.kafka import Broker

_BLOCKED = re.compile(rb"async thread was blocked for ([\d.]+) seconds")


@dataclass(slots=True)
class Observed:
    """What was observed over a time; complete when :func:`observed` is left.

    :param taken_s: how long that was.
    :param cpu_s: CPU seconds of all threads.
    :param starved_s: how long the event loop's thread was ready to run but got no core, because of other processes.
    :param blocks_s: how long the event loop was blocked each time, according to Airflow's watchdog, from 0.2 s on.
    :param requests: the number of requests to the broker, by API key.
    """

    taken_s: float = 0.0
    cpu_s: float = 0.0
    starved_s: float = 0.0
    blocks_s: list[float] = field(default_factory=list)
    requests: Counter[int] = field(default_factory=Counter)

    @property
    def cpu_percent(self) -> float:
        """Of one core."""
        return 100 * self.cpu_s / self.taken_s

    @property
    def longest_block_s(self) -> float:
        """0 if there was none."""
        return max(self.blocks_s, default=0.0)


@contextmanager
def observed(airflow: AirflowServices, broker: Broker) -> Iterator[Observed]:
    """Observe the runner, and the requests through the broker's proxy, until the block is left."""
    found = Observed()
    pid, log = airflow.trigger_runner_pid, airflow.log_file("triggerer")
    broker.proxy.reset_counts()
    start_s, cpu_s, starved_s, size = time.monotonic(), _cpu_s(pid), _starved_s(pid), log.stat().st_size
    yield found
    found.requests = broker.proxy.requests
    found.taken_s = time.monotonic() - start_s
    found.cpu_s, found.starved_s = _cpu_s(pid) - cpu_s, _starved_s(pid) - starved_s
    found.blocks_s = [float(each) for each in _BLOCKED.findall(log.read_bytes()[size:])]


def memory_kib(airflow: AirflowServices) -> float:
    """Resident memory of the runner."""
    return psutil.Process(airflow.trigger_runner_pid).memory_info().rss / 1024


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _starved_s(pid: int) -> float:
    """For the main thread, which runs the event loop; 0 if the kernel doesn't report it."""
    schedstat = Path(f"/proc/{pid}/task/{pid}/schedstat")
    return int(schedstat.read_text().split()[1]) / 1e9 if schedstat.exists() else 0.0
