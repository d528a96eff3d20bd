"""Plans: what happens to some topics, and which of their windows are requested meanwhile, drawn from a seed.

A plan is plain values: a sequence of steps that the run performs while worker processes do the windows. Time is
simulated: record timestamps and the windows' instants are in early 2025, and a step's place in the sequence is its time
on that clock. Records arrive around their time, some hours late and some early. Windows are requested around their time
and out of order, some much later, as in a backfill. So an instant may be resolved before its records have arrived.

Some windows are left out until the end. Some are resolved again while they are loaded. Some requested windows cut
across planned ones, before, during and after those. Further pipelines have increments, of which several are requested
at once. And second ledgers have the same pipeline name and output.

Some loads must not be published, and are tried too: their topics are re-created once their window is pinned.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
"""Codecs for which this package needs no library. It reads records if a look-up isn't conclusive."""
REPLICAS = {"orders": 3, "clicks": 1, TRANSACTIONAL: 3}
FUTURE = ("orders", 1)
"""A partition with one record half a year ahead of the clock. From then on, windows get none of its records."""
FUTURE_MS = 180 * 86_400_000
LOCAL, S3 = "local", "s3"
SPARK = ("spark-1", "spark-2")
"""Stores on the local disk, whose windows Spark loads."""
INCREMENTS = {LOCAL: "increments", S3: "increments-s3"}
"""Further pipelines with increments, by the store in which their ledgers are."""
AT_ONCE = 3
"""How many increments are requested together."""
TWINS = {each: f"{each}-twin" for each in SPARK}
"""Second ledgers with the same pipeline name and output, by the store of the first."""
WINDOW, REVISION, CUT, INCREMENT, TWIN, REMADE = "window", "revision", "cut", "increment", "twin", "remade"
PINNED, CHECKED, READING, COUNTED = "pinned", "checked", "reading", "counted"
MOMENTS = (READING, COUNTED, PINNED, CHECKED)
"""When a topic is re-created: once its window is pinned, after the pre-flight check, while the loader reads, or between
counting and publishing."""
Times = tuple[int, int]
"""Start and end of a window, Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One ledger over all topics.

    :param store: the ledger's store, which is also the pipeline's name: ``local``, ``s3``, or one of Spark's stores.
    :param isolation_level: which records are visible.
    :param topics: the topics that it loads.
    :param instants_ms: where its windows start and end, Unix milliseconds; empty for a pipeline with increments.
    :param left_out: the windows that are left out until the end.
    :param cuts: windows that are requested by hand, and cut across planned ones.
    """

    store: str
    isolation_level: str
    topics: tuple[str, ...] = tuple(PARTITIONS)
    instants_ms: tuple[int, ...] = ()
    left_out: tuple[Times, ...] = ()
    cuts: tuple[Times, ...] = ()

    @property
    def windows(self) -> list[Times]:
        """Start and end of each window, in order of time. Together they leave no gap."""
        return list(pairwise(self.instants_ms))


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker must do with a window.

    :param store: the pipeline's name.
    :param start_ms: the window's start, Unix milliseconds; for an increment, the number of its run, as in ``end_ms``.
    :param load: load and publish the window. Otherwise it is only pinned, and a later task loads it.
    :param kind: a planned window, one that is resolved again, one that cuts across others, an increment, one of a
        second ledger, or one whose topic is re-created.
    :param moment: when its topic is re-created; None if it isn't.
    :param resolved: the revision that another task has pinned, like a load's upstream task in Airflow. The load doesn't
        resolve it again. None if there is none.
    """

    store: str
    start_ms: int
    end_ms: int
    load: bool
    kind: str = WINDOW
    moment: str | None = None
    resolved: int | None = None

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
    :param pipelines: the pipelines that publish.
    :param twins: second ledgers.
    :param remade: the pipelines of topics that are re-created. Each has one topic, with the pipeline's name.
    :param late: the loads of the windows that are left out until the end.
    """

    seed: int
    topics: Mapping[str, History]
    pipelines: tuple[Pipeline, ...]
    twins: tuple[Pipeline, ...]
    remade: tuple[Pipeline, ...]
    steps: tuple[Event | Task, ...]
    late: tuple[Task, ...]


