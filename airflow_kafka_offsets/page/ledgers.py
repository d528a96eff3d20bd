"""The ledgers that the page shows: those of ``[kafka_offsets] ledger_root``, read through a cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable

from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.hooks.ledger import ledger_root, open_ledger
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import LedgerPath, in_parallel, names, read
from airflow_kafka_offsets.offsets.windows.ledger_names import PIPELINE, PIPELINE_NAME
from airflow_kafka_offsets.page.answer import Answer, encoded
from airflow_kafka_offsets.page.cache import Cache, Dated
from airflow_kafka_offsets.page.overview import overview

_ROOT = "/"
"""Stands for the root among the pipelines' names, none of which has a slash."""
_LISTED_ANEW_MS = 2_000
"""So often the root is listed for names that it doesn't have, whoever asks for them."""


class Ledgers:
    """All pipelines below the setting's root."""

    def __init__(self) -> None:
        self._cache = Cache()

    def pipelines(self) -> list[str]:
        """Names of the folders that are a pipeline's.

        :raises ConfigurationError: when no root is set.
        """
        return self._listed("all")

    def has(self, pipeline: str) -> bool:
        """Whether there is a pipeline of that name. For one that isn't known, the root is listed anew: a task links to
        its first window at once. What comes of that is kept apart from what is known of the others.

        :raises ConfigurationError: when no root is set.
        """
        return pipeline in self._listed("all") or pipeline in self._listed("anew", _LISTED_ANEW_MS)

    def _listed(self, question: str, at_most_ms: int | None = None) -> list[str]:
        kept = self._cache.get(_ROOT, question, lambda: Answer(encoded(_pipelines())), at_most_ms)
        found: list[str] = json.loads(kept.answer.shown)
        return found

    def overview(self, pipeline: str) -> Dated:
        """The overview of a pipeline, made from all its windows.

        :raises LedgerError: when the ledger isn't what it should be.
        """
        return self.ask(pipeline, "overview", overview)

    def ask(self, pipeline: str, question: Hashable, read: Callable[[Ledger], Answer]) -> Dated:
        """What a question to a pipeline's ledger gives.

        :param question: what tells it from others.
        """
        return self._cache.get(pipeline, question, lambda: read(open_ledger(None, pipeline)))


def _pipelines() -> list[str]:
    root = LedgerPath.of(ObjectStoragePath(ledger_root(None)))
    found = [name for name in names(root) if PIPELINE_NAME.fullmatch(name)]
    there = in_parallel(lambda name: _is_there(root / name / PIPELINE), found)
    return [name for name, is_there in zip(found, there, strict=True) if is_there]


def _is_there(file: LedgerPath) -> bool:
    """Whether there is a file, whatever it holds, and also where the store lets nobody read it: what is wrong with a
    pipeline is for its own answer to say, to those who may see it."""
    try:
        return read(file, limit_bytes=1) is not None
    except NotADirectoryError:  # a file beside the pipelines
        return False
    except Exception:  # each store has its own
        return True
