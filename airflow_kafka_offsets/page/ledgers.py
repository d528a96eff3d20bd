"""The ledgers that the page shows: those of ``[kafka_offsets] ledger_root``. What was read of one is valid for some
seconds, and only one reader at a time reads it again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.hooks.ledger import ledger_of, pipelines
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.page.overview import overview

log = logging.getLogger(__name__)

Json = dict[str, Any]
T = TypeVar("T")
_ROOT = "/"
"""The key of the list of pipelines. No pipeline's name contains a slash."""
_ANEW_MS = 2_000
"""What isn't known yet is looked for at most this often, no matter how many users ask: a task links to a new window
immediately, and to a new pipeline's first one."""


@dataclass(frozen=True, slots=True)
class Dated(Generic[T]):
    """What was read, and when.

    :param read_ms: when reading began, Unix milliseconds. Anything written since then may be missing.
    :param ended_ms: when it ended. Its age counts from then: otherwise what a slow store says would be too old at once.
    :param outcome: what was read, or the error.
    """

    read_ms: int
    ended_ms: int
    outcome: T | Exception

    @property
    def answer(self) -> T:
        """What was read: its readers get no error, but it is raised."""
        assert not isinstance(self.outcome, Exception)
        return self.outcome

    def is_younger(self, than_ms: int) -> bool:
        return now_ms() - self.ended_ms < than_ms


class Recent(Generic[T]):
    """What was read lately, by key.

    :param valid_ms: how long it is valid, milliseconds. What is older is dropped when something is read.
    """

    def __init__(self, valid_ms: int = 10_000) -> None:
        self._valid_ms = valid_ms
        self._kept: dict[str, Dated[T]] = {}
        self._readers: dict[str, Lock] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str, read: Callable[[], T], at_most_ms: int | None = None) -> Dated[T]:
        """What was read, or else is read now. While one reader reads it, others who need it wait. Errors are kept too;
        otherwise those who waited would try a hanging store one after the other.

        :param at_most_ms: how old it may be, milliseconds; None for the limit of all.
        :raises: what ``read`` raised.
        """
        limit_ms, kept = self._valid_ms if at_most_ms is None else at_most_ms, self._kept.get(key)
        if kept is None or not kept.is_younger(limit_ms):
            with self._readers.setdefault(key, Lock()):
                kept = self._kept.get(key)
                if kept is None or not kept.is_younger(limit_ms):
                    began_ms, outcome = now_ms(), _outcome(read)
                    kept = Dated(began_ms, now_ms(), outcome)
                    self._keep(key, kept)
        if isinstance(kept.outcome, Exception):
            raise kept.outcome.with_traceback(None)  # the traceback would grow with each reader
        return kept

    def _keep(self, key: str, kept: Dated[T]) -> None:
        with self._lock:
            for other in [other for other, each in self._kept.items() if not each.is_younger(self._valid_ms)]:
                del self._kept[other]
            self._kept[key] = kept


def _outcome(read: Callable[[], T]) -> T | Exception:
    try:
        return read()
    except Exception as error:  # each store has its own exceptions
        if not isinstance(error, KafkaOffsetsError):
            log.warning("A ledger's store failed.", exc_info=error)
        # Its cause and traceback keep what was read in memory: a file's whole text.
        error.__cause__ = error.__context__ = error.__traceback__ = None
        return error


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline as it was read.

    :param ledger: its ledger. All that is said of the pipeline is made from the state that it has.
    :param overview: what :func:`.overview.overview` says.
    """

    ledger: Ledger
    overview: Json

    @classmethod
    def read(cls, name: str) -> Pipeline:
        """Read it now."""
        ledger = ledger_of(None, name)
        return cls(ledger, overview(ledger))


class Ledgers:
    """All pipelines below the configured root."""

    def __init__(self) -> None:
        self._names = Recent[list[str]]()
        self._pipelines = Recent[Pipeline]()

    def names(self, at_most_ms: int | None = None) -> list[str]:
        """The names of the folders that contain a pipeline.

        :raises ConfigurationError: when no root is set.
        """
        return self._names.get(_ROOT, lambda: pipelines(None), at_most_ms).answer

    def has(self, pipeline: str) -> bool:
        """Whether there is a pipeline of that name. The root is listed again for an unknown name."""
        return pipeline in self.names() or pipeline in self.names(_ANEW_MS)

    def pipeline(self, name: str, *, anew: bool = False) -> Dated[Pipeline]:
        """A pipeline.

        :param anew: read what is new, if that wasn't done in the last seconds.
        :raises LedgerError: when the ledger can't be read or is damaged.
        """
        return self._pipelines.get(name, lambda: Pipeline.read(name), _ANEW_MS if anew else None)
