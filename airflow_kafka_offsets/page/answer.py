"""An answer: what one look at a ledger shows, encoded as it is sent, and the Dags that made what it shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.ledger.summaries import WindowSummary

_SUMMARY_BYTES = 1_000
"""What a window's summary takes in memory, about."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one look at a ledger shows.

    :param shown: a JSON object or array, encoded: as objects, numbers take some ten times as much memory. Empty where
        there is nothing to show.
    :param dag_ids: the Dags that made what is shown, read in the same look. It is for those who may read all of them.
    :param summaries: the windows that it was made from, for answers that are made from it.
    """

    shown: bytes
    dag_ids: frozenset[str] = frozenset()
    summaries: Sequence[WindowSummary] = ()

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, about."""
        return len(self.shown) + sum(map(len, self.dag_ids)) + _SUMMARY_BYTES * len(self.summaries)


def encoded(shown: dict[str, Any] | list[str]) -> bytes:
    """As JSON.

    :raises ValueError: when a number isn't one.
    """
    return json.dumps(shown, separators=(",", ":"), allow_nan=False).encode()


def joined(*shown: bytes) -> bytes:
    """One JSON object of several, none of which is empty."""
    return b"{" + b",".join(each[1:-1] for each in shown) + b"}"
