"""Kills executors during a run: the first one soon, others now and then, as drawn from a seed."""

from __future__ import annotations

import contextlib
import random
import time
from threading import Event, Thread
from typing import Self

import psutil

from dev.spark_cluster import SparkCluster

BETWEEN_S = (10.0, 40.0)
GROWN_UP_S = 8.0
"""Younger executors aren't killed: they take some seconds to start, so otherwise nothing would ever be done."""


class ExecutorKiller:
    """Kills one executor after another, with SIGKILL: a context manager."""

    def __init__(self, cluster: SparkCluster, seed: int) -> None:
        self.killed = 0
        self._cluster = cluster
        self._rng = random.Random(seed)
        self._done = Event()
        self._thread = Thread(target=self._kill_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _kill_on(self) -> None:
        while not self._done.wait(self._rng.uniform(*BETWEEN_S) if self.killed else 1):
            before = time.time() - GROWN_UP_S
            with contextlib.suppress(psutil.NoSuchProcess):
                if grown_up := [each for each in self._cluster.executors() if each.create_time() < before]:
                    self._rng.choice(grown_up).kill()
                    self.killed += 1
