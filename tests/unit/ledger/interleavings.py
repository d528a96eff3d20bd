"""All ways in which several writers' operations on a store can follow each other.

A writer is a function of its files. It is run again and again with the answers that its operations had so far, until it
asks for the next one: so its state is the list of those answers, and a search can go back. What has led to the same
files and the same answers is looked at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from airflow_kafka_offsets.ledger import log
from airflow_kafka_offsets.ledger.files import Files
from tests.unit.ledger.memory import MemoryFiles

Writer = Callable[[Files], Any]
Operation = tuple[str, tuple[Any, ...]]


class _Next(BaseException):
    """A writer's next operation. No writer catches it."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation


@dataclass
class _Replaying:
    """ResolvedOffsets operations as they were answered before, and stops the writer at the first new one."""

    answers: Sequence[Any]
    used: int = 0

    def _answer(self, kind: str, *arguments: Any) -> Any:
        if self.used == len(self.answers):
            raise _Next((kind, arguments))
        self.used += 1
        return self.answers[self.used - 1]

    def names(self, folder: str) -> list[str]:
        return list(self._answer("names", folder))

    def read(self, name: str) -> bytes | None:
        return self._answer("read", name)  # type: ignore[no-any-return]

    def create(self, name: str, content: bytes) -> bool:
        return self._answer("create", name, content)  # type: ignore[no-any-return]

    def replace(self, name: str, content: bytes) -> None:
        return self._answer("replace", name, content)  # type: ignore[no-any-return]


@dataclass
class Ended:
    """How a writer ended: with a result, or an error."""

    result: Any = None
    error: Exception | None = None


@dataclass
class Search:
    """All interleavings of some writers.

    :param writers: by name.
    :param check: called with the files, and with how the writers that have ended did, after each operation.
    :param lags: whether a listing may lack the newest name.
    :param seen: how many different states were looked at.
    :param ends: how many of them were ends.
    """

    writers: Mapping[str, Writer]
    check: Callable[[dict[str, bytes], Mapping[str, Ended]], None]
    lags: bool = False
    seen: int = 0
    ends: int = 0
    _known: set[Any] = field(default_factory=set)
    _steps: dict[Any, Any] = field(default_factory=dict)

    def run(self, files: dict[str, bytes]) -> None:
        """Search from some files on."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "sleep", lambda seconds: None)
            self._from(files, dict.fromkeys(self.writers, ()))

    def _from(self, files: dict[str, bytes], answers: Mapping[str, tuple[Any, ...]]) -> None:
        stack = [(files, answers)]
        while stack:
            files, answers = stack.pop()
            key = (frozenset(files.items()), tuple(sorted(answers.items())))
            if key in self._known:
                continue
            self._known.add(key)
            self.seen += 1
            reached = {name: self._step(name, answers[name]) for name in self.writers}
            ended = {name: found for name, found in reached.items() if isinstance(found, Ended)}
            self.check(files, ended)
            self.ends += len(ended) == len(self.writers)
            for name, operation in reached.items():
                if isinstance(operation, Ended):
                    continue
                kind, arguments = operation
                store = MemoryFiles(dict(files))
                answer = getattr(store, kind)(*arguments)
                possible = [tuple(answer)] if isinstance(answer, list) else [answer]
                if self.lags and kind == "names" and answer:
                    possible.append(tuple(answer[:-1]))
                stack += [(store.files, {**answers, name: (*answers[name], each)}) for each in possible]

    def _step(self, name: str, answers: tuple[Any, ...]) -> Ended | Operation:
        if (name, answers) not in self._steps:
            self._steps[name, answers] = self._reached(name, answers)
        return self._steps[name, answers]  # type: ignore[no-any-return]

    def _reached(self, name: str, answers: tuple[Any, ...]) -> Ended | Operation:
        with _ids(name):
            try:
                return Ended(self.writers[name](_Replaying(answers)))
            except _Next as reached:
                return reached.operation
            except Exception as error:
                return Ended(error=error)


@contextmanager
def _ids(writer: str) -> Iterator[None]:
    """Identities of commits that are the same each time the writer is run."""
    made = iter(range(1_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "uuid4", lambda: UUID(bytes=f"{writer:_<12.12}{next(made):04d}".encode()))
        yield
