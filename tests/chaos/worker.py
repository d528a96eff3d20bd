"""Workers: processes that resolve and load windows with this package's own code, and may die at any time.

A worker does with a window what the operators do: resolve and pin it, check whether it can still be read, record the
attempt, have a loader read exactly the manifest's ranges, write the rows and the counts, and publish. Everything that a
worker knows is in the ledger. A worker that takes over after a death, or does the same window at the same time, starts
at the beginning; or at the load, if another task has pinned the window (Airflow retries a load without its upstream
task); or at publishing, if somebody has loaded and counted the window.

Some windows are resolved again while others load them as they were pinned before. Windows that must not be published
are tried in the same way: the worker itself re-creates their topics after they were pinned.

A window that cuts across planned ones is pinned or refused, but never loaded. If it was pinned first, the planned ones
are refused, and the worker does what the message says: it makes the ledger forget the cut.
"""

from __future__ import annotations

import random
import re
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import KafkaException
from upath import UPath

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import (
    DataLossError,
    KafkaOffsetsError,
    LogTruncatedError,
    OffsetsError,
    TopicChangedError,
    WindowOverlapError,
)
from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent, window_id
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.pipelines.preflight import readable
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt, counted_attempt, proved_attempts, publish
from airflow_kafka_offsets.pipelines.snapshot_maker import SnapshotMaker
from airflow_kafka_offsets.pipelines.window_pinner import Policies, WindowPinner
from tests.chaos.death import CHANCE, DRIVERS_CHANCE, become_mortal, make_driver_mortal
from tests.chaos.pauses import Pauses
from tests.chaos.plan import CHECKED, COUNTED, CUT, INCREMENT, PINNED, READING, REMADE, REVISION, WINDOW, Task, Times
from tests.chaos.range_load import RangeLoader
from tests.chaos.remade import remake

if TYPE_CHECKING:
    from tests.chaos.spark_load import Cluster

TIMEOUT_S = 20.0
_LOST = ("ExecutorLostFailure", "SparkContext was shut down", "stopped SparkContext", "Answer from Java side is empty")
"""How Spark says that it lost an executor too often, or its own JVM."""
POLICIES = Policies(on_data_loss="load_rest")
_TAKEN = re.compile(r"of its offsets are in window (\S+) too")
"""Whom a refused window meets."""
Ranges = tuple[tuple[str, int, int, int], ...]
"""Topic, partition, first offset and end of them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A pipeline's ledger, and how to reach it.

    :param root: the folder of ledgers.
    :param options: fsspec's options for the root.
    :param topics: the pipeline's topics.
    """

    root: str
    options: Mapping[str, Any]
    isolation_level: str
    topics: tuple[str, ...]

    def path(self, uri: str, *, patient: bool = True) -> UPath:
        """A file or folder of the store, with the store client's own retries on or off."""
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
    """A worker's settings.

    :param places: by store.
    :param cuts: the windows that cut across the planned ones, by store.
    :param output: the folder for the output.
    :param seed: for its death and its pauses.
    :param patient: whether the store's client retries by itself. Otherwise every fault reaches this package.
    :param spark: the cluster that loads; None for librdkafka.
    """

    bootstrap_servers: str
    places: Mapping[str, Place]
    cuts: Mapping[str, tuple[Times, ...]]
    output: Path
    seed: str
    patient: bool
    spark: Cluster | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What a worker reports.

    :param verdict: ``done``; ``again`` for a fault that may pass; ``wrong`` for one that must not happen; ``dies``.
    :param window: the increment's window, or the window because of which a cut was refused.
    :param revision: the window's pinned revision.
    :param ranges: the ranges that a cut has, or would have.
    """

    verdict: str
    words: str
    window: Times | None = None
    revision: int | None = None
    ranges: Ranges = ()


def work(connection: Any, settings: Settings) -> None:
    """Do tasks until the crew is gone."""
    rng, chance = random.Random(settings.seed), DRIVERS_CHANCE if settings.spark else CHANCE
    become_mortal(rng, lambda words: connection.send(Said("dies", words)), chance)
    if settings.spark is not None:
        make_driver_mortal(rng, lambda words: connection.send(Said("dies", words)))
    pauses = Pauses(random.Random(f"{settings.seed} pauses"))
    with suppress(EOFError), closing(Worker(settings, pauses)) as worker:
        while True:
            connection.send(worker.do(connection.recv()))


def may_pass(error: Exception) -> bool:
    """Whether a task that fails with this error is worth another try."""
    if isinstance(error, DataLossError):  # during the read: the next try loads the rest, like Airflow's retry
        return POLICIES.on_data_loss == "load_rest"
    if isinstance(error, KafkaOffsetsError):
        return error.retriable
    if type(error).__name__ in ("Py4JJavaError", "Py4JNetworkError"):
        return any(words in str(error) for words in _LOST)
    return isinstance(error, (OSError, KafkaException, BotoCoreError, ClientError))


def _is_between(error: Exception) -> bool:
    """Whether the error may come from a topic that was deleted and isn't re-created yet."""
    return isinstance(error, OffsetsError) or type(error).__name__ == "Py4JJavaError"


