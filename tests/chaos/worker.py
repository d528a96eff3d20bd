"""Workers: processes that do tasks with this package's own code, and may die at any time.

Everything that a worker knows is in the ledger. A worker that takes over after a death, or does the same window at the
same time, starts at the beginning; or at the load, if another task has pinned the window, as Airflow retries a load
without its upstream task. What an error's message says is to be done, it does.
"""

from __future__ import annotations

import random
import re
import traceback
from contextlib import closing, suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import KafkaException

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import (
    CommitConflictError,
    DataLossError,
    KafkaOffsetsError,
    LedgerConflictError,
    LogTruncatedError,
    OffsetsError,
    TopicChangedError,
    WindowOverlapError,
)
from airflow_kafka_offsets.ledger import corrections
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from tests.chaos.death import CHANCE, DRIVERS_CHANCE, become_mortal, make_driver_mortal
from tests.chaos.pauses import make_hesitant
from tests.chaos.plan import Kind, Task
from tests.chaos.range_load import RangeLoader
from tests.chaos.settings import Order, Said, Settings
from tests.chaos.tasks import Loader, Tasks

TIMEOUT_S = 20.0
_LOST = ("ExecutorLostFailure", "SparkContext was shut down", "stopped SparkContext", "Answer from Java side is empty")
"""How Spark says that it lost an executor too often, or its own JVM."""
_CROSSED = re.compile(r"is not pinned: (?:pinned|published) window (\S+) has some of its time")
"""Whom a refused window crosses."""


def work(connection: Any, settings: Settings) -> None:
    """Do tasks until the crew is gone."""
    rng, chance = random.Random(settings.seed), DRIVERS_CHANCE if settings.spark else CHANCE
    become_mortal(rng, lambda words: connection.send(Said("dies", words)), chance)
    if settings.spark is not None:
        make_driver_mortal(rng, lambda words: connection.send(Said("dies", words)))
    make_hesitant(random.Random(f"{settings.seed} pauses"))
    with suppress(EOFError), closing(Worker(settings)) as worker:
        while True:
            connection.send(worker.do(connection.recv()))


def may_pass(error: Exception) -> bool:
    """Whether a task that fails with this error is worth another try."""
    if isinstance(error, DataLossError):  # during the read: the next try loads the rest, like Airflow's retry
        return True
    if isinstance(error, KafkaOffsetsError):
        return error.retriable
    if type(error).__name__ in ("Py4JJavaError", "Py4JNetworkError"):
        return any(words in str(error) for words in _LOST)
    return isinstance(error, (OSError, KafkaException, BotoCoreError, ClientError))


def _is_between(error: Exception) -> bool:
    """Whether the error may come from a topic that was deleted and isn't re-created yet."""
    return isinstance(error, OffsetsError) or type(error).__name__ == "Py4JJavaError"


def _loader(settings: Settings, client: OffsetsClient) -> Loader:
    """A loader that uses Spark if there is a cluster. Spark is imported only then, because that takes a second."""
    if settings.spark is not None:
        from tests.chaos.spark_load import SparkLoader

        return SparkLoader(settings.spark, settings.bootstrap_servers, settings.output)
    return RangeLoader(settings.bootstrap_servers, client, settings.output)


class Worker:
    """Does one task after another, with the same clients, and with a new look at the ledger each time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        config = {"bootstrap.servers": settings.bootstrap_servers}
        self._client = OffsetsClient(ClientSettings.from_config(config), timeout_s=TIMEOUT_S)
        self._loader = _loader(settings, self._client)

    def close(self) -> None:
        self._loader.close()
        self._client.close()

    def do(self, order: Order) -> Said:
        """Do a task, and say how it ended."""
        try:
            return Tasks(self._settings, self._client, self._loader, order).do()
        except Exception as error:
            try:
                return self._judged(order.task, error)
            except Exception as another:
                return _again(another) if may_pass(another) else Said("wrong", traceback.format_exc())

    def _judged(self, task: Task, error: Exception) -> Said:
        """What follows from an error."""
        if isinstance(error, WindowOverlapError):
            return self._crossed(task, error)
        if task.kind is Kind.REMADE and isinstance(error, (TopicChangedError, LogTruncatedError)):
            return Said("done", f"{task.kind} refused by {type(error).__name__} ({error})")
        if task.kind in (Kind.DRIVER, Kind.VOID) and isinstance(error, LedgerConflictError):
            return Said("done", f"{task.kind} refused ({error})")
        if isinstance(error, LedgerConflictError) and not isinstance(error, CommitConflictError):
            return Said("again", f"{type(error).__name__}: {error}", cleared=True)
        if may_pass(error) or (task.kind is Kind.REMADE and _is_between(error)):
            return _again(error)
        return Said("wrong", "".join(traceback.format_exception(error)))

    def _crossed(self, task: Task, error: WindowOverlapError) -> Said:
        """A cut may be refused because of a window that it crosses. If a planned window is refused because of a cut, do
        what the message says: take the cut away."""
        found = _CROSSED.search(str(error))
        if found is None:
            return Said("wrong", f"nobody is named: {error}")
        start_ms, end_ms = window_extent(found[1])
        if not (start_ms < task.end_ms and task.start_ms < end_ms):
            return Said("wrong", f"they don't cross: {error}")
        is_planned = (start_ms, end_ms) in self._settings.planned[task.store]
        if task.kind is Kind.CUT:
            return Said("done", "cut refused")
        if is_planned:
            return Said("wrong", "".join(traceback.format_exception(error)))
        ledger = self._settings.places[task.store].ledger(patient=self._settings.patient)
        ledger.change(lambda state: corrections.void(state, [found[1]]) if found[1] in state.windows else ())
        return Said("again", f"{type(error).__name__} of a cut: {error}")


def _again(error: Exception) -> Said:
    return Said("again", f"{type(error).__name__}: {error}")
