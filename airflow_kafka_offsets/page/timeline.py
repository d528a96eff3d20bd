"""A topic over time: for each snapshot, where its logs started and ended, what was loaded and what groups had committed
when it was resolved; and the windows of that time.

Offsets are text, like 64-bit integers in protobuf's JSON, because a browser's numbers are exact only up to 2^53.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, Boundary, OffsetSnapshot

Json = dict[str, Any]
_Boundaries = Mapping[TopicPartition, Boundary]
"""One snapshot's boundaries, for the partitions in question."""
_Parts = Mapping[int, _Boundaries]
"""The same for each snapshot, by its number."""
_MOST_TRIED = 100
"""How many windows, the newest first, are asked when they were published."""
_Covered = Callable[[_Boundaries], int | None]


def timeline(
    ledger: Ledger, summaries: Sequence[WindowSummary], topic: str, partition: int | None, most: int, of: int
) -> Json:
    """What the newest snapshots say about a topic, and the windows of their time.

    Offsets are sums over the topic's partitions; a partition that a snapshot doesn't have is missing from its sum.

    :param partition: only this partition; None for all.
    :param most: how many snapshots are read.
    :param of: the number of newest snapshots from which these are chosen, evenly spread. What was loaded when one was
        resolved is known only if all of them are read, because it depends on every window.
    :raises ConfigurationError: when none of them has the topic or the partition.
    :raises LedgerError: when a file can't be read or is damaged.
    """
    numbers = sorted(entry.number for entry in ledger.snapshots.entries())
    read = _spread(numbers[-of:], most)
    found = dict(zip(read, in_parallel(ledger.snapshots.read, read), strict=True))
    read_parts = {number: _part(each, topic, partition) for number, each in found.items()}
    parts = {number: part for number, part in read_parts.items() if part}
    if not parts:
        what = topic if partition is None else f"{topic}-{partition}"
        raise ConfigurationError(f"No snapshot of {ledger.uri} has {what!r}.")
    shown = _of_their_time(summaries, found)
    loaded = _loaded(ledger, shown, found, read_parts) if len(read) == len(numbers[-of:]) else None
    covered = _covered(found, parts)
    points = [
        _point(found[number], part, loaded)
        | ({} if found[number].as_of.group is None else _of_group(found[number], part, covered))
        for number, part in parts.items()
    ]
    most_partitions = max(map(len, parts.values()))  # a backfill's snapshot may lack partitions that were added later
    whole = (number for number, part in parts.items() if len(part) == most_partitions)
    last = max(whole, key=lambda number: found[number].resolved_at_ms)
    newest = max(found.values(), key=lambda snapshot: (topic in snapshot.topics, snapshot.resolved_at_ms))
    return {
        "partition": partition,
        "partitions": newest.topics[topic].partition_count,
        "retention_ms": newest.topics[topic].retention_ms,
        "spread_over": len(numbers[-of:]),
        "lag": _lag(ledger, summaries, found[last], parts[last]),
        "points": sorted(points, key=lambda point: point["resolved_at_ms"]),
        "windows": _bands(shown, parts),
    }


def _bands(shown: Sequence[WindowSummary], parts: _Parts) -> list[Json]:
    """The windows, as bands of the chart.

    Windows whose snapshots weren't read have no offsets. They are merged if they meet in time and are in the same
    state, because there may be a hundred thousand of them; ``window`` is then the name of the last.
    """
    bands: list[Json] = []
    for each in shown:
        start_offset, end_offset = _sum_at(parts.get(each.start_snapshot)), _sum_at(parts.get(each.end_snapshot))
        known = start_offset is not None and end_offset is not None
        band = {
            "window": each.window,
            "state": each.state,
            "start_ms": each.start_ms,
            "end_ms": each.end_ms,
            "start_offset": start_offset if known else None,
            "end_offset": end_offset if known else None,
            "windows": 1,
        }
        if bands and _goes_on(bands[-1], band):
            bands[-1] |= {"window": each.window, "end_ms": each.end_ms, "windows": bands[-1]["windows"] + 1}
        else:
            bands.append(band)
    return bands


def _goes_on(last: Json, band: Json) -> bool:
    unknown = last["start_offset"] is None and band["start_offset"] is None
    return unknown and (last["state"], last["end_ms"]) == (band["state"], band["start_ms"])


