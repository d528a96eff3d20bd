"""Draws a plan from a seed: its topics and their troubles, and the pipelines. :mod:`.requests` draws what is asked."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from tests.chaos.plan import (
    CODEC,
    INCREMENTS,
    LOCAL,
    PARTITIONS,
    REPLICAS,
    S3,
    SPARK,
    TRANSACTIONAL,
    TWINS,
    WINDOW_MS,
    Event,
    Kind,
    Moment,
    Pipeline,
    Plan,
    Task,
)
from tests.chaos.requests import Requests
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
)
from tests.integration.fuzz.oracle import LEVELS

LATE_MS = 6 * 3_600_000
FUTURE = ("orders", 1)
"""A partition with one record half a year ahead of the clock. From then on, windows get none of its records."""
FUTURE_MS = 180 * 86_400_000


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
        self.windows = windows
        self.span_ms = windows * WINDOW_MS
        self.placed: list[tuple[float, Event | Task]] = []
        self.births = {
            topic: [0.0] * count + sorted(self.rng.uniform(0.1, 0.9) for _ in range(self.rng.randint(1, 3)))
            for topic, count in PARTITIONS.items()
        }
        self.active = {topic: [self._activity(birth) for birth in births] for topic, births in self.births.items()}

    def plan(self) -> Plan:
        self._records()
        self._troubles()
        self._rob_late()
        asked = Requests(self.seed, self.span_ms, self._rob)
        levels = self.rng.sample(LEVELS, 2)
        planned = tuple(
            asked.windows(Pipeline(store, level, instants_ms=self._instants()))
            for store, level in zip(self.stores, levels, strict=True)
        )
        incremental = [
            Pipeline(INCREMENTS[each], self.rng.choice(LEVELS)) for each in self.stores if each in INCREMENTS
        ]
        for each in incremental:
            asked.increments(each.store, max(2, self.windows // 10))
        twins = [Pipeline(TWINS[each.store], each.isolation_level) for each in planned if each.store in TWINS]
        for twin, first in zip(twins, (each for each in planned if each.store in TWINS), strict=True):
            asked.some_windows(twin.store, first.windows)
        remade = tuple(
            asked.remade(self._remade(number), list(Moment)[number % len(Moment)]) for number in self._rounds()
        )
        topics = {
            topic: History(CODECS.index(CODEC[topic]), count, REPLICAS[topic], append_time=False, steps=())
            for topic, count in PARTITIONS.items()
        }
        placed = sorted([*self.placed, *asked.placed], key=lambda each: each[0])
        steps = [step for _, step in placed]
        return Plan(self.seed, topics, (*planned, *incremental), tuple(twins), remade, steps, asked.late())

    def _instants(self) -> tuple[int, ...]:
        inner = self.rng.sample(range(1, self.span_ms // 1000), self.windows - 1)
        return tuple(INSTANT_MS + 1000 * each for each in (0, *sorted(inner), self.span_ms // 1000))

    def _rounds(self) -> range:
        return range(max(1 if self.stores[0] in SPARK else len(Moment), self.windows // 12))

    def _remade(self, number: int) -> Pipeline:
        name = f"{Kind.REMADE}-{number}"
        return Pipeline(name, self.rng.choice(LEVELS), (name,), (INSTANT_MS, INSTANT_MS + WINDOW_MS))

    def _activity(self, birth: float) -> tuple[float, float]:
        """When a partition gets records. Some are idle at one or both ends, and some get none at all."""
        start, end = sorted((self.rng.uniform(birth, 1), self.rng.uniform(birth, 1)))
        kinds = {(birth, 1.0): 6, (start, end): 2, (start, 1.0): 2, (birth, end): 2, (1.0, 1.0): 1}
        return self.rng.choices(list(kinds), list(kinds.values()))[0]

    def _place(self, place: float, step: Event) -> None:
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
        for topic, partition in sorted(self.rng.sample(there, 8)):
            self._place(1.0, Event(topic, Delete(partition, 1.0)))

    def _partition_at(self, place: float) -> tuple[str, int]:
        topic = self.rng.choice(list(PARTITIONS))
        return topic, self.rng.randrange(sum(birth <= max(0.0, place) for birth in self.births[topic]))
