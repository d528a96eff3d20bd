"""Windows at an instant: the windows whose time contains it, with their offsets; or why there is none.

A window between two instants has, on each partition, the offsets from the first record at or after its start to the
first one at or after its end. So a record whose timestamp is within the window's time is in it, or in a later window.
Other windows are named by the times at which Kafka was asked, and say nothing about their records' timestamps. Uses
only the ledger.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from airflow_kafka_offsets.errors import number_of, shorten
from airflow_kafka_offsets.ledger.holes import gaps_between
from airflow_kafka_offsets.ledger.key_partitions import KeyPartitions
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.summaries import WindowSummary, summary_of
from airflow_kafka_offsets.ledger.whereabouts import Whereabouts, place_of
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_folders import WindowIndex
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import revisions_of, window_extent
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, Evidence

_ENDS = {
    AsOfKind.INSTANT: "at the first record at or after its instant",
    AsOfKind.LATEST: "where the log ended when Kafka was asked",
    AsOfKind.INCREMENT: "where the log ended when Kafka was asked",
    AsOfKind.EARLIEST: "where the log started when Kafka was asked",
    AsOfKind.GROUP: "where a group had committed when Kafka was asked",
}
_LATE = (
    "Late records of that time are in later windows: those that were written after this window's end was resolved, and "
    "those that follow a record from that end or later in the log."
)
_UNTIMED = "The window's name says when Kafka was asked, not the times of its records: it starts {}, and ends {}."
_LOG_END = (AsOfKind.LATEST, AsOfKind.INCREMENT)
_OF_ADDED = (Evidence.NEW_PARTITION, Evidence.CHOSEN)
"""Evidence at the start of the first range of a topic or partition that was added."""

On = KeyPartitions | int | None
"""The partitions of a topic to look up: those that a key may be in, one number, or all."""


@dataclass(frozen=True, slots=True)
class WindowAt:
    """A window whose time contains an instant.

    :param place: where its rows are.
    :param summary: its summary.
    :param ranges: its ranges on the requested partitions; at least one.
    :param remarks: what isn't known about records of that time, in sentences.
    """

    place: Whereabouts
    summary: WindowSummary
    ranges: tuple[OffsetRange, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WindowsAt:
    """The windows whose time contains an instant.

    :param at_ms: the instant, Unix milliseconds.
    :param windows: the windows, in order of time; several if they overlap in time.
    :param nowhere: why there are none, in words; None when there is one.
    :param forgotten: windows that contained it but were forgotten; only looked up when there are no others.
    :param first: when there are no others, the first window of the topic or partition, if that was added after the
        instant: older records may be in it.
    """

    at_ms: int
    windows: tuple[WindowAt, ...]
    nowhere: str | None = None
    forgotten: tuple[str, ...] = field(default=())
    first: str | None = None


def find_at(ledger: Ledger, topic: str, at_ms: int, on: On = None) -> WindowsAt:
    """Look up windows by their time.

    :param topic: the topic; windows from before it was added don't have it.
    :param at_ms: the instant, Unix milliseconds.
    :param on: the partitions to look up.
    :raises LedgerError: when a file is damaged.
    """
    names = ledger.window_folders.names()
    index = WindowIndex(names)
    having = [_current(ledger, index, window) for window in index.crossing(at_ms, at_ms + 1)]
    read = zip(having, in_parallel(WindowFolder.pinned, having), strict=True)
    pinned = [(folder, found) for folder, found in read if found is not None]
    windows = tuple(filter(None, in_parallel(lambda each: _window_at(ledger, *each, topic, on), pinned)))
    if windows:
        return WindowsAt(at_ms, windows)
    first = _first_of_added(ledger, index, at_ms, topic, on)
    if pinned:
        which = f"isn't in {shorten(folder.id for folder, _ in pinned)}, which has that time"
        why = f"{_what(topic, on)} {which}: {_why_without(on, first)}"
    elif having:
        why = _without_manifest(folder.id for folder in having)
    else:
        why = _outside(ledger, index, topic, at_ms, on, first)
    forgotten = tuple(_forgotten_at(ledger, revisions_of(names).keys() - index.live.keys(), at_ms))
    reasons = [why, *(f"{each} had it, but was forgotten" for each in forgotten)]
    if first is None:
        return WindowsAt(at_ms, (), "; ".join(reasons), forgotten)
    return WindowsAt(at_ms, (), "; ".join([*reasons, first.older_records()]), forgotten, first.window)


def _current(ledger: Ledger, index: WindowIndex, window: str) -> WindowFolder:
    """The window's published revision; without one, the newest."""
    return ledger.window_folders.current_of(window, index.live[window])[0]


