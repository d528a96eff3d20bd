"""What a pipeline hasn't loaded: the time of its windows that no published window has. From the log alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.partitions import LogRange


class Stretch(NamedTuple):
    """Some time that no published window has.

    :param start_ms: where it starts, Unix milliseconds; there is a snapshot.
    :param end_ms: where it ends; there is one too.
    :param window: the window that is pinned for it, but not published; None when no window has it.
    """

    start_ms: int
    end_ms: int
    window: Window | None


def stretches(state: State) -> Iterator[Stretch]:
    """What isn't loaded, from the start of the first window to the end of the last one, in order. All time after that
    isn't loaded either."""
    at_ms = None
    for window in state.windows.values():
        if at_ms is not None and at_ms < window.start_ms:
            yield Stretch(at_ms, window.start_ms, None)
        if window.publication is None:
            yield Stretch(window.start_ms, window.end_ms, window)
        at_ms = window.end_ms


def ranges_of(ledger: Ledger, stretch: Stretch) -> list[LogRange]:
    """The offsets of a stretch, without those of topics that began anew since: Kafka has other records there now."""
    gone = ledger.state.made_anew(stretch.end_ms)
    return [each for each in ledger.between(stretch.start_ms, stretch.end_ms) if each.topic not in gone]
