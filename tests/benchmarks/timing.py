"""Timing: the shortest or the median of several rounds, in which ours and theirs take turns, so that what disturbs one
disturbs the other too."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Works = Mapping[str, Callable[[], object]]
"""What to time, by name. All are to return the same: a fast wrong answer is none."""


@dataclass(frozen=True, slots=True)
class Taken:
    """How long a work took.

    :param s: seconds of the round that counts, or between two of them.
    :param rounds_s: of all rounds, in order.
    """

    s: float
    rounds_s: tuple[float, ...]


def shortest(works: Works, runs: int = 5) -> dict[str, Taken]:
    """Of each the shortest run. One run before them isn't counted: connections and caches are warm.

    :raises AssertionError: when two works return different things.
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
    """Of each the median of some rounds in which all take turns; one round before them isn't counted.

    Each round begins with another one: what comes before a work, such as another program's start, leaves its traces.

    :param before: what is done before each work, named by its argument, and not timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    turns = list(works.items())
    for number in range(rounds + 1):
        turns.append(turns.pop(0))
        for name, work in turns:
            if before is not None:
                before(name)
            answer, taken_s = timed(work)
            # What measures itself, as a program that has to start first, says its own seconds.
            if number:
                seconds[name].append(answer if isinstance(answer, float) else taken_s)
    return {name: Taken(statistics.median(each), tuple(each)) for name, each in seconds.items()}


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and seconds."""
    gc.collect()
    started = time.perf_counter()
    answer = work()
    return answer, time.perf_counter() - started