def _spread(numbers: Sequence[int], most: int) -> list[int]:
    """At most ``most`` numbers, evenly spread, including the first and the last."""
    if len(numbers) <= most:
        return list(numbers)
    steps = max(1, most - 1)
    return sorted({numbers[-1 - place * (len(numbers) - 1) // steps] for place in range(most)})


def _part(snapshot: OffsetSnapshot, topic: str, partition: int | None) -> _Boundaries:
    """A snapshot's boundaries of a topic, or of one of its partitions."""
    return {
        key: each
        for key, each in snapshot.boundaries.items()
        if key.topic == topic and partition in (None, key.partition)
    }


def _of_their_time(summaries: Iterable[WindowSummary], found: Mapping[int, OffsetSnapshot]) -> list[WindowSummary]:
    times = [snapshot.timestamp_ms for snapshot in found.values()]
    return [each for each in summaries if each.start_ms >= min(times) and each.end_ms <= max(times)]


def _sum_at(part: _Boundaries | None) -> str | None:
    return None if part is None else _sum(each.offset for each in part.values())


class _Loaded:
    """What was loaded, and when.

    :param windows: the published windows, each with the time at which it was first published, Unix milliseconds.
    :param numbers: the snapshots at the windows' starts and ends, in order of time.
    :param growth: how the logs grew over these snapshots.
    """

    def __init__(
        self, windows: Iterable[tuple[int, WindowSummary]], numbers: Sequence[int], growth: _Growth, parts: _Parts
    ) -> None:
        self._windows = sorted(windows, key=lambda each: each[0])
        self._places = {number: place for place, number in enumerate(numbers)}
        self._growth = growth
        self._parts = parts

    def by(self, at_ms: int) -> list[WindowSummary]:
        """The windows that were published at a time, Unix milliseconds."""
        return [each for since_ms, each in self._windows if since_ms <= at_ms]

    def end_of(self, window: WindowSummary) -> str | None:
        """The offset at which a window ends, summed over the partitions."""
        return _sum_at(self._parts[window.end_snapshot])

    def unloaded(self, windows: Iterable[WindowSummary], ends: Mapping[TopicPartition, int], part: _Boundaries) -> int:
        """How many offsets between the first window's start and ``ends`` are in none of these windows. The whole log of
        a partition counts that is in no window."""
        starts = self._growth.starts
        size = sum(end - starts.get(key, part[key].log_start_offset) for key, end in ends.items())
        loaded = {
            place
            for each in windows
            for place in range(self._places[each.start_snapshot], self._places[each.end_snapshot])
        }
        return max(0, size - sum(self._growth.sizes[place] for place in loaded))


@dataclass(frozen=True, slots=True)
class _Growth:
    """How logs grew over some snapshots.

    :param starts: where counting starts for each partition: its offset in the first snapshot, or its log start in the
        later snapshot in which it first appears.
    :param sizes: how many offsets there are from each snapshot to the next.
    """

    starts: Mapping[TopicPartition, int]
    sizes: Sequence[int]

    @classmethod
    def over(cls, parts: Sequence[_Boundaries]) -> _Growth | None:
        """Growth over snapshots in order of time. None if offsets run backwards, as they may if an instant was resolved
        again."""
        starts = {key: each.offset for key, each in parts[0].items()}
        ends, sizes = dict(starts), []
        for part in parts[1:]:
            for key, each in part.items():
                ends.setdefault(key, starts.setdefault(key, each.log_start_offset))
            grown = [each.offset - ends[key] for key, each in part.items()]
            if min(grown, default=0) < 0:
                return None
            sizes.append(sum(grown))
            ends |= {key: each.offset for key, each in part.items()}
        return cls(starts, sizes)


def _loaded(
    ledger: Ledger, shown: Iterable[WindowSummary], found: Mapping[int, OffsetSnapshot], parts: _Parts
) -> _Loaded | None:
    """What these windows loaded. None if none is published, or if the snapshots that were read don't tell. Counting
    starts with the first window, published or not."""
    windows = list(shown)
    published = [each for each in windows if each.attempt is not None]
    ends = {number for each in windows for number in (each.start_snapshot, each.end_snapshot)}
    if not published or ends - parts.keys():
        return None
    numbers = sorted(ends, key=lambda number: (found[number].timestamp_ms, number))
    growth = _Growth.over([parts[number] for number in numbers])
    if growth is None:
        return None

    since_ms = in_parallel(partial(_since_ms, ledger), published)
    return _Loaded(zip(since_ms, published, strict=True), numbers, growth, parts)


def _since_ms(ledger: Ledger, published: WindowSummary) -> int:
    """When a window was first published, Unix milliseconds."""
    publications = ledger.window_folders.folder(published.window, published.revision).publications.all()
    return min(each.published_ms for each in publications if each.end_snapshot == published.end_snapshot)


def _lag(
    ledger: Ledger, summaries: Iterable[WindowSummary], snapshot: OffsetSnapshot, part: _Boundaries
) -> Json | None:
    """How many offsets came after the last window that was published when a snapshot was resolved, and how long ago it
    ended. All of a partition counts that the window doesn't have. None if no window was published by then, or the last
    one isn't among the newest."""
    at_ms = snapshot.resolved_at_ms
    ended = [each for each in summaries if each.attempt is not None and each.end_ms <= at_ms]
    newest = sorted(ended, key=lambda each: each.end_ms, reverse=True)[:_MOST_TRIED]
    last = next((each for each in newest if _since_ms(ledger, each) <= at_ms), None)
    if last is None:
        return None
    loaded = ledger.snapshots.read(last.end_snapshot).boundaries
    starts = {key: loaded[key].offset if key in loaded else each.log_start_offset for key, each in part.items()}
    after = (max(0, _end(each, snapshot.isolation_level) - starts[key]) for key, each in part.items())
    return {"offsets": _sum(after), "behind_ms": at_ms - last.end_ms}


def _covered(found: Mapping[int, OffsetSnapshot], parts: _Parts) -> _Covered:
    """A function: the latest instant such that all records before it are before the given offsets, as far as these
    snapshots tell. It can search by bisection, because snapshots of instants never run backwards."""
    instants = [number for number in parts if found[number].as_of.kind is AsOfKind.INSTANT]
    numbers = sorted(instants, key=lambda number: found[number].timestamp_ms)

    def covered(offsets: _Boundaries) -> int | None:
        def is_before(number: int) -> bool:
            return all(key in offsets and each.offset <= offsets[key].offset for key, each in parts[number].items())

        place = bisect_left(numbers, True, key=lambda number: not is_before(number))
        return found[numbers[place - 1]].timestamp_ms if place else None

    return covered


def _point(snapshot: OffsetSnapshot, part: _Boundaries, loaded: _Loaded | None) -> Json:
    """What a snapshot says, and what the pipeline had loaded when it was resolved; unknown values are None."""
    ends = {key: _end(each, snapshot.isolation_level) for key, each in part.items()}
    at_ms = snapshot.resolved_at_ms
    known = {
        "as_of": str(snapshot.as_of),
        "group": snapshot.as_of.group,
        "as_of_instant": snapshot.as_of.kind is AsOfKind.INSTANT,
        "at_ms": snapshot.timestamp_ms,
        "resolved_at_ms": at_ms,
        "partitions": len(part),
        "offset": _sum(each.offset for each in part.values()),
        "log_start": _sum(each.log_start_offset for each in part.values()),
        "log_end": _sum(ends.values()),
    }
    windows = [] if loaded is None else loaded.by(at_ms)
    if loaded is None or not windows:
        return known | dict.fromkeys(("loaded", "unloaded", "behind_ms"))
    last = max(windows, key=lambda each: each.end_ms)
    return known | {
        "loaded": loaded.end_of(last),
        "unloaded": str(loaded.unloaded(windows, ends, part)),
        "behind_ms": max(0, at_ms - last.end_ms),
    }


def _of_group(snapshot: OffsetSnapshot, part: _Boundaries, covered: _Covered) -> Json:
    """What a group hadn't read yet, from a snapshot of its commits."""
    until_ms = covered(part)
    behind = [max(0, _end(each, snapshot.isolation_level) - each.offset) for each in part.values()]
    return {
        "group_unread": _sum(behind),
        "group_behind_ms": None if until_ms is None else max(0, snapshot.resolved_at_ms - until_ms),
    }


def _sum(offsets: Iterable[int]) -> str:
    return str(sum(offsets))


def _end(boundary: Boundary, isolation_level: IsolationLevel) -> int:
    committed = isolation_level is IsolationLevel.READ_COMMITTED
    return boundary.last_stable_offset if committed else boundary.high_watermark
