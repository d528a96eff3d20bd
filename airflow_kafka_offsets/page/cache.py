"""A small cache: what was read of a ledger stands for some seconds, and one reader at a time reads it again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

from airflow_kafka_offsets.offsets.instants import now_ms

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dated(Generic[T]):
    """Something that was read.

    :param read_ms: when its reading began, Unix milliseconds: whatever was written since may not be in it.
    :param value: what was read.
    """

    read_ms: int
    value: T


@dataclass(frozen=True, slots=True)
class _Failed:
    """Reading failed.

    :param error: why.
    """

    error: Exception


class Cache:
    """What was read, by ledger and question.

    :param stands_ms: how long it stands, milliseconds.
    :param most: how many answers are kept; the oldest goes first.
    """

    def __init__(self, stands_ms: int = 20_000, most: int = 200) -> None:
        self._stands_ms = stands_ms
        self._most = most
        self._kept: OrderedDict[Hashable, Dated[Any]] = OrderedDict()
        self._readers: defaultdict[str, Lock] = defaultdict(Lock)
        self._lock = Lock()

    def get(self, pipeline: str, question: Hashable, read: Callable[[], T]) -> Dated[T]:
        """The kept answer, else a new one. While one reader reads a pipeline's ledger, others wait for it. An error is
        kept too: they would ask a store that doesn't answer one after the other."""
        key = (pipeline, question)
        with self._lock:
            reader = self._readers[pipeline]
        with reader:
            kept = self._kept.get(key)
            if kept is None or now_ms() - kept.read_ms >= self._stands_ms:
                kept = Dated(now_ms(), _outcome(read))
                self._keep(key, kept)
        if isinstance(kept.value, _Failed):
            raise kept.value.error.with_traceback(None)  # it would grow with each reader
        return kept

    def _keep(self, key: Hashable, answer: Dated[Any]) -> None:
        with self._lock:
            self._kept[key] = answer
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


def _outcome(read: Callable[[], T]) -> T | _Failed:
    try:
        return read()
    except Exception as error:  # each store has its own
        return _Failed(error)
