"""Windows that stand: which of a ledger's windows might share offsets with one that is to be pinned.

Snapshots of the chain never run backwards, so windows between them that don't overlap in time share no offsets, and
needn't be read. A window that begins or ends at a group's commits or at a log start may reach anywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder, WindowState
from airflow_kafka_offsets.ledger.window_folders import WindowFolders
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.seams import SharedRange, ends_before, shared
from airflow_kafka_offsets.offsets.windows.window_names import window_extent

_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class Extent:
    """A window's place in time.

    :param window: its name.
    :param start_ms: its start, Unix milliseconds.
    :param end_ms: its end.
    :param start_chained: whether its start snapshot stands in the chain.
    :param end_chained: whether its end snapshot does.
    """

    window: str
    start_ms: int
    end_ms: int
    start_chained: bool = True
    end_chained: bool = True

    @property
    def chained(self) -> bool:
        """Whether both do."""
        return self.start_chained and self.end_chained

    def surely_before(self, other: Extent) -> bool:
        """Whether the chain says that all its offsets are below the other's."""
        return self.end_chained and other.start_chained and self.end_ms <= other.start_ms


@dataclass(frozen=True, slots=True)
class Overlap:
    """A window that shares offsets with another one.

    :param window: its name.
    :param state: how far it has come.
    :param loading: which attempt may be loading it, in words; None when none may.
    :param settled: False while a task is pinning it, or when one died doing so.
    :param shared: the offsets that both have.
    """

    window: str
    state: WindowState
    loading: str | None
    settled: bool
    shared: tuple[SharedRange, ...]


class StandingWindows:
    """Windows as one listing of the ledger found them.

    :param folders: the ledger's windows.
    :param live: their revisions that count, by name.
    :param unchained: times of the snapshots that don't stand in the chain, Unix milliseconds.
    """

    def __init__(
        self, folders: WindowFolders, live: Mapping[str, Sequence[int]], unchained: Collection[int] = ()
    ) -> None:
        self._folders = folders
        self._live = live
        extents = sorted((_extent(each, unchained) for each in live), key=lambda each: each.start_ms)
        self._chained = [each for each in extents if each.chained]
        self._others = [each for each in extents if not each.chained]
        # How far the chained ones up to each of them reach: so that going back in time can end.
        self._reach = list(accumulate((each.end_ms for each in self._chained), max))

    def overlap(self, manifest: Manifest, extent: Extent) -> Overlap | None:
        """A window that shares offsets with another one; None when none does.

        :param manifest: the other one's ranges.
        :param extent: and its place in time.
        """
        possible = [each for each in self._possible(extent) if each.window != manifest.window]
        found = self._first_overlap(manifest, [each for each in possible if not each.end_chained])
        if found is not None:
            return found
        latest_first = sorted((each for each in possible if each.end_chained), key=lambda each: -each.end_ms)
        for first in range(0, len(latest_first), _AT_A_TIME):
            part = latest_first[first : first + _AT_A_TIME]
            found = self._first_overlap(manifest, part)
            # Ends in the chain never rise towards the past: what ended before these lies below as well.
            if found is not None or self._lies_behind(part[-1], manifest):
                return found
        return None

    def _first_overlap(self, manifest: Manifest, extents: Sequence[Extent]) -> Overlap | None:
        read = chain.from_iterable(in_parallel(self._counting, extents))
        return next(filter(None, (_overlap(manifest, folder, pinned) for folder, pinned in read)), None)

    def _lies_behind(self, extent: Extent, manifest: Manifest) -> bool:
        return any(ends_before(each.manifest.ranges, manifest.ranges) for _, each in self._counting(extent))

    def _possible(self, extent: Extent) -> Iterable[Extent]:
        """The windows of which the chain doesn't say that they share nothing with one."""
        candidates = [*self._others, *(self._crossing(extent) if extent.chained else self._chained)]
        return [each for each in candidates if not each.surely_before(extent) and not extent.surely_before(each)]

    def _crossing(self, extent: Extent) -> Iterable[Extent]:
        place = bisect_left(self._chained, extent.end_ms, key=lambda each: each.start_ms)
        while place and self._reach[place - 1] > extent.start_ms:
            place -= 1
            yield self._chained[place]

    def _counting(self, extent: Extent) -> list[tuple[WindowFolder, PinnedManifest]]:
        found = self._folders.counting(extent.window, self._live[extent.window])
        return [(each, pinned) for each in found if (pinned := each.pinned()) is not None]


def _extent(window: str, unchained: Collection[int]) -> Extent:
    start_ms, end_ms = window_extent(window)
    return Extent(window, start_ms, end_ms, start_ms not in unchained, end_ms not in unchained)


def _overlap(manifest: Manifest, folder: WindowFolder, pinned: PinnedManifest) -> Overlap | None:
    both = shared(manifest.ranges, pinned.manifest.ranges)
    if not both:
        return None
    return Overlap(folder.id, folder.listing().state, folder.loading(), folder.is_settled, tuple(both))
