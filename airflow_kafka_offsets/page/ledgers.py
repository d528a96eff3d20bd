"""The ledgers that the page shows: those of ``[kafka_offsets] ledger_root``, read through a small cache. What was read
is valid for some seconds, and only one reader at a time reads a ledger again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.hooks.ledger import ledger_of, pipelines
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.page.overview import overview

log = logging.getLogger(__name__)

Json = dict[str, Any]
_MOST_EXACT = 2**53 - 1
_ROOT = "/"
"""The cache's key for the root. No pipeline's name contains a slash."""
_ANEW_MS = 2_000
"""What isn't known yet is looked for at most this often, no matter how many users ask: a task links to a new window
immediately, and to a new pipeline's first one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one read of a ledger shows.

    :param shown: JSON, encoded, because numbers as Python objects take about ten times the memory.
    :param state: what the ledger's log adds up to; only of a pipeline's overview, from which all else is made.
    """

    shown: bytes
    state: State = field(default_factory=State)


def encoded(shown: dict[str, Any] | list[str]) -> bytes:
    """JSON. A whole number that a browser's numbers can't hold is text.

    :raises ValueError: when a number is NaN or infinite.
    """
    return json.dumps(_exact(shown), separators=(",", ":"), allow_nan=False).encode()


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact(each) for each in value]
    return str(value) if isinstance(value, int) and abs(value) > _MOST_EXACT else value


@dataclass(frozen=True, slots=True)
class Dated:
    """What was read, and when.

    :param read_ms: when reading began, Unix milliseconds. Anything written since then may be missing.
    :param ended_ms: when it ended. Its age counts from then: otherwise what a slow store says would be too old at once.
    :param outcome: the answer, or the error.
    """

    read_ms: int
    ended_ms: int
    outcome: Answer | Exception

    @property
    def answer(self) -> Answer:
        """The answer: the cache gives no error to its readers, but raises it."""
        assert isinstance(self.outcome, Answer)
        return self.outcome

    @property
    def size_bytes(self) -> int:
        """Approximate memory that it takes."""
        return len(self.outcome.shown if isinstance(self.outcome, Answer) else str(self.outcome)) + 1_000

    def is_younger(self, than_ms: int) -> bool:
        return now_ms() - self.ended_ms < than_ms


class Cache:
    """What was read, by ledger and question. Expired entries are dropped when an entry is added.

    :param valid_ms: how long an answer is valid, milliseconds.
    :param most_bytes: how much memory all answers may take; the oldest are dropped first.
    """

    def __init__(self, valid_ms: int = 10_000, most_bytes: int = 64 * 2**20) -> None:
        self._valid_ms = valid_ms
        self._most_bytes = most_bytes
        self._kept: dict[Hashable, Dated] = {}
        self._readers: dict[str, Lock] = {}
        self._lock = Lock()

    @property
    def size_bytes(self) -> int:
        """Approximate memory that all entries take."""
        return sum(each.size_bytes for each in self._kept.values())

    def get(
        self, pipeline: str, question: Hashable, read: Callable[[], Answer], at_most_ms: int | None = None
    ) -> Dated:
        """The cached answer, or else a new one. While one reader reads a pipeline's ledger, others who need to read it
        wait. Errors are cached too; otherwise those who waited would try a hanging store one after the other.

        :param at_most_ms: how old a cached answer may be, milliseconds; None for the cache's own limit.
        :raises: what ``read`` raised.
        """
        key, limit_ms = (pipeline, question), self._valid_ms if at_most_ms is None else at_most_ms
        kept = self._kept.get(key)
        if kept is None or not kept.is_younger(limit_ms):
            with self._readers.setdefault(pipeline, Lock()):
                kept = self._kept.get(key)
                if kept is None or not kept.is_younger(limit_ms):
                    began_ms, outcome = now_ms(), _outcome(read)
                    kept = Dated(began_ms, now_ms(), outcome)
                    self._keep(key, kept)
        if isinstance(kept.outcome, Exception):
            raise kept.outcome.with_traceback(None)  # the traceback would grow with each reader
        return kept

    def _keep(self, key: Hashable, kept: Dated) -> None:
        with self._lock:
            for other in [other for other, each in self._kept.items() if not each.is_younger(self._valid_ms)]:
                del self._kept[other]
            self._kept.pop(key, None)
            self._kept[key] = kept
            while self.size_bytes > self._most_bytes:
                del self._kept[next(iter(self._kept))]


def _outcome(read: Callable[[], Answer]) -> Answer | Exception:
    try:
        return read()
    except Exception as error:  # each store has its own exceptions
        if not isinstance(error, KafkaOffsetsError):
            log.warning("A ledger's store failed.", exc_info=error)
        # Its cause and traceback keep what was read in memory: a file's whole text.
        error.__cause__ = error.__context__ = error.__traceback__ = None
        return error


class Ledgers:
    """All pipelines below the configured root."""

    def __init__(self) -> None:
        self._cache = Cache()

    def pipelines(self) -> list[str]:
        """The names of the folders that contain a pipeline.

        :raises ConfigurationError: when no root is set.
        """
        return self._listed("all")

    def has(self, pipeline: str) -> bool:
        """Whether there is a pipeline of that name. The root is listed again for an unknown name.

        :raises ConfigurationError: when no root is set.
        """
        return pipeline in self._listed("all") or pipeline in self._listed("anew", _ANEW_MS)

    def _listed(self, question: str, at_most_ms: int | None = None) -> list[str]:
        kept = self._cache.get(_ROOT, question, lambda: Answer(encoded(pipelines(None))), at_most_ms)
        found: list[str] = json.loads(kept.answer.shown)
        return found

    def overview(self, pipeline: str, *, anew: bool = False) -> Dated:
        """The overview of a pipeline, with the state that it was made from.

        :param anew: read what is new, if that wasn't done in the last seconds.
        :raises LedgerError: when the ledger can't be read or is damaged.
        """
        return self._cache.get(pipeline, "overview", lambda: self._read(pipeline), _ANEW_MS if anew else None)

    def _read(self, pipeline: str) -> Answer:
        ledger = ledger_of(None, pipeline)
        state = ledger.read()
        return Answer(encoded(overview(ledger)), state)

    def ask(self, pipeline: str, question: Hashable, overview: Dated, read: Callable[[Ledger], Json]) -> bytes:
        """The answer to a question about a pipeline, from the state that its overview has.

        :param question: the cache's key: differs from those of other questions.
        """
        key = (question, overview.answer.state.number)
        found = self._cache.get(pipeline, key, lambda: Answer(encoded(read(as_seen(pipeline, overview)))))
        return found.answer.shown


def as_seen(pipeline: str, overview: Dated) -> Ledger:
    """A pipeline's ledger as its overview has it, without what was committed since."""
    ledger = ledger_of(None, pipeline)
    ledger.state = overview.answer.state
    return ledger
