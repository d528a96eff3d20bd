"""Overlaps: which windows of a ledger share offsets with a given one, read from as few manifests as possible.

Snapshots of the chain never run backwards, so windows between them that don't overlap in time share no offsets, and
needn't be read. There are two exceptions. A window that starts or ends at a group's commits or at log start offsets may
reach anywhere. And a window that starts or ends at a time with several snapshots, such as an instant which was
forgotten and resolved again, may be made from another one than those beside it. No two of these may have offsets in
another order than their times: so the nearest window with offsets of a partition tells where all those behind it lie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.snapshot_index import FORGET, unchained_times
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.tiling import ends_before, shared

_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class Overlap:
    """A window that shares offsets with another one.

    :param window: its name.
    :param state: its state.
    :param loading: the attempt that may be loading it, in words; None when there is none.
    :param settled: False while a task is pinning it, or its next revision, or after a task died doing so.
    :param shared: the offsets that both windows have; empty when they are only out of order.
    :param apart: whether they don't overlap in time: they were made from different snapshots of a time between them.
    """

    window: str
    state: WindowState
    loading: str | None
    settled: bool
    shared: tuple[LogRange, ...]
    apart: bool = False


class Look:
    """The windows and snapshots of one listing of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._folders = ledger.window_folders
        self._index = self._folders.index()
        # List snapshots after windows: each window's snapshots were stored before it.
        marked = ledger.snapshots.marked()
        self._unchained = unchained_times(marked)
        stored = Counter(entry.timestamp_ms for entry in marked if entry.kind != FORGET)
        # An instant that was forgotten, or is the very time of an increment.
        self._ambiguous = {entry.timestamp_ms for entry in marked if entry.kind == FORGET}
        self._ambiguous |= {time_ms for time_ms, count in stored.items() if count > 1}
        self._unordered = [window for window in self._index.live if not self._in_order(window)]

    def overlap(self, manifest: Manifest, revising: Collection[str] = ()) -> Overlap | None:
        """A window that shares offsets with a given one; None when there is none.

        :param manifest: the given window's manifest.
        :param revising: windows that are being resolved again together with it: their old boundaries aren't compared.
        """
        return self._overlap_in_time(manifest) or self._overlap_beside(manifest, dict.fromkeys(revising, 0))

    def overlap_of(
        self, folder: WindowFolder, revised: Collection[str] = (), ours: Collection[tuple[str, int]] = ()
    ) -> Overlap | None:
        """A window that shares offsets with a pinned one; None when there is none. No manifest is read if the chain of
        snapshots rules that out.

        :param revised: windows that were pinned again together with it: only their newest revisions are compared.
        :param ours: revisions that are settled if no overlap is found of any of them, by window and number.
        """
        possible = self._possible(folder.id) or any(chain.from_iterable(self._beside(folder.id)))
        pinned = folder.pinned() if possible else None
        if pinned is None:
            return None
        manifest = pinned.manifest
        return self._overlap_in_time(manifest) or self._overlap_beside(manifest, dict.fromkeys(revised, 1), ours)

    def _overlap_in_time(self, manifest: Manifest) -> Overlap | None:
        possible = self._possible(manifest.window)
        # Windows that end together, at a time with several snapshots, may end at several offsets.
        anywhere = self._unchained | self._ambiguous
        found = self._first_overlap(manifest, [window for window in possible if _end_ms(window) in anywhere])
        if found is not None:
            return found
        in_order = (window for window in possible if _end_ms(window) not in anywhere)
        latest_first = sorted(in_order, key=_end_ms, reverse=True)
        for first in range(0, len(latest_first), _AT_A_TIME):
            part = latest_first[first : first + _AT_A_TIME]
            found = self._first_overlap(manifest, part)
            # Going back in time, ends in the chain never rise: windows that ended earlier are below as well.
            if found is not None or self._lies_behind(part[-1], manifest):
                return found
        return None

    def _first_overlap(self, manifest: Manifest, windows: Sequence[str]) -> Overlap | None:
        read = chain.from_iterable(in_parallel(self._current, windows))
        return next(filter(None, (_overlap(manifest, folder, pinned) for folder, pinned in read)), None)

    def _lies_behind(self, window: str, manifest: Manifest) -> bool:
        return any(ends_before(pinned.manifest.ranges, manifest.ranges) for _, pinned in self._current(window))

    def _possible(self, window: str) -> list[str]:
        """The other windows that may share offsets with a given one, as far as the chain of snapshots tells, but for
        those beside it."""
        crossing = self._index.crossing(*window_extent(window)) if self._in_order(window) else self._index.live
        return [
            other
            for other in dict.fromkeys([*self._unordered, *crossing])
            if other != window and not self._surely_before(other, window) and not self._surely_before(window, other)
        ]

    def _overlap_beside(
        self, manifest: Manifest, most: Mapping[str, int], ours: Collection[tuple[str, int]] = ()
    ) -> Overlap | None:
        """A window beside a given one that shares offsets with it, or has offsets in another order than the times of
        the two: those behind such a one couldn't be told from its offsets.

        :param most: how many revisions are compared at most, newest first, of some of the windows.
        :param ours: see :meth:`overlap_of`.
        """
        for windows, in_order in zip(self._beside(manifest.window), (_comes_before, _comes_after), strict=True):
            alone = _partitions_with_offsets(manifest)  # where no window between them and those behind is known
            for window in windows:
                if not alone:
                    break
                standing = list(islice(self._standing(window), most.get(window)))
                for folder, pinned in standing:
                    if not in_order(manifest, pinned.manifest):
                        return replace(_compared(manifest, folder, pinned), apart=True)
                # One that somebody else may take back hides nothing.
                for _, newest in standing[:1]:
                    if newest.settled or (window, newest.manifest.revision) in ours:
                        alone -= _partitions_with_offsets(newest.manifest)
        return None

    def _standing(self, window: str) -> Iterator[tuple[WindowFolder, PinnedManifest]]:
        """The newest revision of a window. Until it is settled it may be taken back, so what the window had before
        follows, also as not settled, back to the newest that is. What it had before that goes away once that is
        loaded."""
        being_pinned = False
        for number in reversed(self._index.live[window]):
            folder = self._folders.folder(window, number)
            pinned = folder.pinned()
            if pinned is not None:
                being_pinned = being_pinned or not pinned.settled
                yield folder, replace(pinned, settled=not being_pinned)
                if pinned.settled:
                    return

    def _beside(self, window: str) -> tuple[Iterator[str], Iterator[str]]:
        """The windows after a given one and those before it, nearest first, that may be made from other snapshots than
        their neighbours: they start or end at times with several."""
        start_ms, end_ms = window_extent(window)
        extents, ambiguous = self._index.extents, self._ambiguous - self._unchained
        later = (other for other in self._index.starting_from(end_ms) if extents[other][0] in ambiguous)
        earlier = (other for other in self._index.ending_by(start_ms) if extents[other][1] in ambiguous)
        # A window that reaches anywhere at one end is compared with all others at that end.
        return iter(() if end_ms in self._unchained else later), iter(() if start_ms in self._unchained else earlier)

    def _in_order(self, window: str) -> bool:
        return self._unchained.isdisjoint(window_extent(window))

    def _surely_before(self, one: str, other: str) -> bool:
        """Whether the chain guarantees that all offsets of one window are below the other's, if both were made from its
        snapshots as they are now."""
        end_ms, start_ms = window_extent(one)[1], window_extent(other)[0]
        return end_ms <= start_ms and self._unchained.isdisjoint((end_ms, start_ms))

    def _current(self, window: str) -> list[tuple[WindowFolder, PinnedManifest]]:
        *published, _ = self._folders.current_of(window, self._index.live[window])
        found = [(folder, pinned) for folder in published if (pinned := folder.pinned()) is not None]
        return [*self._standing(window), *found]


def _end_ms(window: str) -> int:
    return window_extent(window)[1]


def _overlap(manifest: Manifest, folder: WindowFolder, pinned: PinnedManifest) -> Overlap | None:
    return _compared(manifest, folder, pinned) if shared(manifest.ranges, pinned.manifest.ranges) else None


def _compared(manifest: Manifest, folder: WindowFolder, pinned: PinnedManifest) -> Overlap:
    both = tuple(shared(manifest.ranges, pinned.manifest.ranges))
    return Overlap(folder.id, folder.listing().state, folder.loading(), pinned.settled, both)


def _comes_before(manifest: Manifest, other: Manifest) -> bool:
    """Whether all offsets of a window are below the other's."""
    return ends_before(_with_offsets(manifest), _with_offsets(other))


def _comes_after(manifest: Manifest, other: Manifest) -> bool:
    return _comes_before(other, manifest)


def _partitions_with_offsets(manifest: Manifest) -> set[TopicPartition]:
    return set(map(TopicPartition.of, _with_offsets(manifest)))


def _with_offsets(manifest: Manifest) -> list[OffsetRange]:
    return [each for each in manifest.ranges if each.window_start < each.end_offset]
