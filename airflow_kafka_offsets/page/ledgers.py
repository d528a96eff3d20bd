"""The ledgers that the page shows: those of ``[kafka_offsets] ledger_root``, read through a cache.

A pipeline's log is read once. After that it is advanced: two requests tell whether there is anything new, and bring it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

from airflow_kafka_offsets.hooks.ledger import ledger_of, pipelines
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.log import Log
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.page.cache import Answer, Cache, Dated, encoded
from airflow_kafka_offsets.page.overview import overview

Json = dict[str, Any]
_ROOT = "/"
"""The cache's key for the root. No pipeline's name contains a slash."""
_ANEW_MS = 2_000
"""What isn't known yet is looked for at most this often, no matter how many users ask: a task links to a new window
immediately, and to a new pipeline's first one."""
_MOST_WINDOWS = 40_000
"""Windows whose state is kept between two reads, over all pipelines. Each takes about 2 KB."""
_LONGEST_MS = 600_000
"""How long a log is advanced before it is read anew, so that a ledger that was restored from a backup is seen."""


class Ledgers:
    """All pipelines below the configured root."""

    def __init__(self) -> None:
        self._cache = Cache()
        self._logs = _Logs()

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
        state = self._logs.advanced(pipeline, ledger)
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


class _Logs:
    """The logs that were read last. One that is dropped costs three requests when it is needed again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Log, int, int]] = OrderedDict()
        self._lock = Lock()

    def advanced(self, pipeline: str, ledger: Ledger) -> State:
        """The state of a pipeline now, read by the log that was kept, if there is one."""
        with self._lock:
            log, since_ms, _ = self._kept.pop(pipeline, (ledger.log, now_ms(), 0))
        if now_ms() - since_ms < _LONGEST_MS:
            ledger.log = log
        else:
            since_ms = now_ms()
        state = ledger.read()
        with self._lock:
            self._kept[pipeline] = ledger.log, since_ms, len(state.windows)
            while len(self._kept) > 1 and sum(windows for *_, windows in self._kept.values()) > _MOST_WINDOWS:
                self._kept.popitem(last=False)
        return state
