"""Pinning: stores windows in the ledger so that no two of them share offsets.

There is no lock. A window is compared with the existing ones, its manifest is created, and it is then compared with
those that were pinned meanwhile. If two tasks pin overlapping windows at the same time, the one that looks last sees
the other's. A task that sees an overlap takes its own pin back; otherwise it settles the window, by writing its
``manifest.sha256``. So at most one of the two is ever settled, and a manifest without its hash is checked again by the
next task that pins that window. If two tasks pin the same window, one may settle it while the other takes it back: both
create ``manifest.sha256`` exclusively, and the second one finds out.

Windows that are resolved again together are settled together, or not at all (:mod:`.settlement`): one alone would have
offsets of another.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import TypeVar

from airflow_kafka_offsets.errors import InstantForgottenError, WindowOverlapError, shorten
from airflow_kafka_offsets.ledger.forgetting import between_instants
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.overlaps import Look, Overlap
from airflow_kafka_offsets.ledger.settlement import Settlement
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_folders import taken_back
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy, OverlapPolicy
from airflow_kafka_offsets.offsets.windows.ranges import window_between
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot

T = TypeVar("T")

_WAITS_S = (0.2, 0.4, 0.8, 1.6, 3.2)
"""Longest waits, of which a task waits a random part, before it pins again a window that another task pinned too."""


_PUBLISHED = (WindowState.PUBLISHED, WindowState.VERIFIED)


class Pinning:
    """Pins one or many windows of a ledger, which it lists once before and once after.

    :param on_overlap: what to do about a window that shares offsets with another one, published or not: ``fail``, or
        ``allow``.
    :param revising: windows that it resolves again together.
    """

    def __init__(self, ledger: Ledger, on_overlap: OverlapPolicy, revising: Collection[str] = ()) -> None:
        self.revising = revising
        self._ledger = ledger
        self._folders = ledger.window_folders
        self._on_overlap = on_overlap
        self._first_look: Look | None = None
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
            manifest = self._manifest(start, end, on_data_loss, added)
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

    def check(
        self,
        start: OffsetSnapshot,
        end: OffsetSnapshot,
        *,
        on_data_loss: DataLossPolicy = "fail",
        added: dict[TopicPartition, int] | None = None,
    ) -> None:
        """Refuse a window as :meth:`pin` would, before its snapshots are stored.

        :raises: as :func:`pin_window`.
        """
        manifest = self._manifest(start, end, on_data_loss, added)
        _, stored = self._folders.to_pin(manifest.window)
        if stored is None or stored.manifest.ranges != manifest.ranges:
            self._refuse_overlap(manifest)

    def settle(self) -> dict[str, WindowOverlapError]:
        """Look again, now that other tasks can see the windows, and settle those that share offsets with no other.

        :returns: why the other windows were taken back, by name.
        """
        refused: dict[str, WindowOverlapError] = {}
        again = True
        while again:  # those beside one that was taken back were compared with that one, and not with what is behind it
            again = False
            for folder, _, overlap in self._look_again():
                if overlap is not None:
                    again = True
                    del self._unsettled[folder.id, folder.revision]
                    # If another try has settled it, it stays.
                    back = self._folders.take_back(folder, f"shares offsets with {overlap.window}")
                    if back or not folder.is_settled:
                        refused[folder.id] = self._error(folder.id, overlap)
        for key, sha256 in self._unsettled.items():
            folder = self._folders.folder(*key)
            if not folder.settlement.settle(sha256):
                refused[folder.id] = taken_back(folder)
        self._unsettled.clear()
        return refused

    def settle_together(self) -> None:
        """The same, but settle none of the windows if one is refused. They must be taken back then.

        :raises WindowOverlapError: when one is refused, or another task takes one back. A retry pins that one again.
        """
        seen = list(self._look_again())
        for folder, _, overlap in seen:
            if overlap is not None and not folder.is_settled:
                raise self._error(folder.id, overlap)
        if seen and not Settlement.settle_together([(folder.settlement, sha256) for folder, sha256, _ in seen]):
            raise taken_back(seen[0][0])

    def take_back(self, why: str) -> None:
        """Take back what isn't settled of the windows that it resolves again, also what an earlier try has left: or it
        would keep their instants from getting back the offsets that count."""
        for folder in chain.from_iterable(map(self._folders.live, self.revising)):
            if not folder.is_settled:
                self._folders.take_back(folder, why)

    def _look_again(self) -> Iterator[tuple[WindowFolder, str, Overlap | None]]:
        """The windows to settle, with their hashes, and windows that share offsets with them."""
        look = Look(self._ledger) if self._unsettled and self._on_overlap == "fail" else None
        for key, sha256 in list(self._unsettled.items()):
            folder = self._folders.folder(*key)
            yield folder, sha256, None if look is None else look.overlap_of(folder, self.revising, self._unsettled)

    def _manifest(
        self,
        start: OffsetSnapshot,
        end: OffsetSnapshot,
        on_data_loss: DataLossPolicy,
        added: dict[TopicPartition, int] | None,
    ) -> Manifest:
        window = window_between(start, end, on_data_loss=on_data_loss, added=added)
        return Manifest.of(self._ledger.pipeline, self._ledger.id, window)

    def _refuse_overlap(self, manifest: Manifest) -> None:
        if self._on_overlap == "allow":
            return
        self._first_look = self._first_look or Look(self._ledger)
        overlap = self._first_look.overlap(manifest, self.revising)
        if overlap is not None:
            raise self._error(manifest.window, overlap)

    def _require_live(self, *snapshots: OffsetSnapshot) -> None:
        forgotten = self._ledger.snapshots.forgotten(snapshots)
        if forgotten:
            raise InstantForgottenError(
                f"{forgotten[0].as_of} has been forgotten since it was resolved. Resolve it again."
            )

    def _error(self, window: str, overlap: Overlap) -> WindowOverlapError:
        both = (window, overlap.window)
        again = overlap.apart and len(between_instants(self._ledger, both)) == len(both)
        way = self._way_on(*both) if again else self._ways(overlap)
        return WindowOverlapError(
            f"Window {window} is not pinned: {_why(overlap)} {way} on_overlap='allow' (--on-overlap allow) pins it "
            "anyway.",
            passes=not overlap.settled,
        )

    def _way_on(self, *windows: str) -> str:
        known = [window for window in sorted(windows) if self._folders.live_numbers(window)]
        return (
            "An instant between the two was resolved again, for one of them alone. Resolve "
            f"{'both' if len(known) > 1 else 'the pinned one'} again: kafka-offsets ledger re-resolve "
            f"{self._ledger.pipeline} {' '.join(known)}."
        )

    def _ways(self, overlap: Overlap) -> str:
        return (
            "Load the schedule's own windows (airflow backfill create, or clear their runs); or, "
            f"{self._way(overlap)}; or use another pipeline name for this window."
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
    :raises WindowOverlapError: when another window has some of its offsets, or has offsets in another order than its
        time after an instant was resolved again, and ``on_overlap`` is ``fail``.
    :raises LedgerCorruptError: when the stored manifest was changed.
    :raises InstantForgottenError: when one of the snapshots was forgotten meanwhile.
    """

    def pin() -> PinnedManifest:
        pinning = Pinning(ledger, on_overlap)
        pinned = pinning.pin(start, end, on_data_loss=on_data_loss, added=added)
        refused = pinning.settle()
        if refused:
            raise refused[pinned.manifest.window]
        return pinned

    return _retried(pin)


