"""The ledgers that the page shows: those of ``[kafka_offsets] ledger_root``, read through a cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable

from airflow_kafka_offsets.hooks.ledger import ledger_of, pipelines
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.page.answer import Answer, encoded
from airflow_kafka_offsets.page.cache import Cache, Dated
from airflow_kafka_offsets.page.overview import overview

_ROOT = "/"
"""The cache's key for the root. No pipeline's name contains a slash."""
_LISTED_ANEW_MS = 2_000
"""The root is listed at most this often for unknown names, no matter how many users ask."""


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
        """Whether there is a pipeline of that name. The root is listed again for an unknown name, because a task links
        to a new pipeline's first window immediately. That listing is cached separately.

        :raises ConfigurationError: when no root is set.
        """
        return pipeline in self._listed("all") or pipeline in self._listed("anew", _LISTED_ANEW_MS)

    def _listed(self, question: str, at_most_ms: int | None = None) -> list[str]:
        kept = self._cache.get(_ROOT, question, lambda: Answer(encoded(pipelines(None))), at_most_ms)
        found: list[str] = json.loads(kept.answer.shown)
        return found

    def overview(self, pipeline: str) -> Dated:
        """The overview of a pipeline, made from all its windows.

        :raises LedgerError: when the ledger can't be read or is damaged.
        """
        return self.ask(pipeline, "overview", overview)

    def ask(self, pipeline: str, question: Hashable, read: Callable[[Ledger], Answer]) -> Dated:
        """The answer to a question about a pipeline's ledger, read or from the cache.

        :param question: the cache's key: differs from those of other questions.
        """
        return self._cache.get(pipeline, question, lambda: read(ledger_of(None, pipeline)))