class Loader(Protocol):
    """Reads, writes and counts windows."""

    def load(self, store: str, pinned: PinnedManifest, attempt: str, meanwhile: Callable[[], None]) -> None:
        """Read and write a window, and write the counts to the ledger. Does nothing if it is already published.

        :param meanwhile: called just before the window's records are read.
        """

    def again(self, store: str, pinned: PinnedManifest, publication: Publication) -> str:
        """Load a published window again, and say how it ended."""

    def close(self) -> None: ...


def _loader(settings: Settings, client: OffsetsClient, ledgers: Mapping[str, Ledger]) -> Loader:
    """A loader that uses Spark if there is a cluster. Spark is imported only then, because that takes a second."""
    if settings.spark is not None:
        from tests.chaos.spark_load import SparkLoader

        return SparkLoader(settings.spark, settings.bootstrap_servers, settings.output)
    return RangeLoader(settings.bootstrap_servers, client, ledgers, settings.output)


class Worker:
    """Does one task after another, with the same clients.

    :param pauses: the pauses of its publishers.
    """

    def __init__(self, settings: Settings, pauses: Pauses) -> None:
        self._settings = settings
        self._pauses = pauses
        config = {"bootstrap.servers": settings.bootstrap_servers}
        self._client = OffsetsClient(ClientSettings.from_config(config), timeout_s=TIMEOUT_S)
        self._ledgers = {store: each.ledger(patient=settings.patient) for store, each in settings.places.items()}
        self._loader = _loader(settings, self._client, self._ledgers)

    def close(self) -> None:
        self._loader.close()
        self._client.close()

    def do(self, task: Task) -> Said:
        """Do a task, and say how it ended."""
        try:
            return self._do(task)
        except Exception as error:
            if task.kind in (WINDOW, REVISION) and isinstance(error, WindowOverlapError) and not error.retriable:
                return self._clear_the_way(task, error)
            if task.kind == REMADE and isinstance(error, (TopicChangedError, LogTruncatedError)):
                return Said("done", f"{task.kind} refused by {type(error).__name__} ({error})")
            if may_pass(error) or (task.kind == REMADE and _is_between(error)):
                return Said("again", f"{type(error).__name__}: {error}")
            return Said("wrong", traceback.format_exc())

    def _do(self, task: Task) -> Said:
        if task.kind == CUT:
            return self._cut(task)
        pinned = self._pinned(task)
        words = self._load(task, pinned) if task.load else PINNED
        return Said("done", words, window_extent(pinned.manifest.window), pinned.manifest.revision)

    def _pinned(self, task: Task) -> PinnedManifest:
        place = self._settings.places[task.store]
        level = IsolationLevel(place.isolation_level)
        pinner = WindowPinner(
            SnapshotMaker(self._client, self._ledgers[task.store], place.topics, level, "warn"), POLICIES
        )
        if task.kind == REVISION:
            (resolved,) = pinner.re_resolve((task.start_ms, task.end_ms))
            return resolved.pinned
        if task.kind == INCREMENT:
            return pinner.pin_increment(f"run{task.start_ms}", AsOf(AsOfKind.EARLIEST)).pinned
        if task.resolved is not None:
            return self._ledgers[task.store].pinned(window_id(task.start_ms, task.end_ms), task.resolved)
        return pinner.pin(task.start_ms, task.end_ms).pinned

    def _remake(self, task: Task, moment: str) -> None:
        """Re-create the task's topic, if this is the moment."""
        if task.moment == moment:
            remake(self._settings.bootstrap_servers, task.store)

    def _cut(self, task: Task) -> Said:
        """Request a window that cuts across others, as somebody might do by hand."""
        try:
            pinned = self._pinned(task)
        except WindowOverlapError as error:
            if error.retriable:
                raise
            found = _TAKEN.search(str(error))
            if found is None:
                return Said("wrong", f"nobody is named: {error}")
            return Said("done", "cut refused", window_extent(found[1]), ranges=self._would_have(task))
        manifest = pinned.manifest
        ranges = tuple((each.topic, each.partition, each.window_start, each.end_offset) for each in manifest.ranges)
        return Said("done", "cut pinned first", ranges=ranges)

    def _would_have(self, task: Task) -> Ranges:
        """The ranges that a refused cut would have had; empty if its instants have been forgotten since."""
        stored = self._ledgers[task.store].snapshots.at_instants([task.start_ms, task.end_ms])
        if len(stored) < 2:
            return ()
        starts, ends = stored[task.start_ms].boundaries, stored[task.end_ms].boundaries
        return tuple(
            (key.topic, key.partition, starts[key].offset if key in starts else 0, each.offset)
            for key, each in ends.items()
        )

    def _clear_the_way(self, task: Task, error: WindowOverlapError) -> Said:
        """If a planned window was refused because of a cut, do what the message says: forget the cut."""
        found = _TAKEN.search(str(error))
        if found is None or window_extent(found[1]) not in self._settings.cuts[task.store]:
            return Said("wrong", traceback.format_exc())
        try:
            forget_windows(self._ledgers[task.store], [found[1]], "cuts across the schedule's windows")
        except Exception as another:
            if not may_pass(another):
                return Said("wrong", traceback.format_exc())
        return Said("again", f"{type(error).__name__} of a cut: {error}")

    def _load(self, task: Task, pinned: PinnedManifest) -> str:
        """Do what the load task does, and the task after it, which rewrites the list of files if necessary."""
        words = self._loaded(task, pinned)
        self._ledgers[task.store].file_lists.refresh(pinned.manifest.window)
        return words

    def _loaded(self, task: Task, pinned: PinnedManifest) -> str:
        ledger = self._ledgers[task.store]
        standing = ledger.window_folders.publication(pinned.manifest.window)
        if standing is not None:
            published = ledger.pinned(pinned.manifest.window, standing.revision)
            if _counts_over(published, pinned):
                return self._loader.again(task.store, published, standing)
        counted = _left_behind(ledger, pinned)
        words = "loaded before"
        if counted is None:
            self._remake(task, PINNED)
            kept = readable(self._client, ledger, pinned, POLICIES.on_data_loss)
            words = "" if kept.manifest.revision == pinned.manifest.revision else "the rest"
            counted = self._counted(task, ledger, kept)
        self._remake(task, COUNTED)
        return "second" if counted is None else self._publish(ledger, counted, words)

    def _counted(self, task: Task, ledger: Ledger, pinned: PinnedManifest) -> CountedAttempt | None:
        """Load a window.

        :returns: None if another attempt has been published meanwhile, so that nothing was loaded.
        """
        attempt = uuid4().hex[:8]
        ledger.window_folders.of(pinned).record_attempt(attempt, {})
        self._remake(task, CHECKED)
        try:
            self._loader.load(task.store, pinned, attempt, partial(self._remake, task, READING))
        except DataLossError:
            readable(self._client, ledger, pinned)  # the ledger records what is lost, as after a failed Spark run
            raise
        counted = counted_attempt(ledger, pinned, attempt)
        standing = ledger.window_folders.publication(pinned.manifest.window)
        assert counted or standing, f"attempt {attempt} has left nothing"
        return counted

    def _publish(self, ledger: Ledger, counted: CountedAttempt, words: str) -> str:
        overtaken = self._pauses.overtaken
        counts = publish(self._client, ledger, counted)
        revision, attempt = counted.pinned.manifest.revision, counted.result.attempt
        if counts.attempt == attempt:
            kind = "replacing another revision" if counts.replaces else words
            return f"published{', ' if kind else ''}{kind} ({attempt}, revision {revision}, number {counts.number})"
        kind = "second to another revision" if counts.revision != revision else "second"
        late = ", overtaken" if self._pauses.overtaken > overtaken else ""
        return f"{kind}{late} ({attempt}, revision {revision}; {counts.attempt} counts, number {counts.number})"


def _counts_over(standing: PinnedManifest, pinned: PinnedManifest) -> bool:
    """Whether a published revision still counts after another one was pinned: if it is the same or newer, or if it is
    the whole window of which the other has only what was left."""
    published, ours = standing.manifest, pinned.manifest
    return published.revision >= ours.revision or published.snapshots == ours.snapshots


def _left_behind(ledger: Ledger, pinned: PinnedManifest) -> CountedAttempt | None:
    """An attempt that was loaded and counted, but not published. It is from the oldest revision that would still count
    beside the given one, because that revision has most."""
    # A revision whose manifest isn't there yet, or that was withdrawn, has no attempt.
    revisions = filter(None, (each.pinned() for each in ledger.window_folders.live(pinned.manifest.window)))
    found = (proved_attempts(ledger, each) for each in revisions if _counts_over(each, pinned))
    return next((each[-1] for each in found if each), None)
