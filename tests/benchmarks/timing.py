"""Timing: the shortest or the median of several rounds, in which ours and theirs take turns, so that a disturbance
affects both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Works = Mapping[str, Callable[[], object]]
"""What to time, by name. All must return the same: a fast wrong answer doesn't count."""


@dataclass(frozen=True, slots=True)
class Taken:
    """How long a task took.

    :param s: seconds of the round that counts, or the mean of two middle rounds.
    :param rounds_s: seconds of all rounds, in order.
    """

    s: float
    rounds_s: tuple[float, ...]


def shortest(works: Works, runs: int = 5) -> dict[str, Taken]:
    """The shortest run of each. One run before isn't counted, so that connections and caches are warm.

    :raises AssertionError: when two of them return different results.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for run in range(runs + 1):
        answers = {}
        for name, work in works.items():
            answers[name], taken_s = timed(work)
            if run:
                seconds[name].append(taken_s)
        if len(set(answers.values())) != 1:
            raise AssertionError(f"the answers differ: {answers}")
    return {name: Taken(min(each), tuple(each)) for name, each in seconds.items()}


def medians(works: Works, rounds: int = 5, before: Callable[[str], object] | None = None) -> dict[str, Taken]:
    """The median of each, over rounds in which all take turns. One round before isn't counted.

    Each round begins with a different one, because what runs before, such as another program's start, has an effect.

    :param before: called before each one, with its name. It isn't timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    turns = list(works.items())
    for number in range(rounds + 1):
        turns.append(turns.pop(0))
        for name, work in turns:
            if before is not None:
                before(name)
            answer, taken_s = timed(work)
            # Programs that measure themselves, because they have to start first, return their own seconds.
            if number:
                seconds[name].append(answer if isinstance(answer, float) else taken_s)
    return {name: Taken(statistics.median(each), tuple(each)) for name, each in seconds.items()}


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and the seconds."""
    gc.collect()
    started = time.perf_counter()
    answer = work()
    return answer, time.perf_counter() - started
