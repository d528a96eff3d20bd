"""Pinning: stores windows in the ledger so that no two of them share offsets.

There is no lock. A window is compared with the existing ones, its manifest is created, and it is then compared with
those that were pinned meanwhile. If two tasks pin overlapping windows at the same time, the one that looks last sees
the other's. A task that sees an overlap takes its own pin back; otherwise it settles the window, by writing its
``manifest.sha256``. So at most one of the two is ever settled, and a manifest without its hash is checked again by the
next task that pins that window. If two tasks pin the same window, one may settle it while the other takes it back: both
create ``manifest.sha256`` exclusively, and the second one finds out.

Snapshots of the chain never run backwards, so windows between them that don't overlap in time share no offsets, and
needn't be read. A window that starts or ends at a group's commits or at log start offsets may reach anywhere.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from airflow_kafka_offsets.errors import InstantForgottenError, WindowOverlapError, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_folders import taken_back
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent, window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy, OverlapPolicy
from airflow_kafka_offsets.offsets.windows.ranges import window_between
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.tiling import ends_before, shared

_AT_A_TIME = 16
_WAITS_S = (0.2, 0.4, 0.8, 1.6, 3.2)
"""Longest waits, of which a task waits a random part, before it pins again a window that another task pinned too."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """A window that shares offsets with another one.

    :param window: its name.
    :param state: its state.
    :param loading: the attempt that may be loading it, in words; None when there is none.
    :param settled: False while a task is pinning it, or after a task died doing so.
    :param shared: the offsets that both windows have.
    """

    window: str
    state: WindowState
    loading: str | None
    settled: bool
    shared: tuple[LogRange, ...]


class _Look:
    """The windows and snapshots of one listing of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._folders = ledger.window_folders
        self._index = self._folders.index()
        # List snapshots after windows: each window's snapshots were stored before it.
        self._unchained = ledger.snapshots.unchained_times()
        self._unordered = [window for window in self._index.live if not self._in_order(window)]

    def overlap(self, manifest: Manifest) -> Overlap | None:
        """A window that shares offsets with a given one; None when there is none.

        :param manifest: the given window's manifest.
        """
        possible = self.possible(manifest.window)
        found = self._first_overlap(manifest, [window for window in possible if _end_ms(window) in self._unchained])
        if found is not None:
            return found
        in_order = (window for window in possible if _end_ms(window) not in self._unchained)
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

    def possible(self, window: str) -> list[str]:
        """The other windows that may share offsets with a given one, as far as the chain of snapshots tells."""
        crossing = self._index.crossing(*window_extent(window)) if self._in_order(window) else self._index.live
        return [
            other
            for other in dict.fromkeys([*self._unordered, *crossing])
            if other != window and not self._surely_before(other, window) and not self._surely_before(window, other)
        ]

    def _in_order(self, window: str) -> bool:
        return self._unchained.isdisjoint(window_extent(window))

    def _surely_before(self, one: str, other: str) -> bool:
        """Whether the chain guarantees that all offsets of one window are below the other's."""
        end_ms, start_ms = window_extent(one)[1], window_extent(other)[0]
        return end_ms <= start_ms and self._unchained.isdisjoint((end_ms, start_ms))

    def _current(self, window: str) -> list[tuple[WindowFolder, PinnedManifest]]:
        found = self._folders.current_of(window, self._index.live[window])
        return [(folder, pinned) for folder in found if (pinned := folder.pinned()) is not None]


def _end_ms(window: str) -> int:
    return window_extent(window)[1]


def _overlap(manifest: Manifest, folder: WindowFolder, pinned: PinnedManifest) -> Overlap | None:
    both = shared(manifest.ranges, pinned.manifest.ranges)
    if not both:
        return None
    return Overlap(folder.id, folder.listing().state, folder.loading(), pinned.settled, tuple(both))


_PUBLISHED = (WindowState.PUBLISHED, WindowState.VERIFIED)