def _window_at(ledger: Ledger, folder: WindowFolder, pinned: PinnedManifest, topic: str, on: On) -> WindowAt | None:
    """The window with its ranges; None when it has none of the partitions."""
    ranges = _asked_for(pinned.manifest, topic, on)
    if not ranges:
        return None
    listing = folder.listing()
    place, summary = place_of(folder, listing.publication), summary_of(folder, pinned, listing)
    return WindowAt(place, summary, ranges, tuple(_remarks(ledger, pinned.manifest, ranges)))


def _asked_for(manifest: Manifest, topic: str, on: On) -> tuple[OffsetRange, ...]:
    """The window's ranges on the requested partitions. Partition counts never fall, so the window has the highest count
    of its time."""
    ranges = (each for each in manifest.ranges if each.topic == topic)
    if on is None:
        return tuple(ranges)
    if isinstance(on, int):
        partitions = {on}
    else:
        facts = manifest.topics.get(topic)
        partitions = set() if facts is None else on.partitions_up_to(facts.partition_count)
    return tuple(each for each in ranges if each.partition in partitions)


def _remarks(ledger: Ledger, manifest: Manifest, ranges: Sequence[OffsetRange]) -> Iterator[str]:
    if manifest.timed:
        yield _LATE
        clamped = [each for each in ranges if each.start_evidence is Evidence.CLAMPED]
        if clamped:
            yield (
                f"On {_named(clamped)}, a snapshot that was stored earlier determines where the window starts: records "
                "of that time may be in an earlier window."
            )
    else:
        kinds = [ledger.snapshots.read(number).as_of.kind for number in manifest.snapshots]
        yield _UNTIMED.format(*(_ENDS[kind] for kind in kinds))
        yield _what_untimed_has(*kinds)
    added = [each for each in ranges if each.start_evidence is Evidence.NEW_PARTITION]
    if added:
        yield f"On {_named(added)}, it is the first window, and starts at the log start: it has all older records too."
    chosen = [each for each in ranges if each.start_evidence is Evidence.CHOSEN]
    if chosen:
        yield (
            f"On {_named(chosen)}, it is the first window, and starts at the instant that was chosen for new topics: "
            "earlier records are in no window."
        )
    starting = [each for each in ranges if each.start_evidence is Evidence.LOG_START and each.start_offset]
    if starting:
        yield f"On {_named(starting)}, the log starts within the window: earlier records, if any, were deleted."
    lost = [each for each in ranges if each.lost_offsets]
    if lost:
        count = number_of(sum(each.lost_offsets for each in lost), "offset")
        yield f"On {_named(lost)}, the log had lost {count} of the window when it was pinned."


def _what_untimed_has(start: AsOfKind, end: AsOfKind) -> str:
    if end not in _LOG_END or start not in (*_LOG_END, AsOfKind.INSTANT):
        return "It may have records from before and after that time, and other windows may have some of that time."
    if start is AsOfKind.INSTANT:
        return "A record of that time that was written after Kafka was asked for the window's end is in a later window."
    return "Records written at that time are in it, as far as clocks agree and no transaction was open."


def _named(ranges: Iterable[OffsetRange]) -> str:
    return shorten(str(TopicPartition.of(each)) for each in ranges)


def _forgotten_at(ledger: Ledger, dead: Iterable[str], at_ms: int) -> Iterator[str]:
    """Windows at an instant that were forgotten entirely. A window that was only taken back never counted."""
    for window in sorted(dead):
        start_ms, end_ms = window_extent(window)
        if start_ms <= at_ms < end_ms and not all(
            folder.is_taken_back for folder in ledger.window_folders.made(window)
        ):
            yield window


@dataclass(frozen=True, slots=True)
class _FirstOfAdded:
    """The first window of a topic or partition that was added.

    :param window: its name.
    :param kind: what was added: ``topic`` or ``partition``.
    :param chosen: whether it starts at an instant that the user chose, and not at the log start offset.
    """

    window: str
    kind: str
    chosen: bool

    def older_records(self) -> str:
        """Where older records are, in words."""
        if not self.chosen:
            return (
                f"its first window, {self.window}, starts at the {self.kind}'s log start, so older records are in that "
                "window"
            )
        return (
            f"its first window, {self.window}, starts at the instant that was chosen for new topics: earlier records "
            "are in no window, and later ones are in that window"
        )


