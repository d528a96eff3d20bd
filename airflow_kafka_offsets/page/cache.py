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
        raised, and not kept."""
        key = (pipeline, question)
        with self._lock:
            reader = self._readers[pipeline]
        with reader:
            kept = self._kept.get(key)
            if kept is None or now_ms() - kept.read_ms >= self._stands_ms:
                began_ms = now_ms()
                kept = Dated(began_ms, read())
                self._keep(key, kept)
            return kept

    def _keep(self, key: Hashable, answer: Dated[Any]) -> None:
        with self._lock:
            self._kept[key] = answer
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
