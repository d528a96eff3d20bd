"""Plans: what happens to some topics, and which windows of them are asked for meanwhile, drawn from a seed.

A plan is plain values: steps in one order, which the run goes through while worker processes do the windows. Time in it
is simulated: record timestamps and the windows' instants lie in early 2025, and a step's place among the others says
what o'clock it is. Records come around the clock, some hours late and some ahead of it; windows are asked for out of
order around it, some much later, as a backfill does. So an instant may be resolved before its records are there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.integration.fuzz.history import (
    ABORT,
    CODECS,
    COMMIT,
    INSTANT_MS,
    OPEN,
    PLAIN,
    AddPartition,
    Delete,
    End,
    History,
    MarkersOnly,
    MoveLeader,
    Send,
    Step,
)
from tests.integration.fuzz.oracle import LEVELS

WINDOW_MS = 300_000
"""Mean length of a window."""
LATE_MS = 6 * 3_600_000
TRANSACTIONAL = "payments"
PARTITIONS = {"orders": 9, "clicks": 8, TRANSACTIONAL: 5}
CODEC = {"orders": "none", "clicks": "gzip", TRANSACTIONAL: "gzip"}
"""Those for which this package needs no library: it reads records where a look-up leaves doubts."""
REPLICAS = {"orders": 3, "clicks": 1, TRANSACTIONAL: 3}
FUTURE = ("orders", 1)
"""Where one record comes half a year ahead of the clock, which ends what windows hold of the partition."""
FUTURE_MS = 180 * 86_400_000
LOCAL, S3 = "local", "s3"
SPARK = ("spark-1", "spark-2")
"""Stores on the local disk, whose windows Spark loads."""
ALWAYS = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One ledger over all topics.

    :param store: where its ledger lies, which names it too: ``local``, ``s3``, or one of those of Spark.
    :param isolation_level: which records count.
    :param instants_ms: where its windows begin and end.
    """

    store: str
    isolation_level: str
    instants_ms: tuple[int, ...]

    @property
    def windows(self) -> list[tuple[int, int]]:
        """Start and end of each window, in order of time; together they leave nothing out."""
        return list(pairwise(self.instants_ms))


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker is to do with a window.

    :param store: names the pipeline.
    :param load: publish it; otherwise it is only pinned, and loaded by a later task.
    :param resolved: another task has pinned it, as a load's upstream task does: a load doesn't resolve it again.
    """

    store: str
    start_ms: int
    end_ms: int
    load: bool
    resolved: bool = False

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
    """Everything that a seed stands for.

    :param topics: partitions and replicas at the start, by topic.
    """

    seed: int
    topics: Mapping[str, History]
    pipelines: tuple[Pipeline, ...]
    steps: tuple[Event | Task, ...]


def draw(seed: int, windows: int, stores: Sequence[str] = (LOCAL, S3)) -> Plan:
    """The plan of a seed, with so many windows, half of them for each of two pipelines.

    :param stores: of the two.
    """
    return _Draw(seed, windows // 2, stores).plan()


class _Draw:
    """One plan being drawn: steps with their places on a line from 0 to 1, which is the clock too."""

    def __init__(self, seed: int, windows: int, stores: Sequence[str]) -> None:
        self.seed = seed
        self.stores = stores
        self.rng = random.Random(seed)
        self.windows = windows
        self.span_ms = windows * WINDOW_MS
        self.placed: list[tuple[float, Event | Task]] = []
        self.births = {
            topic: [0.0] * count + sorted(self.rng.uniform(0.1, 0.9) for _ in range(self.rng.randint(1, 3)))
            for topic, count in PARTITIONS.items()
        }
        self.active = {topic: [self._activity(birth) for birth in births] for topic, births in self.births.items()}

    def plan(self) -> Plan:
        pipelines = tuple(
            Pipeline(store, level, self._instants())
            for store, level in zip(self.stores, self.rng.sample(LEVELS, 2), strict=True)
        )
        self._records()
        self._troubles()
        for each in pipelines:
            self._tasks(each)
        topics = {
            topic: History(CODECS.index(CODEC[topic]), count, REPLICAS[topic], append_time=False, steps=())
            for topic, count in PARTITIONS.items()
        }
        self.placed.sort(key=lambda each: each[0])
        return Plan(self.seed, topics, pipelines, tuple(step for _, step in self.placed))

    def _activity(self, birth: float) -> tuple[float, float]:
        """When records come to a partition; some are idle at an end or at both, and some get none at all."""
        start, end = sorted((self.rng.uniform(birth, 1), self.rng.uniform(birth, 1)))
        kinds = {(birth, 1.0): 6, (start, end): 2, (start, 1.0): 2, (birth, end): 2, (1.0, 1.0): 1}
        return self.rng.choices(list(kinds), list(kinds.values()))[0]

    def _instants(self) -> tuple[int, ...]:
        inner = self.rng.sample(range(1, self.span_ms // 1000), self.windows - 1)
        return tuple(INSTANT_MS + 1000 * each for each in (0, *sorted(inner), self.span_ms // 1000))

    def _place(self, place: float, step: Event | Task) -> None:
        self.placed.append((place, step))

    def _records(self) -> None:
        for topic in PARTITIONS:
            started = [each for each, (start, _) in enumerate(self.active[topic]) if start == 0]
            self._place(0, Event(topic, self._send(topic, started, 0, PLAIN)))
            self._place(0, Event(topic, Delete(self.rng.choice(started), 0.5)))
        for _ in range(3 * self.windows):
            self._record(self.rng.uniform(0, 1))
        topic, partition = FUTURE
        self._place(self.rng.uniform(0.6, 0.9), Event(topic, Send({partition: (INSTANT_MS + FUTURE_MS,)}, PLAIN)))

    def _record(self, place: float) -> None:
        topic = self.rng.choice(list(PARTITIONS))
        partitions = [each for each, (start, end) in enumerate(self.active[topic]) if start <= place <= end]
        if not partitions:
            return
        some = self.rng.sample(partitions, self.rng.randint(1, min(4, len(partitions))))
        if topic != TRANSACTIONAL:
            self._place(place, Event(topic, self._send(topic, some, place, PLAIN)))
            return
        fate = self.rng.choices((COMMIT, ABORT, OPEN, PLAIN, None), (50, 20, 15, 10, 5))[0]
        if fate is None:
            self._place(place, Event(topic, MarkersOnly(tuple(some), self.rng.choice((COMMIT, ABORT)))))
            return
        self._place(place, Event(topic, self._send(topic, some, place, fate)))
        if fate == OPEN:
            end = place + self.rng.uniform(0, 5 / self.windows)
            self._place(end, Event(topic, End(self.rng.choice((COMMIT, ABORT)))))

    def _send(self, topic: str, partitions: Iterable[int], place: float, fate: str) -> Send:
        stamps = {each: tuple(self._stamp(place) for _ in range(self.rng.randint(1, 6))) for each in partitions}
        return Send(stamps, fate, apart=self.rng.random() < 0.1)

    def _stamp(self, place: float) -> int:
        """Around the clock, late, or ahead of it."""
        around, late, ahead = (-WINDOW_MS, WINDOW_MS), (-LATE_MS, 0), (0, 3 * WINDOW_MS)
        off_ms = self.rng.randint(*self.rng.choices((around, late, ahead), (80, 15, 5))[0])
        return INSTANT_MS + int(place * self.span_ms) + off_ms

    def _troubles(self) -> None:
        for topic, births in self.births.items():
            for birth in filter(None, births):
                self._place(birth, Event(topic, AddPartition()))
        for _ in range(max(8, self.windows // 4)):
            place = self.rng.uniform(0, 1)
            topic, partition = self._partition_at(place)
            share = self.rng.choice((1.0, self.rng.random(), 0.3 * self.rng.random()))
            self._place(place, Event(topic, Delete(partition, share)))
        for _ in range(max(3, self.windows // 8)):
            topic = self.rng.choice([each for each, count in REPLICAS.items() if count > 1])
            self._place(self.rng.uniform(0, 1), Event(topic, MoveLeader(self.rng.randrange(PARTITIONS[topic]))))

    def _rob(self, place: float) -> None:
        """Everything goes from some partitions."""
        for topic, partition in sorted({self._partition_at(place) for _ in range(4)}):
            self._place(place, Event(topic, Delete(partition, 1.0)))

    def _partition_at(self, place: float) -> tuple[str, int]:
        topic = self.rng.choice(list(PARTITIONS))
        return topic, self.rng.randrange(sum(birth <= max(0.0, place) for birth in self.births[topic]))

    def _tasks(self, pipeline: Pipeline) -> None:
        """Each window around its end, a little before or much later, some pinned long before they are loaded, some
        loaded twice at the same time, some once more when they are published, and some robbed once they are pinned.
        """
        rng, width = self.rng, 1 / self.windows
        for start_ms, end_ms in pipeline.windows:
            ends = (end_ms - INSTANT_MS) / self.span_ms
            around, early = ends + rng.gauss(0, 2 * width), ends - rng.uniform(0, 6 * width)
            place = rng.choices((around, early, rng.uniform(ends, 1)), (70, 10, 20))[0]
            load = Task(pipeline.store, start_ms, end_ms, load=True)
            robbed = rng.random() < 0.06
            if robbed or rng.random() < 0.3:
                self._place(place, Task(pipeline.store, start_ms, end_ms, load=False))
                place += rng.uniform(0, 20 * width)
            if robbed:
                self._rob(place)
            self._place(place, load)
            if robbed or rng.random() < 0.12:
                self._place(place, load)
            if rng.random() < 0.06:
                self._place(place + rng.uniform(0, 20 * width), load)