def _first_of_added(ledger: Ledger, index: WindowIndex, at_ms: int, topic: str, on: On) -> _FirstOfAdded | None:
    """The first window after an instant that has the topic or partition. None if that window isn't the first of all,
    because it continues where a forgotten window ended."""

    @cache
    def ranges(window: str) -> tuple[OffsetRange, ...] | None:
        pinned = _current(ledger, index, window).pinned()
        return None if pinned is None else _asked_for(pinned.manifest, topic, on)

    def has(count: int) -> bool:
        """Whether the last pinned of the first ``count`` windows has it. All windows after the first that has it do."""
        read = map(ranges, reversed(ordered[:count]))
        return bool(next((found for found in read if found is not None), None))

    later = list(index.starting_from(at_ms + 1))
    in_a_row = set(index.in_a_row(ledger.snapshots.unchained_times()))
    ordered = [window for window in later if window in in_a_row]
    place = bisect_left(range(len(ordered)), True, key=lambda place: has(place + 1))
    near = sorted([*ordered[place : place + 1], *(window for window in later if window not in in_a_row)])
    for window, found in zip(near, in_parallel(ranges, near), strict=True):
        if found and all(each.start_evidence in _OF_ADDED for each in found):
            chosen = any(each.start_evidence is Evidence.CHOSEN for each in found)
            return _FirstOfAdded(window, _kind(on), chosen)
    return None


def _kind(on: On) -> str:
    return "partition" if isinstance(on, int) else "topic"


def _what(topic: str, on: On) -> str:
    return str(TopicPartition(topic, on)) if isinstance(on, int) else topic


def _why_without(on: On, first: _FirstOfAdded | None) -> str:
    return "it was added later" + ("" if first else f", or no such {_kind(on)} exists")


def _without_manifest(windows: Iterable[str]) -> str:
    return (
        f"{shorten(windows)} has that time, but no manifest yet: its task is still pinning it, or was interrupted. Try "
        "again in a minute; if that doesn't help, clear the run"
    )


def _outside(ledger: Ledger, index: WindowIndex, topic: str, at_ms: int, on: On, first: _FirstOfAdded | None) -> str:
    """Why no window has an instant, in words."""
    # The last pinned window before the instant, and the first one after it.
    earlier = _first_pinned(ledger, index, index.ending_by(at_ms))
    later = _first_pinned(ledger, index, index.starting_from(at_ms + 1))
    if later is None:
        if earlier is None:
            return "there is no window yet"
        return f"no window has that time: the last one, {earlier.window}, ends at {iso_instant(earlier.end_ms)}"
    if earlier is None:
        where = f"the first one, {later.window}, starts at {iso_instant(later.start_ms)}"
    else:
        where = (
            f"{earlier.window} ends at {iso_instant(earlier.end_ms)}, the next one, {later.window}, starts at "
            f"{iso_instant(later.start_ms)},"
        )
    asked = _asked_for(later, topic, on)
    if not asked:
        has = "doesn't have" if earlier is None else "neither has"
        return f"no window has that time: {where} and {has} {_what(topic, on)}: {_why_without(on, first)}"
    if earlier is not None:
        where += f" and {_between_windows(ledger, earlier, later, asked, topic if on is None else _named(asked))}"
    return f"no window has that time: {where}; {_what_later_has(ledger, later)}"


def _first_pinned(ledger: Ledger, index: WindowIndex, windows: Iterable[str]) -> Manifest | None:
    found = (_current(ledger, index, window).pinned() for window in windows)
    return next((pinned.manifest for pinned in found if pinned is not None), None)


def _between_windows(
    ledger: Ledger, earlier: Manifest, later: Manifest, asked: Iterable[OffsetRange], what: str
) -> str:
    """How many offsets lie between two windows, in words.

    :param asked: the later window's ranges on the requested partitions.
    :param what: those partitions, in words.
    """
    partitions = set(map(TopicPartition.of, asked))
    # Compare all ranges, not only these: if the earlier window has the topic without them, they were added since.
    gaps = [gap for gap in gaps_between(ledger, earlier, later) if TopicPartition.of(gap) in partitions]
    count = sum(gap.size for gap in gaps)
    return f"{number_of(count, 'offset')} of {what} {'lies' if count == 1 else 'lie'} between them"


def _what_later_has(ledger: Ledger, later: Manifest) -> str:
    """Which later windows may have records of an earlier time, in words."""
    kind = ledger.snapshots.read(later.start_snapshot).as_of.kind
    if kind is AsOfKind.INSTANT:
        return "late records of that time are in later windows"
    return f"the next window starts {_ENDS[kind]}, so records of that time may be in it"