def draw(seed: int, windows: int, stores: Sequence[str] = (LOCAL, S3)) -> Plan:
    """The plan of a seed, with this many windows, half of them for each of two pipelines.

    :param stores: the stores of the two.
    """
    return _Draw(seed, windows // 2, stores).plan()


class _Draw:
    """A plan being drawn: steps with their places on a line from 0 to 1, which is also the clock."""

    def __init__(self, seed: int, windows: int, stores: Sequence[str]) -> None:
        self.seed = seed
        self.stores = stores
        self.rng = random.Random(seed)
        # A separate generator for windows left out, cuts and increments, so that they don't change the rest of a plan.
        self.further = random.Random(f"{seed} further")
        self.revising = random.Random(f"{seed} revisions")
        self.windows = windows
        self.span_ms = windows * WINDOW_MS
        self.placed: list[tuple[float, Event | Task]] = []
        self.births = {
            topic: [0.0] * count + sorted(self.rng.uniform(0.1, 0.9) for _ in range(self.rng.randint(1, 3)))
            for topic, count in PARTITIONS.items()
        }
        self.active = {topic: [self._activity(birth) for birth in births] for topic, births in self.births.items()}

    def plan(self) -> Plan:
        planned = tuple(
            self._pipeline(store, level) for store, level in zip(self.stores, self.rng.sample(LEVELS, 2), strict=True)
        )
        self._records()
        self._troubles()
        for each in planned:
            self._tasks(each)
        stores = [INCREMENTS[each] for each in self.stores if each in INCREMENTS]
        incremental = tuple(Pipeline(each, self.further.choice(LEVELS)) for each in stores)
        for each in incremental:
            self._increments(each.store)
        twins = tuple(Pipeline(TWINS[each.store], each.isolation_level) for each in planned if each.store in TWINS)
        for each in planned:
            if each.store in TWINS:
                self._twin(each)
        remade = tuple(self._remade(number) for number in range(self._rounds()))
        topics = {
            topic: History(CODECS.index(CODEC[topic]), count, REPLICAS[topic], append_time=False, steps=())
            for topic, count in PARTITIONS.items()
        }
        self._rob_late()
        self.placed.sort(key=lambda each: each[0])
        late = [Task(each.store, *window, load=True) for each in planned for window in each.left_out]
        self.further.shuffle(late)
        steps = tuple(step for _, step in self.placed)
        return Plan(self.seed, topics, (*planned, *incremental), twins, remade, steps, tuple(late))

    def _pipeline(self, store: str, level: str) -> Pipeline:
        instants = self._instants()
        windows = list(pairwise(instants))
        left_out = sorted(self.further.sample(windows[1:-1], max(1, len(windows) // 5)))
        cuts = tuple(self._cut(windows) for _ in range(max(2 if store in SPARK else 4, len(windows) // 6)))
        return Pipeline(store, level, instants_ms=instants, left_out=tuple(left_out), cuts=cuts)

    def _cut(self, windows: Sequence[Times]) -> Times:
        """A window that ends inside one of two neighbours, or starts inside the other, or both."""
        one, other = self.further.choice(list(pairwise(windows)))
        inner = self.further.randint(one[0] + 1, one[1] - 1), self.further.randint(other[0] + 1, other[1] - 1)
        return self.further.choice((inner, inner, (one[0], inner[1]), (inner[0], other[1])))

    def _activity(self, birth: float) -> tuple[float, float]:
        """When a partition gets records. Some are idle at one or both ends, and some get none at all."""
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
            started = [each for each, (start, _) in enumerate(self.active[topic]) if start == 0] or [0]
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
        return Send(stamps, fate, own_batches=self.rng.random() < 0.1)

    def _stamp(self, place: float) -> int:
        """A timestamp around the clock's time, late, or early."""
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
        """Delete all records of some partitions."""
        for topic, partition in sorted({self._partition_at(place) for _ in range(4)}):
            self._place(place, Event(topic, Delete(partition, 1.0)))

    def _rob_late(self) -> None:
        """At the end, delete all records of some partitions, so that windows that were left out have lost records."""
        there = [(topic, partition) for topic, count in PARTITIONS.items() for partition in range(count)]
        for topic, partition in sorted(self.further.sample(there, 8)):
            self._place(1.0, Event(topic, Delete(partition, 1.0)))

    def _partition_at(self, place: float) -> tuple[str, int]:
        topic = self.rng.choice(list(PARTITIONS))
        return topic, self.rng.randrange(sum(birth <= max(0.0, place) for birth in self.births[topic]))

    def _tasks(self, pipeline: Pipeline) -> None:
        """Tasks for each window, around its end, a little before, or much later. Some windows are pinned long before
        they are loaded, some are loaded twice at the same time, some again after they are published, some are resolved
        again during a load, and some lose records once they are pinned.
        """
        rng, width = self.rng, 1 / self.windows
        places: dict[Times, float] = {}
        loaded: dict[Times, float] = {}
        for start_ms, end_ms in pipeline.windows:
            if (start_ms, end_ms) in pipeline.left_out:
                continue
            ends = (end_ms - INSTANT_MS) / self.span_ms
            around, early = ends + rng.gauss(0, 2 * width), ends - rng.uniform(0, 6 * width)
            place = rng.choices((around, early, rng.uniform(ends, 1)), (70, 10, 20))[0]
            places[start_ms, end_ms] = place
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
            loaded[start_ms, end_ms] = place
        self._revise(pipeline, places, loaded)
        for each in pipeline.cuts:
            self._place_cut(pipeline.store, each, places)

    def _revise(self, pipeline: Pipeline, places: Mapping[Times, float], loaded: Mapping[Times, float]) -> None:
        """Resolve windows again during their load, if they are pinned before their neighbours. Otherwise the neighbours
        would keep the instants that they share.
        """
        first = [
            (start_ms, end_ms)
            for (start_ms, end_ms), place in loaded.items()
            if all(place < places[each] for each in places if each[1] == start_ms or each[0] == end_ms)
        ]
        for start_ms, end_ms in sorted(self.revising.sample(first, min(len(first), max(1, len(places) // 4)))):
            place = loaded[start_ms, end_ms]
            early = min(place, places[start_ms, end_ms]) - self.revising.uniform(1, 6) / self.windows
            self._place(early, Task(pipeline.store, start_ms, end_ms, load=False))
            beside = place + self.revising.choice((-1e-9, 1e-9))
            self._place(beside, Task(pipeline.store, start_ms, end_ms, load=True, kind=REVISION))

    def _place_cut(self, store: str, cut: Times, places: Mapping[Times, float]) -> None:
        """Request a cut at the same time as one of the windows that it cuts, just before or after it, or after both."""
        crossed = [place for (start_ms, end_ms), place in places.items() if start_ms < cut[1] and cut[0] < end_ms]
        beside = self.further.choice(crossed or [0.5]) + self.further.choice((-1e-9, 1e-9))
        after = max(crossed or [0.5]) + self.further.uniform(2 / self.windows, 0.3)
        self._place(self.further.choice((beside, after)), Task(store, *cut, load=False, kind=CUT))

    def _increments(self, store: str) -> None:
        """Request several increments at once, sometimes one of them twice; and one at the end."""
        places = [self.further.uniform(0, 1) for _ in range(max(2, self.windows // 10))]
        runs = [(place, number) for number, place in enumerate(sorted(places * AT_ONCE))]
        again = [each for each in runs if self.further.random() < 0.2]
        for place, run in sorted([*runs, *again, (1.0, len(runs))]):
            self._place(place, Task(store, run, run, load=True, kind=INCREMENT))

    def _twin(self, pipeline: Pipeline) -> None:
        """Request some of the windows in a second ledger too, each around its end or later."""
        for window in self.further.sample(pipeline.windows, max(1, self.windows // 10)):
            place = self.further.uniform((window[1] - INSTANT_MS) / self.span_ms, 1)
            self._place(place, Task(TWINS[pipeline.store], *window, load=True, kind=TWIN))

    def _rounds(self) -> int:
        return max(1 if self.stores[0] in SPARK else len(MOMENTS), self.windows // 12)

    def _remade(self, number: int) -> Pipeline:
        """A topic with one window, which is sometimes pinned long before it is loaded, and sometimes loaded twice."""
        pipeline = Pipeline(f"{REMADE}-{number}", self.further.choice(LEVELS), (f"{REMADE}-{number}",))
        load = Task(pipeline.store, INSTANT_MS, INSTANT_MS + WINDOW_MS, True, REMADE, MOMENTS[number % len(MOMENTS)])
        place = self.further.uniform(0, 0.9)
        if self.further.random() < 0.5:
            self._place(place, replace(load, load=False, moment=None))
        for _ in range(self.further.choice((1, 1, 2))):
            self._place(place + 0.1, load)
        return pipeline
