"""Pinning: windows on their way into the ledger, none of which may share offsets with another one.

There is no lock. A window is compared with those that are there, its manifest is created, and then it is compared with
those that came meanwhile: of two tasks that pin overlapping windows at one time, whoever looks last sees the other.
Who sees one takes its own pin back. What has passed is settled: its ``manifest.sha256`` is written. So at most one of
them is ever settled, and a manifest without its hash is looked at again by whoever pins that window next. Of two tasks
that pin one and the same window, one may settle it and the other one take it back: both create ``manifest.sha256``,
exclusively, and who comes second finds out.

Snapshots of the chain never run backwards, so windows between them that don't overlap in time share no offsets, and
needn't be read. A window that begins or ends at a group's commits or at a log start may reach anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from airflow_kafka_offsets.errors import InstantForgottenError, WindowOverlapError, shorten
from airflow_kafka_offsets.ledger.snapshot_log import SnapshotLog
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_folders import WindowFolders, taken_back
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent, window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import DataLossPolicy, window_between
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.tiling import ends_before, shared

_AT_A_TIME = 16


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
    shared: tuple[LogRange, ...]


class _Look:
    """Windows and snapshots, as one look at the ledger found them.

    :param folders: the ledger's windows.
    :param snapshots: its snapshots.
    """

    def __init__(self, folders: WindowFolders, snapshots: SnapshotLog) -> None:
        self._folders = folders
        self._index = folders.index()
        # After the windows: the snapshots of each one were stored before it.
        self._apart = snapshots.times_apart()
        self._unordered = [window for window in self._index.live if not self._in_order(window)]

    def overlap(self, manifest: Manifest) -> Overlap | None:
        """A window that shares offsets with another one; None when none does.

        :param manifest: the other one.
        """
        possible = self.possible(manifest.window)
        found = self._first_overlap(manifest, [window for window in possible if _end_ms(window) in self._apart])
        if found is not None:
            return found
        in_order = (window for window in possible if _end_ms(window) not in self._apart)
        latest_first = sorted(in_order, key=_end_ms, reverse=True)
        for first in range(0, len(latest_first), _AT_A_TIME):
            part = latest_first[first : first + _AT_A_TIME]
            found = self._first_overlap(manifest, part)
            # Ends in the chain never rise towards the past: what ended before these lies below as well.
            if found is not None or self._lies_behind(part[-1], manifest):
                return found
        return None

    def _first_overlap(self, manifest: Manifest, windows: Sequence[str]) -> Overlap | None:
        read = chain.from_iterable(in_parallel(self._counting, windows))
        return next(filter(None, (_overlap(manifest, folder, pinned) for folder, pinned in read)), None)

    def _lies_behind(self, window: str, manifest: Manifest) -> bool:
        return any(ends_before(pinned.manifest.ranges, manifest.ranges) for _, pinned in self._counting(window))

    def possible(self, window: str) -> list[str]:
        """The other windows of which the chain doesn't say that they share nothing with one."""
        crossing = self._index.crossing(*window_extent(window)) if self._in_order(window) else self._index.live
        return [
            other
            for other in dict.fromkeys([*self._unordered, *crossing])
            if other != window and not self._surely_before(other, window) and not self._surely_before(window, other)
        ]

    def _in_order(self, window: str) -> bool:
        return self._apart.isdisjoint(window_extent(window))

    def _surely_before(self, one: str, other: str) -> bool:
        """Whether the chain says that all offsets of one are below the other's."""
        end_ms, start_ms = window_extent(one)[1], window_extent(other)[0]
        return end_ms <= start_ms and self._apart.isdisjoint((end_ms, start_ms))

    def _counting(self, window: str) -> list[tuple[WindowFolder, PinnedManifest]]:
        found = self._folders.counting(window, self._index.live[window])
        return [(folder, pinned) for folder in found if (pinned := folder.pinned()) is not None]


def _end_ms(window: str) -> int:
    return window_extent(window)[1]


def _overlap(manifest: Manifest, folder: WindowFolder, pinned: PinnedManifest) -> Overlap | None:
    both = shared(manifest.ranges, pinned.manifest.ranges)
    if not both:
        return None
    return Overlap(folder.id, folder.listing().state, folder.loading(), pinned.settled, tuple(both))


OverlapPolicy = Literal["fail", "allow"]
"""What to do about a window that shares offsets with another one of its pipeline: refuse it, or pin it all the same."""

_PUBLISHED = (WindowState.PUBLISHED, WindowState.VERIFIED)


