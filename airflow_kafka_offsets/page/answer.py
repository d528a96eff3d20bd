"""An answer: what one read of a ledger shows, encoded for sending, and the Dags that made it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.ledger.summaries import WindowSummary

_SUMMARY_BYTES = 1_000
"""Approximate memory that a window's summary takes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one read of a ledger shows.

    :param shown: a JSON object or array, encoded, because numbers as Python objects take about ten times the memory.
        Empty if there is nothing to show.
    :param dag_ids: the Dags that made it, from the same read. Only users who may read all of them may see it.
    :param summaries: the windows that it was made from, so that other answers can be made from them.
    """

    shown: bytes
    dag_ids: frozenset[str] = frozenset()
    summaries: Sequence[WindowSummary] = ()

    @property
    def size_bytes(self) -> int:
        """Approximate memory that it takes."""
        return len(self.shown) + sum(map(len, self.dag_ids)) + _SUMMARY_BYTES * len(self.summaries)


def encoded(shown: dict[str, Any] | list[str]) -> bytes:
    """JSON.

    :raises ValueError: when a number is NaN or infinite.
    """
    return json.dumps(shown, separators=(",", ":"), allow_nan=False).encode()


def joined(*shown: bytes) -> bytes:
    """Several JSON objects merged into one. None of them may be empty."""
    return b"{" + b",".join(each[1:-1] for each in shown) + b"}"
