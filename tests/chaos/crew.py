"""The crew: worker processes that are given tasks, and are replaced if they die, until every task is done."""

from __future__ import annotations

import multiprocessing
import random
import signal
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any, NoReturn, Self

from tests.chaos.diary import Diary
from tests.chaos.plan import Kind, Task
from tests.chaos.settings import Order, Ref, Said, Settings
from tests.chaos.worker import work

SILENCE_S = 300.0
"""How long all workers may be silent, seconds."""
MOST_TRIES = 300
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.chaos.worker"])


class ChaosError(AssertionError):
    """A failure that no injected fault explains."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a task ended."""

    task: Task
    said: Said


@dataclass(slots=True)
class _Seat:
    """The place of one worker, and its current task. If the worker dies, another takes the place."""

    name: str
    process: Any
    connection: Any
    task: Task | None = None
    tries: int = 0


class Crew:
    """Workers: a context manager.

    :param settings: for each worker, except its seed and patience.
    :param diary: records what happens.
    :param size: how many workers.
    """

    def __init__(self, settings: Settings, diary: Diary, size: int) -> None:
        self._size = size
        self.seen: Counter[str] = Counter()
        self.answers: list[Answer] = []
        self._settings = settings
        self._diary = diary
        self._rng = random.Random(settings.seed)
        self._waiting: deque[tuple[Task, int]] = deque()
        self._pinned: dict[tuple[str, int, int], Ref] = {}
        self._begun: dict[tuple[str, int, int], int] = {}
        self._lives = 0
        self._seats: list[_Seat] = []

    def __enter__(self) -> Self:
        self._seats = [self._new_seat() for _ in range(self._size)]
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._seats:
            each.process.kill()
            each.process.join()

    def give(self, task: Task) -> None:
        """Hand a task to the next free worker. Tasks that must be done again are handed out too.

        :raises ChaosError: a worker found something that must not happen.
        """
        self._waiting.append((task, 0))
        self._hand_out()
        while len(self._waiting) > 1:
            self._listen()

    def finish(self) -> None:
        """Wait until everything is done.

        :raises ChaosError: a worker found something that must not happen.
        """
        while self._waiting or any(each.task for each in self._seats):
            self._hand_out()
            self._listen()

    def _new_seat(self) -> _Seat:
        self._lives += 1
        here, there = _CONTEXT.Pipe()
        seed = f"{self._settings.seed} {self._lives}"
        settings = replace(self._settings, seed=seed, patient=self._lives % 2 == 0)
        process = _CONTEXT.Process(target=work, args=(there, settings), daemon=True)
        process.start()
        there.close()
        return _Seat(f"worker {self._lives}", process, here)

    def _hand_out(self) -> None:
        for each in self._seats:
            if each.task is None and self._waiting:
                each.task, each.tries = self._waiting.popleft()
                known = self._pinned.get(each.task.window), self._begun.get(each.task.window)
                with suppress(ConnectionError):  # it has died, which the next look at its connection shows
                    each.connection.send(Order(each.task, *known))

    def _listen(self) -> None:
        ready = wait([each.connection for each in self._seats if each.task], SILENCE_S)
        if not ready:
            raise ChaosError(f"no worker has said anything for {SILENCE_S:.0f} s")
        for seat in [each for each in self._seats if each.connection in ready]:
            self._hear(seat)
        self._hand_out()

    def _hear(self, seat: _Seat) -> None:
        try:
            said: Said = seat.connection.recv()
        except (EOFError, ConnectionError):
            self._replace(seat)
            return
        assert seat.task is not None
        self._diary.note_task(seat.task, f"{seat.name} {said.verdict}: {said.words}")
        if said.verdict == "wrong":
            self._fail(seat.task, f"{seat.name} found something wrong")
        if said.verdict == "dies":
            self.seen[f"died {said.words}"] += 1
            return  # the end of its connection follows
        self.seen[f"{seat.task.store} {said.verdict}: {_kind(said)}"] += 1
        if said.cleared:
            self._pinned.pop(seat.task.window, None)
        if said.verdict == "again":
            self._again(seat)
        else:
            self._note(seat.task, said)
        seat.task = None

    def _note(self, task: Task, said: Said) -> None:
        """Record the outcome of a task, and what others are given of it."""
        self.answers.append(Answer(task, said))
        if task.kind is Kind.PIN and said.ref is not None:
            self._pinned[task.window] = said.ref
        if said.attempt is not None:
            self._begun[task.window] = said.attempt

    def _replace(self, seat: _Seat) -> None:
        """Start another worker in a dead one's place."""
        seat.process.join()
        seat.connection.close()
        if seat.process.exitcode != -signal.SIGKILL:
            self._fail(seat.task, f"{seat.name} ended with {seat.process.exitcode}")
        self._again(seat)
        fresh = self._new_seat()
        seat.name, seat.process, seat.connection, seat.task = fresh.name, fresh.process, fresh.connection, None

    def _again(self, seat: _Seat) -> None:
        assert seat.task is not None
        if seat.tries == MOST_TRIES:
            self._fail(seat.task, f"nobody could do it in {MOST_TRIES} tries")
        self._waiting.insert(self._rng.randint(0, len(self._waiting)), (seat.task, seat.tries + 1))

    def _fail(self, task: Task | None, words: str) -> NoReturn:
        """Give up, with the story of the window."""
        story = self._diary.task_story(task) if task else []
        raise ChaosError("\n".join([f"{task}: {words}", *story]))


def _kind(said: Said) -> str:
    """What was said, without the details in it that are unique."""
    return said.words.partition(":" if said.verdict == "again" else " (")[0]
