"""The ledgers that the page shows: those of ``[kafka_offsets] ledger_root``, read through a cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from typing import Any

from airflow_kafka_offsets.hooks.ledger import ledger_of, pipelines
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.page.cache import Answer, Cache, Dated, encoded
from airflow_kafka_offsets.page.overview import overview

Json = dict[str, Any]
_ROOT = "/"
"""The cache's key for the root. No pipeline's name contains a slash."""
_ANEW_MS = 2_000
"""What isn't known yet is looked for at most this often, no matter how many users ask: a task links to a new window
immediately, and to a new pipeline's first one."""


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
