"""A topic over time: for each snapshot, where its logs started and ended, and what was loaded when it was resolved; and
the windows of that time.

Offsets are text, like 64-bit integers in protobuf's JSON, because a browser's numbers are exact only up to 2^53.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.compat.python_versions import Self
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.counted import WindowStatus, statuses
from airflow_kafka_offsets.ledger.entries import Snapshotted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, Boundary, OffsetSnapshot

Part = Mapping[TopicPartition, Boundary]
"""The boundaries of a snapshot on the partitions in question."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What some windows have loaded.

    :param windows: the published ones, in order of time, each with how many offsets it has.
    :param ends: the sum of the offsets at which each of them ends, by its end in time.
    :param starts: where counting starts for each partition: its offset where the first window starts, published or not;
        or, if it was added later, its log start then.
    """

    windows: Sequence[tuple[Window, int]]
    ends: Mapping[int, int]
    starts: Mapping[TopicPartition, int]

    @classmethod
    def of(cls, windows: Sequence[Window], parts: Mapping[int, Part]) -> Self | None:
        """What some windows have loaded; None if none is published.

        :param parts: their snapshots, by their places in time.
        """
        times = sorted({at_ms for each in windows for at_ms in (each.start_ms, each.end_ms)})
        published = [each for each in windows if each.publication is not None]
        if not published:
            return None
        starts: dict[TopicPartition, int] = {}
        for at_ms in times:
            for key, each in parts[at_ms].items():
                starts.setdefault(key, each.offset if at_ms == times[0] else each.log_start_offset)

        def size(window: Window) -> int:
            start = parts[window.start_ms]
            offsets = {key: start[key].offset if key in start else starts[key] for key in parts[window.end_ms]}
            return sum(each.offset - offsets[key] for key, each in parts[window.end_ms].items())

        ends = {each.end_ms: sum(part.offset for part in parts[each.end_ms].values()) for each in published}
        return cls([(each, size(each)) for each in published], ends, starts)

    def by(self, at_ms: int) -> Self | None:
        """What was loaded at a moment, Unix milliseconds; None if nothing was. Of a window that was loaded again, the
        log's state tells only when its newest rows were published."""
        windows = [each for each in self.windows if _published_ms(each[0]) <= at_ms]
        return type(self)(windows, self.ends, self.starts) if windows else None

    @property
    def end_ms(self) -> int:
        """Where the last window ends in time, Unix milliseconds."""
        return self.windows[-1][0].end_ms

    @property
    def upto(self) -> int:
        """The offset where it ends, summed over the partitions."""
        return self.ends[self.end_ms]

    def unloaded(self, part: Part, ends: Mapping[TopicPartition, int]) -> int:
        """How many offsets, from where counting starts to the ends of the logs, are in none of the windows."""
        size = sum(end - self.starts.get(key, part[key].log_start_offset) for key, end in ends.items())
        return max(0, size - sum(own for _, own in self.windows))


def _published_ms(window: Window) -> int:
    assert window.publication is not None, "only published windows are counted"
    return window.publication.published_ms


Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a snapshot says about the partitions in question.

    :param at_ms: its place in time.
    :param part: their boundaries; empty if the topic was added later.
    """

    at_ms: int
    snapshot: OffsetSnapshot
    part: Part

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Where the logs ended when it was resolved, as far as records were visible."""
        committed = self.snapshot.isolation_level is IsolationLevel.READ_COMMITTED
        return {key: each.last_stable_offset if committed else each.high_watermark for key, each in self.part.items()}


def timeline(ledger: Ledger, topic: str, partition: int | None, most: int) -> Json:
    """What the newest snapshots say about a topic, and the windows of their time. If the topic's log has begun anew,
    nothing of the old one.

    Offsets are sums over the topic's partitions; a partition that a snapshot doesn't have is missing from its sum.

    :param partition: only this partition; None for all.
    :param most: how many snapshots are read.
    :raises ConfigurationError: when none of them has the topic or the partition.
    :raises LedgerError: when a file can't be read or is damaged.
    """
    read = _read(ledger, _of_this_log(ledger.state, topic)[-most:], topic, partition)
    seen = [each for each in read if each.part]
    if not seen:
        what = topic if partition is None else f"{topic}-{partition}"
        raise ConfigurationError(f"No snapshot of {ledger.uri} has {what!r}.")
    first_ms, last_ms = read[0].at_ms, read[-1].at_ms
    crossing = ledger.state.crossing(first_ms, last_ms)
    windows = [each for each in crossing if first_ms <= each.start_ms and each.end_ms <= last_ms]
    parts = {each.at_ms: each.part for each in read}
    loaded = Loaded.of(windows, parts)
    facts = next(each.snapshot.topics[topic] for each in reversed(seen))
    return {
        "partition": partition,
        "partitions": facts.partition_count,
        "retention_ms": facts.retention_ms,
        "points": sorted((_point(each, loaded) for each in seen), key=lambda point: point["resolved_at_ms"]),
        "windows": _bands(windows, statuses(ledger, windows), parts),
    }


def _of_this_log(state: State, topic: str) -> list[Snapshotted]:
    """The snapshots since the topic's log last began anew: offsets of an older one are about other records."""
    began_ms = max((restart.at_ms for restart in state.restarts if topic in restart.topics), default=0)
    return [stored for at_ms, stored in state.snapshots.items() if at_ms >= began_ms]


def _read(ledger: Ledger, stored: Sequence[Snapshotted], topic: str, partition: int | None) -> list[_Seen]:
    def read(each: Snapshotted) -> _Seen:
        found = ledger.offsets_at(each.at_ms)
        part = {key: boundary for key, boundary in found.boundaries.items() if key.topic == topic}
        return _Seen(each.at_ms, found, {key: part[key] for key in part if partition in (None, key.partition)})

    return in_parallel(read, stored)


def _bands(windows: Iterable[Window], status: Mapping[str, WindowStatus], parts: Mapping[int, Part]) -> list[Json]:
    """The windows, as bands of the chart."""
    return [
        {
            "window": each.name,
            "state": status[each.name],
            "start_ms": each.start_ms,
            "end_ms": each.end_ms,
            "start_offset": _sum_at(parts[each.start_ms]),
            "end_offset": _sum_at(parts[each.end_ms]),
        }
        for each in windows
    ]


def _point(seen: _Seen, loaded: Loaded | None) -> Json:
    """What a snapshot says, and what the pipeline had loaded when it was resolved; unknown values are None."""
    at_ms, as_of = seen.snapshot.resolved_at_ms, seen.snapshot.as_of
    known = {
        "as_of": str(as_of),
        "as_of_instant": as_of.kind is AsOfKind.INSTANT,
        "at_ms": seen.at_ms,
        "resolved_at_ms": at_ms,
        "partitions": len(seen.part),
        "offset": _sum_at(seen.part),
        "log_start": _sum(each.log_start_offset for each in seen.part.values()),
        "log_end": _sum(seen.ends.values()),
    }
    by_then = None if loaded is None else loaded.by(at_ms)
    if by_then is None:
        return known | dict.fromkeys(("loaded", "unloaded", "behind_ms"))
    return known | {
        "loaded": str(by_then.upto),
        "unloaded": str(by_then.unloaded(seen.part, seen.ends)),
        "behind_ms": max(0, at_ms - by_then.end_ms),
    }


def _sum_at(part: Part | None) -> str:
    return _sum(each.offset for each in (part or {}).values())


def _sum(offsets: Iterable[int]) -> str:
    return str(sum(offsets))
