"""Draws what is asked of the ledgers, and when.

Some windows are pinned long before they are loaded, some are loaded twice at the same time, some again after they are
published, and some lose records once they are pinned. Some are left out until the end. Windows are loaded again, taken
away, or attempted by drivers that come late; now and then everything after an instant is taken away. Some requested
windows cross planned ones, before, during and after those. Of increments, several are requested at once. Topics of
pipelines of their own are re-created once their window is pinned.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tests.chaos.plan import SPARK, WINDOW_MS, Kind, Moment, Pipeline, Task, Times
from tests.integration.fuzz.history import INSTANT_MS

AT_ONCE = 3
"""How many increments are requested together."""
CHANGES = (Kind.RELOAD, Kind.VOID, Kind.BEGIN)
"""What is done to windows while they are loaded."""
_BESIDE = 1e-9
"""So close that two tasks are handed out together."""


class Requests:
    """Tasks with their places, as they are drawn.

    :param span_ms: the time that all windows of a pipeline take.
    :param rob: deletes the records of some partitions at a place.
    """

    def __init__(self, seed: int, span_ms: int, rob: Callable[[float], None]) -> None:
        self.placed: list[tuple[float, Task]] = []
        self._rng = random.Random(f"{seed} requests")
        self._span_ms = span_ms
        self._rob = rob
        self._late: list[Task] = []
        self._count = 0

    def late(self) -> list[Task]:
        """What is asked at the end, in any order."""
        self._rng.shuffle(self._late)
        return self._late

    def windows(self, pipeline: Pipeline) -> Pipeline:
        """All that is asked of a pipeline with planned windows. Returns it with what is left out or taken away."""
        windows = pipeline.windows
        left_out = tuple(sorted(self._rng.sample(windows[1:-1], max(1, len(windows) // 5))))
        places = self._loads(pipeline.store, [each for each in windows if each not in left_out])
        taken = self._changes(pipeline.store, places)
        for _ in range(max(1, len(windows) // 60)):
            taken |= self._rewind(pipeline.store, places)
        for _ in range(max(2 if pipeline.store in SPARK else 4, len(windows) // 6)):
            self._cut(pipeline.store, windows, places)
        self._late += [self._task(Kind.LOAD, pipeline.store, each) for each in windows]
        return replace(pipeline, left_out=left_out, shaken=frozenset(taken))

    def increments(self, store: str, rounds: int) -> None:
        """Several increments at once, sometimes one of them twice; and one at the end."""
        places = [self._rng.uniform(0, 1) for _ in range(rounds)]
        runs = [(place, number) for number, place in enumerate(sorted(places * AT_ONCE))]
        again = [each for each in runs if self._rng.random() < 0.2]
        for place, run in sorted([*runs, *again, (1.0, len(runs))]):
            self._place(place, Kind.INCREMENT, store, (run, run))

    def some_windows(self, store: str, windows: Sequence[Times]) -> None:
        """Some of another pipeline's windows, each around its end or later."""
        for window in self._rng.sample(windows, max(1, len(windows) // 10)):
            self._place(self._rng.uniform(self._ends(window), 1), Kind.LOAD, store, window)

    def remade(self, pipeline: Pipeline, moment: Moment) -> Pipeline:
        """Load the window of a topic that is re-created meanwhile, and in the end what the new one has. The window is
        sometimes pinned long before it is loaded, and sometimes loaded twice."""
        (first,) = pipeline.windows
        place = self._rng.uniform(0, 0.9)
        if self._rng.random() < 0.5:
            self._place(place, Kind.PIN, pipeline.store, first)
        for _ in range(self._rng.choice((1, 1, 2))):
            self._place(place + 0.1, Kind.REMADE, pipeline.store, first, moment)
        self._late.append(self._task(Kind.RESTART, pipeline.store, (0, 0)))
        return pipeline

    def _task(self, kind: Kind, store: str, times: Times, moment: Moment | None = None) -> Task:
        self._count += 1
        return Task(kind, store, *times, self._count, moment)

    def _place(self, place: float, kind: Kind, store: str, times: Times, moment: Moment | None = None) -> None:
        self.placed.append((place, self._task(kind, store, times, moment)))

    def _ends(self, window: Times) -> float:
        return (window[1] - INSTANT_MS) / self._span_ms

    @property
    def _width(self) -> float:
        """How far a window's end is from the next one's, in places."""
        return WINDOW_MS / self._span_ms

    def _loads(self, store: str, windows: Sequence[Times]) -> dict[Times, float]:
        """Tasks for each window, around its end, a little before, or much later. Returns where it is loaded first."""
        rng, width = self._rng, self._width
        places: dict[Times, float] = {}
        for window in windows:
            ends = self._ends(window)
            around, early = ends + rng.gauss(0, 2 * width), ends - rng.uniform(0, 6 * width)
            place = rng.choices((around, early, rng.uniform(ends, 1)), (70, 10, 20))[0]
            robbed = rng.random() < 0.06
            if robbed or rng.random() < 0.3:
                self._place(place, Kind.PIN, store, window)
                place += rng.uniform(0, 20 * width)
            if robbed:
                self._rob(place)
            self._place(place, Kind.LOAD, store, window)
            if robbed or rng.random() < 0.12:
                self._place(place, Kind.LOAD, store, window)
            if rng.random() < 0.06:
                self._place(place + rng.uniform(0, 20 * width), Kind.LOAD, store, window)
            places[window] = place
        return places

    def _changes(self, store: str, places: Mapping[Times, float]) -> set[Times]:
        """What is done to windows while they are loaded, or afterwards. Returns those that are taken away."""
        rng, width, taken = self._rng, self._width, set()
        for number in range(max(len(CHANGES), len(places) // 4)):
            kind, window = CHANGES[number % len(CHANGES)], rng.choice(list(places))
            place = places[window]
            later = place + rng.choice((_BESIDE, rng.uniform(0, 10 * width)))
            if kind is Kind.BEGIN:
                self._place(place - _BESIDE, Kind.BEGIN, store, window)
                for _ in range(rng.choice((1, 1, 2))):
                    self._place(later, Kind.DRIVER, store, window)
                continue
            self._place(later, kind, store, window)
            if kind is Kind.VOID:
                taken.add(window)
                self._place(later + rng.uniform(0, 4 * width), Kind.LOAD, store, window)
        return taken

    def _rewind(self, store: str, places: Mapping[Times, float]) -> set[Times]:
        """Take away all that is after an instant of a while ago, and load soon what was requested. Returns that."""
        rng, width = self._rng, self._width
        place = rng.uniform(0.3, 0.9)
        to_ms = INSTANT_MS + int(max(0.0, place - rng.uniform(0, 6 * width)) * self._span_ms)
        if rng.random() < 0.5:
            to_ms = max((end_ms for _, end_ms in places if end_ms <= to_ms), default=to_ms)
        self._place(place, Kind.REWIND, store, (to_ms, to_ms))
        taken = {window for window in places if window[1] > to_ms}
        for window in sorted(each for each in taken if places[each] <= place):
            self._place(place + rng.uniform(0, 6 * width), Kind.LOAD, store, window)
        return taken

    def _cut(self, store: str, windows: Sequence[Times], places: Mapping[Times, float]) -> None:
        """A window that ends inside one of two neighbours, or starts inside the other, or both; at the same time as one
        of the windows that it crosses, just before or after it, or after both."""
        rng = self._rng
        one, other = rng.choice(list(pairwise(windows)))
        inner = rng.randint(one[0] + 1, one[1] - 1), rng.randint(other[0] + 1, other[1] - 1)
        cut = rng.choice((inner, inner, (one[0], inner[1]), (inner[0], other[1])))
        crossed = [place for window, place in places.items() if window[0] < cut[1] and cut[0] < window[1]] or [0.5]
        beside = rng.choice(crossed) + rng.choice((-_BESIDE, _BESIDE))
        after = max(crossed) + rng.uniform(2 * self._width, 0.3)
        self._place(rng.choice((beside, after)), Kind.CUT, store, cut)
