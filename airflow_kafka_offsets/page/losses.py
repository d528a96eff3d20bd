"""What a pipeline has lost or not loaded, in offsets: what Kafka had deleted before a window was loaded, and what no
published window has."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from airflow_kafka_offsets.ledger.holes import stretches
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition


def lost_of(window: Window) -> Counter[TopicPartition]:
    """What Kafka no longer had of a window when it was loaded, by partition: of the published attempt, or else of the
    newest one."""
    lost = Counter[TopicPartition]()
    for each in window.lost:
        lost[TopicPartition.of(each)] += each.span
    return lost


@dataclass(frozen=True, slots=True)
class Unloaded:
    """What no published window has, from the first window's start on; without windows, from the newest snapshot on, as
    the retention watch counts it.

    :param since_ms: everything before it is loaded, or was in a log that has begun anew since, Unix milliseconds.
    :param ranges: all that isn't, to the log end, wherever that is.
    """

    since_ms: int
    ranges: Sequence[LogRange]


def unloaded(ledger: Ledger) -> Unloaded | None:
    """What isn't loaded; None if there is no snapshot.

    :raises LedgerError: when a snapshot can't be read or is damaged.
    """
    state, last = ledger.state, ledger.state.last_window or ledger.state.newest_snapshot
    if last is None:
        return None
    end_ms = last.end_ms if isinstance(last, Window) else last.at_ms
    found = list(stretches(state, reloads=True))
    ranges = in_parallel(lambda each: ledger.between(*each[:2]), found)
    since_ms = next((each.start_ms for each, own in zip(found, ranges, strict=True) if own), end_ms)
    end = ledger.offsets_now(end_ms)
    after = (LogRange(*key, each.offset, sys.maxsize) for key, each in end.boundaries.items())
    return Unloaded(since_ms, [*chain(*ranges), *after])


def gone_of(unloaded: LogRange, log_start_offset: int) -> int:
    """How many offsets of a range are before the log start."""
    return max(0, min(log_start_offset, unloaded.end_offset) - unloaded.start_offset)