def pin_together(
    ledger: Ledger, on_overlap: OverlapPolicy, revising: Collection[str], pin: Callable[[Pinning], T]
) -> T:
    """Resolve windows again together: all of them count afterwards; or, after any error, none.

    :param on_overlap: see :class:`Pinning`.
    :param revising: the windows.
    :param pin: pins them, and is called again after an overlap that may be gone by then.
    :returns: what ``pin`` returns.
    :raises: what ``pin`` raises; and WindowOverlapError, as :func:`pin_window`.
    """

    def pin_all() -> T:
        pinning = Pinning(ledger, on_overlap, revising)
        try:
            found = pin(pinning)
            pinning.settle_together()
        except BaseException:
            pinning.take_back("not all windows could be resolved again")
            raise
        return found

    return _retried(pin_all)


def _retried(pin: Callable[[], T]) -> T:
    """Pin, and pin again while overlapping windows are being pinned: if two tasks pinned at the same moment, each may
    have taken its pin back because of the other."""
    for wait_s in _WAITS_S:
        try:
            return pin()
        except WindowOverlapError as error:
            if not error.retriable:
                raise
        time.sleep(random.uniform(0, wait_s))
    return pin()


def _why(overlap: Overlap) -> str:
    if not overlap.shared:
        return (
            f"its offsets and those of window {overlap.window}, which is {_state(overlap)}, wouldn't be in the order "
            "of the two windows' times."
        )
    return (
        f"{sum(part.span for part in overlap.shared)} of its offsets are in window {overlap.window} too, which is "
        f"{_state(overlap)} ({shorten(map(str, overlap.shared))}). If both windows were loaded, these records would be "
        "there twice."
    )


def _state(overlap: Overlap) -> str:
    if overlap.loading is not None:
        return f"pinned, and may be loading at this moment: {overlap.loading}"
    if overlap.state in _PUBLISHED:
        return "published"
    return "pinned, not loaded" if overlap.settled else "being pinned"


def _made_from(pinned: PinnedManifest, start: OffsetSnapshot, end: OffsetSnapshot) -> bool:
    return pinned.manifest.snapshots == (start.number, end.number)