class Pinning:
    """Pins one or many windows of a ledger, which it lists once before and once after.

    :param on_overlap: what to do about a window that shares offsets with another one, published or not: ``fail``, or
        ``allow``.
    """

    def __init__(self, ledger: Ledger, on_overlap: OverlapPolicy) -> None:
        self._ledger = ledger
        self._folders = ledger.window_folders
        self._on_overlap = on_overlap
        self._first_look: _Look | None = None
        self._unsettled: dict[tuple[str, int], str] = {}
        """Hashes by window and revision. The manifests themselves may be many and large."""

    def pin(
        self,
        start: OffsetSnapshot,
        end: OffsetSnapshot,
        *,
        on_data_loss: DataLossPolicy = "fail",
        added: dict[TopicPartition, int] | None = None,
    ) -> PinnedManifest:
        """Pin a window, or return it as it was pinned before. It counts when it is settled.

        :raises: as :func:`pin_window`.
        """
        folder, stored = self._folders.to_pin(window_id(start.timestamp_ms, end.timestamp_ms))
        if stored is not None:
            stored.of_ledger(self._ledger.id)
        if stored is None or not _made_from(stored, start, end):
            self._require_live(start, end)
            window = window_between(start, end, on_data_loss=on_data_loss, added=added)
            manifest = Manifest.of(self._ledger.pipeline, self._ledger.id, window)
            if stored is None or stored.manifest.ranges != manifest.ranges:
                self._refuse_overlap(manifest)
                pinned = folder.pin(manifest) if stored is None else stored
                if pinned is None:
                    raise taken_back(folder)
                # If it was made from a snapshot that was forgotten since, and differs, the new manifest replaces it.
                same = _made_from(pinned, start, end) or pinned.manifest.ranges == manifest.ranges
                stored = pinned if same else self._folders.pin_next(manifest)
        # Check again. A task that forgets a snapshot after this finds the window that was made from it.
        self._require_live(start, end)
        # A window that was pinned before may not be settled, after a crash.
        if not stored.settled:
            self._unsettled[stored.manifest.window, stored.manifest.revision] = stored.sha256
        return stored

    def settle(self) -> dict[str, WindowOverlapError]:
        """Look again, now that other tasks can see the windows, and settle those that share offsets with no other.

        :returns: why the other windows were taken back, by name.
        """
        refused = {}
        second_look = _Look(self._ledger) if self._unsettled and self._on_overlap == "fail" else None
        for key, sha256 in self._unsettled.items():
            folder = self._folders.folder(*key)
            overlap = None if second_look is None else _overlap_with(second_look, folder)
            if overlap is None:
                if not folder.settle(sha256):
                    refused[folder.id] = taken_back(folder)
            # If another try has settled it, it stays.
            elif self._folders.take_back(folder, f"shares offsets with {overlap.window}") or not folder.is_settled:
                refused[folder.id] = self._error(folder.id, overlap)
        self._unsettled.clear()
        return refused

    def _refuse_overlap(self, manifest: Manifest) -> None:
        if self._on_overlap == "allow":
            return
        self._first_look = self._first_look or _Look(self._ledger)
        overlap = self._first_look.overlap(manifest)
        if overlap is not None:
            raise self._error(manifest.window, overlap)

    def _require_live(self, *snapshots: OffsetSnapshot) -> None:
        forgotten = self._ledger.snapshots.forgotten(snapshots)
        if forgotten:
            raise InstantForgottenError(
                f"{forgotten[0].as_of} has been forgotten since it was resolved. Resolve it again."
            )

    def _error(self, window: str, overlap: Overlap) -> WindowOverlapError:
        offsets = sum(part.span for part in overlap.shared)
        return WindowOverlapError(
            f"Window {window} is not pinned: {offsets} of its offsets are in window {overlap.window} too, which is "
            f"{_state(overlap)} ({shorten(map(str, overlap.shared))}). If both windows were loaded, these records "
            "would be there twice. Load the schedule's own windows (airflow backfill create, or clear their "
            f"runs); or, {self._way(overlap)}; or use another pipeline name for this window. on_overlap='allow' "
            "(--on-overlap allow) pins it anyway.",
            passes=not overlap.settled,
        )

    def _way(self, overlap: Overlap) -> str:
        if overlap.loading is not None:
            return (
                f"if {overlap.window} isn't wanted, stop its load first, and then run kafka-offsets "
                f"ledger forget {self._ledger.pipeline} {overlap.window} --force: what that load publishes after "
                "the window is forgotten won't count, though its rows may remain in a table"
            )
        force = " --force" if overlap.state in _PUBLISHED else ""
        return (
            f"if {overlap.window} isn't wanted, run kafka-offsets ledger forget "
            f"{self._ledger.pipeline} {overlap.window}{force}"
        )


def pin_window(
    ledger: Ledger,
    start: OffsetSnapshot,
    end: OffsetSnapshot,
    *,
    on_data_loss: DataLossPolicy = "fail",
    added: dict[TopicPartition, int] | None = None,
    on_overlap: OverlapPolicy = "fail",
) -> PinnedManifest:
    """Pin the window between two stored snapshots, or return it as it was pinned before.

    :param on_data_loss: see :func:`.ranges.window_between`; a window that was pinned before stays as it is.
    :param on_overlap: see :class:`Pinning`.
    :raises IntervalError: when the end isn't after the start.
    :raises DataLossError: when records are deleted and ``on_data_loss`` is ``fail``.
    :raises WindowOverlapError: when another window has some of its offsets, and ``on_overlap`` is ``fail``.
    :raises LedgerCorruptError: when the stored manifest was changed.
    :raises InstantForgottenError: when one of the snapshots was forgotten meanwhile.
    """
    for wait_s in (*_WAITS_S, None):
        pinning = Pinning(ledger, on_overlap)
        try:
            pinned = pinning.pin(start, end, on_data_loss=on_data_loss, added=added)
            refused = pinning.settle()
            if refused:
                raise refused[pinned.manifest.window]
            break
        except WindowOverlapError as error:
            if wait_s is None or not error.retriable:
                raise
            # Two tasks pinned at the same moment, and each may have taken its pin back because of the other.
            time.sleep(random.uniform(0, wait_s))
    return pinned


def _overlap_with(look: _Look, folder: WindowFolder) -> Overlap | None:
    """A window that shares offsets with a pinned one; None when there is none. No manifest is read if the chain of
    snapshots rules that out."""
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
