"""Windows at an instant: which ones have a time, with the offsets that they have, and why none has it.

A window between two instants has, of each partition, the offsets from the first record at or after its start to the
first one at or after its end. So a record of a time within it is in it, or in a later one. Other windows are named by
the times at which Kafka was asked for their ends, and say nothing of their records' times. Asked of the ledger alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from airflow_kafka_offsets.errors import number_of, shorten
from airflow_kafka_offsets.ledger.key_partitions import KeyPartitions
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.question import Question
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.summaries import WindowSummary, summary_of
from airflow_kafka_offsets.ledger.whereabouts import Whereabouts, counting_folders, place_of, require_topic
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import live_revisions, revisions_of, window_extent
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, Evidence
from airflow_kafka_offsets.offsets.windows.tiling import seams

_ENDS = {
    AsOfKind.INSTANT: "at the first record at or after its instant",
    AsOfKind.LATEST: "where the log ended when Kafka was asked",
    AsOfKind.INCREMENT: "where the log ended when Kafka was asked",
    AsOfKind.EARLIEST: "where the log started when Kafka was asked",
    AsOfKind.GROUP: "where a group had committed when Kafka was asked",
}
_LATE = (
    "Late records of that time are in later windows: those that were written after this window's end was resolved, and "
    "those that stand in the log behind a record from that end or later."
)
_UNTIMED = "The window's name says when Kafka was asked, not what times its records have: it starts {}, and ends {}."
_LOG_END = (AsOfKind.LATEST, AsOfKind.INCREMENT)

Covers = Callable[[OffsetRange], bool]
"""Whether a range is one of those that are asked for."""


@dataclass(frozen=True, slots=True)
class WindowAt:
    """A window that has an instant.

    :param place: where its rows are.
    :param summary: what it has come to.
    :param ranges: its offsets on the partitions that are asked for; at least one.
    :param remarks: what isn't known of records of that time, in sentences.
    """

    place: Whereabouts
    summary: WindowSummary
    ranges: tuple[OffsetRange, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WindowsAt:
    """The windows that have an instant.

    :param windows: they, in order of time; several where some overlap in time.
    :param nowhere: why there are none, in words; None where there is one.
    :param forgotten: windows that had it and were forgotten; asked for where there are no others.
    """

    windows: tuple[WindowAt, ...]
    nowhere: str | None = None
    forgotten: tuple[str, ...] = field(default=())


def find_at(ledger: Ledger, question: Question, key: KeyPartitions | None = None) -> WindowsAt:
    """Look windows up by their time.

    :param question: of a time.
    :param key: where the question's key may be; None where it asks for none.
    :raises ConfigurationError: when no window is found, and the newest one doesn't have the topic.
    :raises LedgerError: when a file isn't what it should be.
    """
    assert question.at_ms is not None, "the question is of a time"
    names = ledger.window_folders.names()
    folders = counting_folders(ledger, names)
    having = [folder for folder in folders if _has(folder.id, question.at_ms)]
    found = in_parallel(lambda folder: _window_at(ledger, folder, question, key), having)
    windows = tuple(window for window in found if window is not None)
    if windows:
        return WindowsAt(windows)
    require_topic(ledger, question.topic)
    forgotten = tuple(_forgotten_at(ledger, names, question.at_ms))
    reasons = [
        _why_nowhere(ledger, folders, question, key),
        *(f"{each} had it, and was forgotten" for each in forgotten),
    ]
    return WindowsAt((), "; ".join(reasons), forgotten)


def _has(window: str, at_ms: int) -> bool:
    start_ms, end_ms = window_extent(window)
    return start_ms <= at_ms < end_ms


def _window_at(ledger: Ledger, folder: WindowFolder, question: Question, key: KeyPartitions | None) -> WindowAt | None:
    """None where it isn't pinned, or has none of the partitions."""
    pinned = folder.pinned()
    if pinned is None:
        return None
    covers = _covers(pinned.manifest, question, key)
    ranges = tuple(filter(covers, pinned.manifest.ranges))
    if not ranges:
        return None
    return WindowAt(
        place_of(folder), _summary(folder, pinned), ranges, tuple(_remarks(ledger, pinned.manifest, ranges))
    )


def _summary(folder: WindowFolder, pinned: PinnedManifest) -> WindowSummary:
    return summary_of(folder, pinned, folder.listing(), folder.publication())


def _covers(manifest: Manifest, question: Question, key: KeyPartitions | None) -> Covers:
    """A window knows how many partitions there were at most in its time, as they never get fewer."""
    facts = manifest.topics.get(question.topic)
    of_key = None if key is None or facts is None else key.with_at_most(facts.partition_count)

    def covers(pinned: OffsetRange) -> bool:
        if pinned.topic != question.topic:
            return False
        return question.partition in (None, pinned.partition) and (of_key is None or pinned.partition in of_key)

    return covers


