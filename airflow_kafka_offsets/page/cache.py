"""A small cache: what was read of a ledger stands for some seconds, and one reader at a time reads it again."""

from __future__ import annotations

import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.page.answer import Answer

log = logging.getLogger(__name__)

_PLACE_BYTES = 1_000
"""What keeping an answer takes beside it, about: the question, and its places."""


@dataclass(frozen=True, slots=True)
class Dated:
    """An answer that was read.

    :param read_ms: when its reading began, Unix milliseconds: whatever was written since may not be in it.
    :param answer: what was read.
    """

    read_ms: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class _Kept:
    """What came of reading.

    :param read_ms: as of :class:`Dated`.
    :param ended_ms: when its reading ended. It stands from then on: one that took long would be too old at once, and
        whoever has waited for it would ask again.
    :param outcome: what was read, or why it wasn't.
    """

    read_ms: int
    ended_ms: int
    outcome: Answer | Exception

    @property
    def size_bytes(self) -> int:
        size = len(str(self.outcome)) if isinstance(self.outcome, Exception) else self.outcome.size_bytes
        return size + _PLACE_BYTES


class Cache:
    """What was read, by ledger and question. What doesn't stand any more goes when something is kept.

    :param stands_ms: how long an answer stands, milliseconds.
    :param most_bytes: how much memory all of them may take; the oldest goes first.
    """

    def __init__(self, stands_ms: int = 20_000, most_bytes: int = 64 * 2**20) -> None:
        self._stands_ms = stands_ms
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._size_bytes = 0
        self._readers: defaultdict[str, Lock] = defaultdict(Lock)
        self._lock = Lock()

    @property
    def size_bytes(self) -> int:
        """How much memory what is kept takes, about."""
        return self._size_bytes

    def get(
        self, pipeline: str, question: Hashable, read: Callable[[], Answer], at_most_ms: int | None = None
    ) -> Dated:
        """The kept answer at once, else a new one. While one reader reads a pipeline's ledger, others who need it read
        wait for it. An error is kept too: they would ask a store that doesn't answer one after the other.

        :param at_most_ms: how old a kept answer may be, milliseconds; None for as old as any.
        """
        key, limit_ms = (pipeline, question), self._stands_ms if at_most_ms is None else at_most_ms
        with self._lock:
            kept, reader = self._kept.get(key), self._readers[pipeline]
        if kept is None or _age_ms(kept) >= limit_ms:
            with reader:
                with self._lock:
                    kept = self._kept.get(key)
                if kept is None or _age_ms(kept) >= limit_ms:
                    kept = _read(read)
                    self._keep(key, kept)
        if isinstance(kept.outcome, Exception):
            raise kept.outcome.with_traceback(None)  # it would grow with each reader
        return Dated(kept.read_ms, kept.outcome)

    def _keep(self, key: Hashable, kept: _Kept) -> None:
        with self._lock:
            gone = [other for other, each in self._kept.items() if other == key or _age_ms(each) >= self._stands_ms]
            for other in gone:
                self._drop(other)
            self._kept[key] = kept
            self._size_bytes += kept.size_bytes
            while self._size_bytes > self._most_bytes:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        self._size_bytes -= self._kept.pop(key).size_bytes


def _age_ms(kept: _Kept) -> int:
    return now_ms() - kept.ended_ms


def _read(read: Callable[[], Answer]) -> _Kept:
    began_ms = now_ms()
    outcome = _outcome(read)
    return _Kept(began_ms, now_ms(), outcome)


def _outcome(read: Callable[[], Answer]) -> Answer | Exception:
    try:
        return read()
    except Exception as error:  # each store has its own
        if not isinstance(error, KafkaOffsetsError):
            log.warning("A ledger's store failed.", exc_info=error)
        # What it came from holds what was read: a file's whole text.
        error.__cause__ = error.__context__ = error.__traceback__ = None
        return error