class Pinning:
    """Pins windows of one pipeline, one or a whole schedule of them: the ledger is listed once before and once after.

    :param pipeline: the pipeline's name.
    :param ledger_id: tells the ledger's identity, which manifests carry; a new ledger has none before its first
        snapshot.
    :param folders: its windows.
    :param snapshots: its snapshots.
    :param on_overlap: what to do about a window that shares offsets with another one.
    """

    def __init__(
        self,
        pipeline: str,
        ledger_id: Callable[[], str],
        folders: WindowFolders,
        snapshots: SnapshotLog,
        on_overlap: OverlapPolicy = "fail",
    ) -> None:
        self._pipeline = pipeline
        self._ledger_id = ledger_id
        self._folders = folders
        self._snapshots = snapshots
        self._on_overlap = on_overlap
        self._first_look: _Look | None = None
        self._unsettled: dict[tuple[str, int], str] = {}
        """Hashes of the manifests, which may be many and large."""

    def pin(
        self,
        start: OffsetSnapshot,
        end: OffsetSnapshot,
        *,
        on_data_loss: DataLossPolicy = "fail",
        added: dict[TopicPartition, int] | None = None,
    ) -> PinnedManifest:
        """Pin a window, or return it as it was pinned before. It counts once it is settled.

        :raises: as :meth:`Ledger.pin_window`.
        """
        folder, stored = self._folders.to_pin(window_id(start.timestamp_ms, end.timestamp_ms))
        if stored is not None:
            stored.of_ledger(self._ledger_id())
        if stored is None or not _made_from(stored, start, end):
            self._require_counting(start, end)
            window = window_between(start, end, on_data_loss=on_data_loss, added=added)
            manifest = Manifest.of(self._pipeline, self._ledger_id(), window)
            if stored is None or stored.manifest.ranges != manifest.ranges:
                self._refuse_overlap(manifest)
                pinned = folder.pin(manifest) if stored is None else stored
                # Made from a snapshot that was forgotten since: what is pinned now replaces it, if it differs.
                same = _made_from(pinned, start, end) or pinned.manifest.ranges == manifest.ranges
                stored = pinned if same else self._folders.pin_next(manifest)
        # Once more: whoever forgets a snapshot from here on finds the window that was made from it.
        self._require_counting(start, end)
        # One that was pinned before may be what a crash left.
        if not stored.settled:
            self._unsettled[stored.manifest.window, stored.manifest.revision] = stored.sha256
        return stored

    def settle(self) -> dict[str, WindowOverlapError]:
        """Look again, now that the windows can be seen, and settle those that share offsets with none.

        :returns: why the others were taken back, by their names.
        """
        refused = {}
        second_look = self._look() if self._unsettled and self._on_overlap == "fail" else None
        for key, sha256 in self._unsettled.items():
            folder = self._folders.revision(*key)
            overlap = None if second_look is None else _overlap_with(second_look, folder)
            if overlap is None:
                if not folder.settle(sha256):
                    refused[folder.id] = taken_back(folder)
            # One that another try has settled stands.
            elif self._folders.take_back(folder, f"shares offsets with {overlap.window}") or not folder.is_settled:
                refused[folder.id] = self._error(folder.id, overlap)
        self._unsettled.clear()
        return refused

    def _look(self) -> _Look:
        return _Look(self._folders, self._snapshots)

    def _refuse_overlap(self, manifest: Manifest) -> None:
        if self._on_overlap == "allow":
            return
        self._first_look = self._first_look or self._look()
        overlap = self._first_look.overlap(manifest)
        if overlap is not None:
            raise self._error(manifest.window, overlap)

    def _require_counting(self, *snapshots: OffsetSnapshot) -> None:
        forgotten = self._snapshots.forgotten(snapshots)
        if forgotten:
            raise InstantForgottenError(
                f"{forgotten[0].as_of} has been forgotten since it was resolved. Resolve it again."
            )

    def _error(self, window: str, overlap: Overlap) -> WindowOverlapError:
        offsets = sum(part.span for part in overlap.shared)
        return WindowOverlapError(
            f"Window {window} is not pinned: {offsets} of its offsets are in window {overlap.window} too, which is "
            f"{_state(overlap)} ({shorten(map(str, overlap.shared))}). Loaded by both, these records would "
            "be there twice. Load the schedule's own windows (airflow backfill create, or clear their "
            f"runs); or, {self._way(overlap)}; or give this one a pipeline of its own. on_overlap='allow' "
            "(--on-overlap allow) pins it anyway.",
            passes=not overlap.settled,
        )

    def _way(self, overlap: Overlap) -> str:
        if overlap.loading is not None:
            return (
                f"if {overlap.window} isn't wanted, end its load first, and then kafka-offsets "
                f"ledger forget {self._pipeline} {overlap.window} --force: what that load publishes once "
                "the window is forgotten won't count, though its rows may remain in a table"
            )
        force = " --force" if overlap.state in _PUBLISHED else ""
        return f"if {overlap.window} isn't wanted, kafka-offsets ledger forget {self._pipeline} {overlap.window}{force}"


def _overlap_with(look: _Look, folder: WindowFolder) -> Overlap | None:
    """A window that shares offsets with a pinned one. Windows that stand in a row have none in common: nothing is read
    of them."""
    pinned = folder.pinned() if look.possible(folder.id) else None
    return None if pinned is None else look.overlap(pinned.manifest)


def _state(overlap: Overlap) -> str:
    if overlap.loading is not None:
        return f"pinned, and may be loading at this moment: {overlap.loading}"
    if overlap.state in _PUBLISHED:
        return "published"
    return "pinned, not loaded" if overlap.settled else "being pinned"


def _made_from(pinned: PinnedManifest, start: OffsetSnapshot, end: OffsetSnapshot) -> bool:
    return pinned.manifest.snapshots == (start.number, end.number)
