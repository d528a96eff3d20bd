"""Plans: what happens to some topics, and what is asked of their ledgers meanwhile. Plain values; :mod:`.draw` draws
them from a seed.

Time is simulated: record timestamps and the windows' instants are in early 2025, and a step's place in the sequence is
its time on that clock. Records arrive around their time, some hours late and some early. Windows are requested around
their time and out of order, some much later, as in a backfill. So an instant may be resolved before its records have
arrived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tests.integration.fuzz.history import History, Step

WINDOW_MS = 300_000
"""Mean length of a window."""
TRANSACTIONAL = "payments"
PARTITIONS = {"orders": 9, "clicks": 8, TRANSACTIONAL: 5}
CODEC = {"orders": "none", "clicks": "gzip", TRANSACTIONAL: "gzip"}
"""Codecs for which this package needs no library. It reads records if a look-up isn't conclusive."""
REPLICAS = {"orders": 3, "clicks": 1, TRANSACTIONAL: 3}
LOCAL, S3 = "local", "s3"
SPARK = ("spark-1", "spark-2")
"""Stores on the local disk, whose windows Spark loads."""
INCREMENTS = {LOCAL: "increments", S3: "increments-s3"}
"""Further pipelines with increments, by the store in which their ledgers are."""
TABLES = (S3, INCREMENTS[LOCAL])
"""Stores whose output is a table: a window's rows are replaced in place. Elsewhere each driver writes its own files."""
TWINS = {each: f"{each}-twin" for each in SPARK}
"""Second ledgers with the same pipeline name and output, by the store of the first."""


class Kind(StrEnum):
    """What a task does."""

    PIN = "pin"
    """Pin a planned window, as by the task before its load."""
    LOAD = "load"
    """Load a planned window, and pin it if nobody has."""
    INCREMENT = "increment"
    """Pin and load a run's increment."""
    RELOAD = "reload"
    """Say that a window is to be loaded again, and load it."""
    VOID = "void"
    """Take a window away, published or not."""
    REWIND = "rewind"
    """Take all away that is after an instant."""
    BEGIN = "begin"
    """Begin an attempt, whose driver doesn't come."""
    DRIVER = "driver"
    """Come late as its driver."""
    CUT = "cut"
    """Request a window by hand that crosses planned ones."""
    REMADE = "remade"
    """Load a window whose topic is re-created meanwhile."""
    RESTART = "restart"
    """Tell the ledger that it was re-created, and load an increment."""


class Moment(StrEnum):
    """When a topic is re-created: once its window is pinned, after the pre-flight check, while the loader reads, or
    between counting and publishing."""

    READING = "reading"
    COUNTED = "counted"
    PINNED = "pinned"
    CHECKED = "checked"


Times = tuple[int, int]
"""Start and end of a window, Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One ledger.

    :param store: the ledger's store, which is also the pipeline's name: ``local``, ``s3``, or one of Spark's stores.
    :param isolation_level: which records are visible.
    :param topics: the topics that it loads.
    :param instants_ms: where its windows start and end, Unix milliseconds; empty for a pipeline with increments.
    :param left_out: the windows that are left out until the end.
    :param shaken: the windows that may be taken away, and not be loaded again before the end.
    """

    store: str
    isolation_level: str
    topics: tuple[str, ...] = tuple(PARTITIONS)
    instants_ms: tuple[int, ...] = ()
    left_out: tuple[Times, ...] = ()
    shaken: frozenset[Times] = frozenset()

    @property
    def windows(self) -> list[Times]:
        """Start and end of each window, in order of time. Together they leave no gap."""
        return list(pairwise(self.instants_ms))


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker must do.

    :param start_ms: the window's start, Unix milliseconds; for an increment, the number of its run, as in ``end_ms``;
        for a rewind, the instant, as in ``end_ms``.
    :param number: of all tasks of the plan. A task keeps it when it is done again.
    :param moment: when its topic is re-created; None if it isn't.
    """

    kind: Kind
    store: str
    start_ms: int
    end_ms: int
    number: int = 0
    moment: Moment | None = None

    @property
    def times(self) -> Times:
        return self.start_ms, self.end_ms

    @property
    def window(self) -> tuple[str, int, int]:
        return self.store, self.start_ms, self.end_ms


@dataclass(frozen=True, slots=True)
class Event:
    """What happens to a topic."""

    topic: str
    step: Step


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is drawn from a seed.

    :param topics: partitions and replicas at the start, by topic.
    :param pipelines: the pipelines whose windows tile in the end.
    :param twins: second ledgers.
    :param remade: the pipelines of topics that are re-created. Each has one topic, with the pipeline's name.
    :param late: what is asked at the end, when nothing else happens any more: every planned window is loaded, also
        those that were left out; and the topics that were re-created go on.
    """

    seed: int
    topics: Mapping[str, History]
    pipelines: tuple[Pipeline, ...]
    twins: tuple[Pipeline, ...]
    remade: tuple[Pipeline, ...]
    steps: Sequence[Event | Task]
    late: Sequence[Task]
