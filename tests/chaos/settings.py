"""What workers are given, and what they report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from upath import UPath

from airflow_kafka_offsets.ledger.ledger import Ledger
from tests.chaos.plan import Task, Times

if TYPE_CHECKING:
    from tests.chaos.spark_load import Cluster

PIPELINE = "loads"
"""The name of each pipeline: each has a root of its own."""


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

    @property
    def folder(self) -> UPath:
        """The pipeline's folder."""
        return self.path(self.root) / PIPELINE

    def ledger(self, *, patient: bool = True, at_least: int = 0) -> Ledger:
        """The pipeline's ledger, as a task makes it.

        :param at_least: the number of a commit that its log has.
        """
        return Ledger(self.path(self.root, patient=patient), PIPELINE, at_least)


@dataclass(frozen=True, slots=True)
class Settings:
    """A worker's settings.

    :param places: by store.
    :param planned: times of the planned windows, by store.
    :param output: the folder for the output.
    :param seed: for its death and its pauses.
    :param patient: whether the store's client retries by itself. Otherwise every fault reaches this package.
    :param spark: the cluster that loads; None for librdkafka.
    """

    bootstrap_servers: str
    places: Mapping[str, Place]
    planned: Mapping[str, frozenset[Times]]
    output: Path
    seed: str
    patient: bool
    spark: Cluster | None = None


class Ref(NamedTuple):
    """What a task passes on about a window, like an XCom.

    :param manifest: hash of its manifest.
    :param commit: number of a commit that its ledger's log has.
    """

    manifest: str
    commit: int


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is told to do.

    :param ref: the window, as another task has pinned it: the load doesn't resolve it again. None if there is none.
    :param attempt: the attempt that has begun, for a late driver; None if there is none.
    """

    task: Task
    ref: Ref | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What a worker reports.

    :param verdict: ``done``; ``again`` for a fault that may pass; ``wrong`` for one that must not happen; ``dies``.
    :param window: the increment's window.
    :param ref: the window that it has pinned.
    :param attempt: the attempt that it has begun.
    :param cleared: the window isn't any more what another task has pinned: resolve it again.
    """

    verdict: str
    words: str
    window: Times | None = None
    ref: Ref | None = None
    attempt: int | None = None
    cleared: bool = False
