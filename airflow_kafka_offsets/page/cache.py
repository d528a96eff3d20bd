"""A small cache: what was read from a ledger is valid for some seconds. Only one reader at a time reads it again."""

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
"""Approximate memory that an entry takes in addition to its answer: the question, and the cache's own structures."""


@dataclass(frozen=True, slots=True)
class Dated:
    """An answer, and when it was read.

    :param read_ms: when reading began, Unix milliseconds. Anything written since then may be missing.
    :param answer: what was read.
    """

    read_ms: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class _Kept:
    """An entry.

    :param read_ms: when reading began, as in :class:`Dated`.
    :param ended_ms: when reading ended, Unix milliseconds. The entry's age counts from then; otherwise the result of a
        slow read would be too old at once, and those who waited for it would read again.
    :param outcome: what was read, or the error.
    """

    read_ms: int
    ended_ms: int
    outcome: Answer | Exception

    @property
    def size_bytes(self) -> int:
        size = len(str(self.outcome)) if isinstance(self.outcome, Exception) else self.outcome.size_bytes
        return size + _PLACE_BYTES


class Cache:
    """What was read, by ledger and question. Expired entries are dropped when an entry is added.

    :param valid_ms: how long an answer is valid, milliseconds.
    :param most_bytes: how much memory all entries may take; the oldest are dropped first.
    """

    def __init__(self, valid_ms: int = 20_000, most_bytes: int = 64 * 2**20) -> None:
        self._valid_ms = valid_ms
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._size_bytes = 0
        self._readers: defaultdict[str, Lock] = defaultdict(Lock)
        self._lock = Lock()

    @property
    def size_bytes(self) -> int:
        """Approximate memory that all entries take."""
        return self._size_bytes

    def get(
        self, pipeline: str, question: Hashable, read: Callable[[], Answer], at_most_ms: int | None = None
    ) -> Dated:
        """The cached answer, or else a new one. While one reader reads a pipeline's ledger, others who need to read it
        wait. Errors are cached too; otherwise those who waited would try a hanging store one after the other.

        :param at_most_ms: how old a cached answer may be, milliseconds; None for the cache's own limit.
        """
        key, limit_ms = (pipeline, question), self._valid_ms if at_most_ms is None else at_most_ms
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
            raise kept.outcome.with_traceback(None)  # the traceback would grow with each reader
        return Dated(kept.read_ms, kept.outcome)

    def _keep(self, key: Hashable, kept: _Kept) -> None:
        with self._lock:
            gone = [other for other, each in self._kept.items() if other == key or _age_ms(each) >= self._valid_ms]
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
    except Exception as error:  # each store has its own exceptions
        if not isinstance(error, KafkaOffsetsError):
            log.warning("A ledger's store failed.", exc_info=error)
        # Its cause and traceback keep what was read in memory: a file's whole text.
        error.__cause__ = error.__context__ = error.__traceback__ = None
        return error
