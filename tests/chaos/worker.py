"""Workers: processes that resolve and load windows with this package's own code, and may die at any time.

A worker does with a window what the operators do: resolve and pin it, look whether it can still be read, note the
attempt, and have a loader read exactly the manifest's ranges, write them, and create ``committed.json`` exclusively.
Everything that a worker knows is in the ledger: one that takes over after
a death, or does the same window at the same time, begins at the beginning; at the load, where another task has pinned
the window, as Airflow retries a load without the task before it.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import KafkaException
from upath import UPath

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.settings import ClientSettings
from airflow_kafka_offsets.errors import DataLossError, KafkaOffsetsError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.publication import Publication
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.window_names import window_id
from airflow_kafka_offsets.preflight import readable
from airflow_kafka_offsets.resolver import Policies, Resolver
from tests.chaos.death import CHANCE, DRIVERS_CHANCE, become_mortal, make_driver_mortal
from tests.chaos.plan import Task
from tests.chaos.range_load import RangeLoader

if TYPE_CHECKING:
    from tests.chaos.spark_load import Cluster

TIMEOUT_S = 20.0
_LOST = ("ExecutorLostFailure", "SparkContext was shut down", "stopped SparkContext", "Answer from Java side is empty")
"""How Spark says that it lost an executor too often, or its own JVM."""
POLICIES = Policies(on_truncation="clamp", on_future_record="warn")


@dataclass(frozen=True, slots=True)
class Place:
    """A pipeline's ledger, as a worker reaches it.

    :param root: folder of ledgers.
    :param options: fsspec's, for the root.
    """

    root: str
    options: Mapping[str, Any]
    isolation_level: str

    def path(self, uri: str, *, patient: bool = True) -> UPath:
        """A file or folder of the store, whose own retries are on or off."""
        if patient:
            return UPath(uri, **self.options)
        path = UPath(uri, **self.options, config_kwargs={"retries": {"total_max_attempts": 1}})
        path.fs.retries = 1
        return path

    def ledger(self, *, patient: bool = True) -> Ledger:
        """The pipeline's ledger."""
        return Ledger(self.path(self.root, patient=patient), "loads")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a worker is told when it starts.

    :param places: by store.
    :param output: folder of what is published.
    :param seed: of its death.
    :param patient: whether the store's client retries by itself; otherwise every fault reaches this package.
    :param spark: the cluster that loads; None for librdkafka.
    """

    bootstrap_servers: str
    topics: tuple[str, ...]
    places: Mapping[str, Place]
    output: Path
    seed: str
    patient: bool
    spark: Cluster | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What a worker says.

    :param verdict: ``done``; ``again`` for a fault that may pass; ``wrong`` for one that must not be; ``dies``.
    """

    verdict: str
    words: str


def work(connection: Any, settings: Settings) -> None:
    """Do tasks until nobody is there to give more."""
    rng, chance = random.Random(settings.seed), DRIVERS_CHANCE if settings.spark else CHANCE
    become_mortal(rng, lambda words: connection.send(Said("dies", words)), chance)
    if settings.spark is not None:
        make_driver_mortal(rng, lambda words: connection.send(Said("dies", words)))
    with suppress(EOFError), closing(Worker(settings)) as worker:
        while True:
            connection.send(worker.do(connection.recv()))


def may_pass(error: Exception) -> bool:
    """Whether a task that fails so is worth another try."""
    if isinstance(error, DataLossError):  # while it was read: the next try clamps, as Airflow's does
        return POLICIES.on_truncation == "clamp"
    if isinstance(error, KafkaOffsetsError):
        return error.retriable
    if type(error).__name__ in ("Py4JJavaError", "Py4JNetworkError"):
        return any(words in str(error) for words in _LOST)
    return isinstance(error, (OSError, KafkaException, BotoCoreError, ClientError))


class Loader(Protocol):
    """Reads windows and publishes them."""

    def load(self, store: str, pinned: PinnedManifest, attempt: str) -> bool:
        """Publish a window; whether this attempt was the first."""

    def again(self, store: str, pinned: PinnedManifest, publication: Publication) -> str:
        """Load a window that is published once more, and say how it ended."""

    def close(self) -> None: ...


def _loader(settings: Settings) -> Loader:
    """By Spark where there is a cluster. What it is made of is imported there alone: it takes a second."""
    if settings.spark is not None:
        from tests.chaos.spark_load import SparkLoader

        return SparkLoader(settings.spark, settings.bootstrap_servers, settings.output)

    def path(store: str, uri: str) -> UPath:
        return settings.places[store].path(uri, patient=settings.patient)

    return RangeLoader(settings.bootstrap_servers, path, settings.output)


class Worker:
    """Does one task after the other, with clients that it keeps."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        config = {"bootstrap.servers": settings.bootstrap_servers}
        self._client = OffsetsClient(ClientSettings.from_config(config), timeout_s=TIMEOUT_S)
        self._ledgers = {store: each.ledger(patient=settings.patient) for store, each in settings.places.items()}
        self._resolvers = {
            store: Resolver(
                self._client, self._ledgers[store], settings.topics, IsolationLevel(each.isolation_level), POLICIES
            )
            for store, each in settings.places.items()
        }
        self._loader = _loader(settings)

    def close(self) -> None:
        self._loader.close()
        self._client.close()

    def do(self, task: Task) -> Said:
        """Do a task, and say how it ended."""
        try:
            return Said("done", self._load(task) if task.load else self._pin(task))
        except Exception as error:
            if may_pass(error):
                return Said("again", f"{type(error).__name__}: {error}")
            return Said("wrong", traceback.format_exc())

    def _pinned(self, task: Task) -> PinnedManifest:
        return self._resolvers[task.store].window(task.start_ms, task.end_ms).pinned

    def _pin(self, task: Task) -> str:
        self._pinned(task)
        return "pinned"

    def _load(self, task: Task) -> str:
        ledger = self._ledgers[task.store]
        pinned = ledger.pinned(window_id(task.start_ms, task.end_ms), 1) if task.resolved else self._pinned(task)
        standing = ledger.window_folders.published(pinned.manifest.window)
        if standing is not None:
            return self._prove(task.store, standing)
        pinned = readable(self._client, ledger, pinned, POLICIES.on_truncation)
        attempt = uuid4().hex[:8]
        ledger.folder_of(pinned).record_attempt(attempt, {})
        try:
            first = self._loader.load(task.store, pinned, attempt)
        except DataLossError:
            readable(self._client, ledger, pinned)  # the ledger notes what is lost, as after a Spark run that failed
            raise
        clamped = ", clamped" if pinned.manifest.revision > 1 else ""
        return f"{'published' if first else 'second'}{clamped} ({attempt}, revision {pinned.manifest.revision})"

    def _prove(self, store: str, standing: WindowFolder) -> str:
        """Load a published window once more."""
        pinned, publication = standing.pinned(), standing.publication()
        assert pinned is not None and publication is not None  # noqa: PT018
        return self._loader.again(store, pinned, publication)
