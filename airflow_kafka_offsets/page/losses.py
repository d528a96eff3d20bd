"""What a pipeline has lost or not loaded, in offsets: what Kafka had deleted before a window was loaded, and what no
published window has."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import Boundary


def lost_of(window: Window) -> Counter[TopicPartition]:
    """What Kafka no longer had of a window when it was loaded, by partition: of the published attempt, or else of the
    newest one."""
    published = window.publication
    attempt = window.newest_attempt if published is None else window.attempt(published.attempt)
    lost = Counter[TopicPartition]()
    for each in () if attempt is None else attempt.lost:
        lost[TopicPartition.of(each)] += each.span
    return lost


@dataclass(frozen=True, slots=True)
class Unloaded:
    """What no published window has, from the first window's start on.

    :param since_ms: everything before it is loaded, Unix milliseconds. Time without offsets counts as loaded.
    :param ranges: all that can still be loaded, to the log end, wherever that is.
    """

    since_ms: int
    ranges: Sequence[LogRange]


def unloaded(ledger: Ledger) -> Unloaded | None:
    """What isn't loaded; None if there is no window.

    :raises LedgerError: when a snapshot can't be read or is damaged.
    """
    if not ledger.state.windows:
        return None
    stretches, last_ms = _stretches(ledger.state)
    found = [(start_ms, end_ms, ledger.between(start_ms, end_ms)) for start_ms, end_ms in stretches]
    since_ms = next((start_ms for start_ms, _, ranges in found if ranges), last_ms)
    between = [each for _, end_ms, ranges in found for each in _still_there(ledger, end_ms, ranges)]
    after = [LogRange(*key, each.offset, sys.maxsize) for key, each in _ends_now(ledger, last_ms).items()]
    return Unloaded(since_ms, [*between, *after])


def _still_there(ledger: Ledger, end_ms: int, ranges: Iterable[LogRange]) -> Iterator[LogRange]:
    """The parts of some ranges, up to a snapshot, that are of the present logs: one that has begun anew since has other
    records at these offsets."""
    ends = _ends_now(ledger, end_ms)
    for each in ranges:
        end = ends.get(TopicPartition.of(each))
        if end is not None and each.start_offset < min(each.end_offset, end.offset):
            yield each._replace(end_offset=min(each.end_offset, end.offset))


def _ends_now(ledger: Ledger, at_ms: int) -> Mapping[TopicPartition, Boundary]:
    """A snapshot's boundaries as the present logs have them."""
    return ledger.state.anew(ledger.offsets_at(at_ms), at_ms, sys.maxsize).boundaries


def _stretches(state: State) -> tuple[list[tuple[int, int]], int]:
    """The time that no published window has: from the first window's start to the last published one's end, as pairs;
    and where that is, as all time after it isn't loaded either."""
    since_ms, found = next(iter(state.windows.values())).start_ms, []
    for window in state.published:
        if since_ms < window.start_ms:
            found.append((since_ms, window.start_ms))
        since_ms = window.end_ms
    return found, since_ms


def gone_of(unloaded: LogRange, log_start_offset: int) -> int:
    """How many offsets of a range are before the log start."""
    return max(0, min(log_start_offset, unloaded.end_offset) - unloaded.start_offset)
