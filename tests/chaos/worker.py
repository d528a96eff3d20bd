"""Workers: processes that resolve and load windows with this package's own code, and may die at any time.

A worker does with a window what the operators and the Spark driver do: resolve and pin it, look whether it can still
be read, read exactly the manifest's ranges, write them to a place of the attempt's own, and create ``committed.json``
exclusively. Records are read by librdkafka. Everything that a worker knows is in the ledger: one that takes over after
a death, or does the same window at the same time, begins at the beginning; at the load, where another task has pinned
the window, as Airflow retries a load without the task before it.
"""

from __future__ import annotations

import json
import random
import traceback
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import KafkaException
from upath import UPath

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.settings import ClientSettings
from airflow_kafka_offsets.errors import DataLossError, KafkaOffsetsError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import create_exclusive
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.publication import COMMITTED, Publication
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.window_names import window_id
from airflow_kafka_offsets.preflight import check_readable, readable
from airflow_kafka_offsets.resolver import Policies, Resolver
from tests.chaos.death import become_mortal
from tests.chaos.plan import Task
from tests.chaos.ranges import Offsets, RangeReader

TIMEOUT_S = 20.0
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
    """

    bootstrap_servers: str
    topics: tuple[str, ...]
    places: Mapping[str, Place]
    output: Path
    seed: str
    patient: bool


@dataclass(frozen=True, slots=True)
class Said:
    """What a worker says.

    :param verdict: ``done``; ``again`` for a fault that may pass; ``wrong`` for one that must not be; ``dies``.
    """

    verdict: str
    words: str


def work(connection: Any, settings: Settings) -> None:
    """Do tasks until nobody is there to give more."""
    become_mortal(random.Random(settings.seed), lambda words: connection.send(Said("dies", words)))
    with suppress(EOFError), closing(Worker(settings)) as worker:
        while True:
            connection.send(worker.do(connection.recv()))


def may_pass(error: Exception) -> bool:
    """Whether a task that fails so is worth another try."""
    if isinstance(error, KafkaOffsetsError):
        return error.retriable
    return isinstance(error, (OSError, KafkaException, BotoCoreError, ClientError))


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
        self._reader = RangeReader(settings.bootstrap_servers)

    def close(self) -> None:
        self._reader.close()
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
            return self._prove(standing)
        pinned = readable(self._client, ledger, pinned, POLICIES.on_truncation)
        attempt = uuid4().hex[:8]
        ledger.folder_of(pinned).record_attempt(attempt, {})
        offsets = self._reader.read(pinned.manifest)
        output = self._write(task.store, pinned.manifest.window, attempt, offsets)
        rows, snapshots = sum(map(len, offsets.values())), pinned.manifest.snapshots
        ours = Publication(attempt, str(output), pinned.sha256, rows, None, *snapshots)
        manifest = self._settings.places[task.store].path(pinned.uri, patient=self._settings.patient)
        first = create_exclusive(manifest.parent / COMMITTED, ours.to_bytes())
        clamped = ", clamped" if pinned.manifest.revision > 1 else ""
        return f"{'published' if first else 'second'}{clamped} ({attempt}, revision {pinned.manifest.revision})"

    def _prove(self, standing: WindowFolder) -> str:
        """Read a published window once more, if it is still there."""
        pinned, publication = standing.pinned(), standing.publication()
        assert pinned is not None and publication is not None and publication.output is not None  # noqa: PT018
        try:
            check_readable(self._client, pinned.manifest)
        except DataLossError:
            return "stands, and can't be read again"
        again = self._reader.read(pinned.manifest)
        assert _to_json(again) == json.loads(Path(publication.output).read_text()), "another run, other records"
        return "stands, and reads the same again"

    def _write(self, store: str, window: str, attempt: str, offsets: Offsets) -> Path:
        output = self._settings.output / store / window / f"{attempt}.json"
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(_to_json(offsets)))
        return output


def _to_json(offsets: Offsets) -> dict[str, list[int]]:
    return {f"{topic}:{partition}": each for (topic, partition), each in offsets.items()}