def _remarks(ledger: Ledger, manifest: Manifest, ranges: Sequence[OffsetRange]) -> Iterator[str]:
    if manifest.timed:
        yield _LATE
        clamped = [pinned for pinned in ranges if pinned.start_evidence is Evidence.CLAMPED]
        if clamped:
            yield (
                f"On {_named(clamped)}, a snapshot that was stored earlier decides where the window starts: records of "
                "that time may be in an earlier window."
            )
    else:
        kinds = [ledger.snapshots.read(number).as_of.kind for number in manifest.snapshots]
        yield _UNTIMED.format(*(_ENDS[kind] for kind in kinds))
        yield _what_untimed_has(*kinds)
    starting = [pinned for pinned in ranges if pinned.start_evidence is Evidence.LOG_START and pinned.start_offset]
    if starting:
        yield f"On {_named(starting)}, the log starts within the window: what it had before, if anything, is gone."
    lost = [pinned for pinned in ranges if pinned.lost_offsets]
    if lost:
        count = number_of(sum(pinned.lost_offsets for pinned in lost), "offset")
        yield f"On {_named(lost)}, {count} of the window were gone when it was pinned."


def _what_untimed_has(start: AsOfKind, end: AsOfKind) -> str:
    if end not in _LOG_END or start not in (*_LOG_END, AsOfKind.INSTANT):
        return "Records from before and after that time may be in it, and some from then in other windows."
    if start is AsOfKind.INSTANT:
        return "A record of that time that was written after its end was asked for is in a later window."
    return "What was written at that time is in it, as far as clocks agree and no transaction was open."


def _named(ranges: Iterable[OffsetRange]) -> str:
    return shorten(str(TopicPartition.of(pinned)) for pinned in ranges)


def _forgotten_at(ledger: Ledger, names: Sequence[str], at_ms: int) -> Iterator[str]:
    """Windows of which no revision counts any more. One that was taken back never counted."""
    live = live_revisions(names)
    for window, numbers in sorted(revisions_of(names).items()):
        folders = (ledger.window_folders.revision(window, number) for number in numbers)
        if window not in live and _has(window, at_ms) and not all(folder.is_taken_back for folder in folders):
            yield window


def _why_nowhere(ledger: Ledger, folders: Sequence[WindowFolder], question: Question, key: KeyPartitions | None) -> str:
    at_ms = question.at_ms
    assert at_ms is not None
    having = [folder for folder in folders if _has(folder.id, at_ms)]
    pinned = [folder.id for folder in having if folder.is_pinned]
    if pinned:
        what = question.topic if question.partition is None else f"{question.topic}-{question.partition}"
        return f"{shorten(pinned)} has that time, and not {what}: that was added later, or isn't there"
    if having:
        return f"{having[0].id} has that time, but isn't pinned: its task is pinning it, or was interrupted"
    earlier, later = _neighbours(folders, at_ms)
    if earlier is None and later is None:
        return "there is no window yet"
    if later is None:
        assert earlier is not None
        return f"no window has that time: the last one, {earlier.window}, ends at {iso_instant(earlier.end_ms)}"
    starts = f"{later.window}, starts at {iso_instant(later.start_ms)}"
    if earlier is None:
        why = f"no window has that time: the first one, {starts}"
    else:
        left_out = _left_out(ledger, earlier, later, question, key)
        why = (
            f"no window has that time: one ends before it, {earlier.window}, at {iso_instant(earlier.end_ms)}, and the "
            f"next one, {starts}, with {number_of(left_out, 'offset')} of {question.topic} between them"
        )
    return f"{why}; {_what_later_has(ledger, later)}"


def _neighbours(folders: Sequence[WindowFolder], at_ms: int) -> tuple[Manifest | None, Manifest | None]:
    """The pinned window that ends last before an instant, and the one that starts first after it."""
    extents = {folder: window_extent(folder.id) for folder in folders}
    before = (folder for folder in folders if extents[folder][1] <= at_ms)
    by_end = sorted(before, key=lambda folder: extents[folder][1], reverse=True)
    after = (folder for folder in folders if extents[folder][0] > at_ms)
    pinned = (next(filter(None, (folder.pinned() for folder in some)), None) for some in (by_end, after))
    earlier, later = (None if found is None else found.manifest for found in pinned)
    return earlier, later


def _left_out(ledger: Ledger, earlier: Manifest, later: Manifest, question: Question, key: KeyPartitions | None) -> int:
    covers = _covers(later, question, key)
    beginning = ledger.snapshots.log_starts(later.start_snapshot)
    found = seams([tuple(filter(covers, each.ranges)) for each in (earlier, later)], beginning)
    return sum(seam.size for seam in found if seam.is_gap)


def _what_later_has(ledger: Ledger, later: Manifest) -> str:
    """What the next window may have of an earlier time."""
    kind = ledger.snapshots.read(later.start_snapshot).as_of.kind
    if kind is AsOfKind.INSTANT:
        return "late records of that time are in later windows"
    return f"the next one starts {_ENDS[kind]}, so that records of that time may be in it"
