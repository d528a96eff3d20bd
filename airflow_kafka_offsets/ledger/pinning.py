"""Pinning: windows on their way into the ledger, none of which may share offsets with another one.

There is no lock. A window is compared with those that stand, its manifest is created, and then it is compared with
those that came meanwhile: of two tasks that pin overlapping windows at one time, whoever looks last sees the other.
Who sees one takes its own pin back. What has passed is settled: its ``manifest.sha256`` is written. So at most one of
them is ever settled, and a manifest without its hash is looked at again by whoever pins that window next. Of two tasks
that pin one and the same window, one may settle it and the other one take it back: both create ``manifest.sha256``,
exclusively, and who comes second finds out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from airflow_kafka_offsets.errors import InstantForgottenError, WindowOverlapError, shorten
from airflow_kafka_offsets.ledger.overlaps import Extent, Overlap, StandingWindows
from airflow_kafka_offsets.ledger.snapshot_log import SnapshotLog
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowState
from airflow_kafka_offsets.ledger.window_folders import WindowFolders, taken_back
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import DataLossPolicy, window_between
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.window_names import live_revisions, window_id

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
        self._standing: StandingWindows | None = None
        self._unsettled: dict[tuple[str, int], Extent] = {}

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
        folder = self._folders.to_pin(window_id(start.timestamp_ms, end.timestamp_ms))
        stored = folder.pinned()
        if stored is not None:
            stored.of_ledger(self._ledger_id())
        if stored is None or not _made_from(stored, start, end):
            self._require_counting(start, end)
            window = window_between(start, end, on_data_loss=on_data_loss, added=added)
            manifest = Manifest.of(self._pipeline, self._ledger_id(), window)
            if stored is None or stored.manifest.ranges != manifest.ranges:
                self._refuse_overlap(manifest, _extent(start, end))
                pinned = folder.pin(manifest) if stored is None else stored
                # Made from a snapshot that was forgotten since: what is pinned now replaces it, if it differs.
                same = _made_from(pinned, start, end) or pinned.manifest.ranges == manifest.ranges
                stored = pinned if same else self._folders.pin_next(manifest)
        self._require_counting(start, end)
        key = stored.manifest.window, stored.manifest.revision
        # One that was pinned before may be what a crash left.
        if not self._folders.revision(*key).is_settled:
            self._unsettled[key] = _extent(start, end)
        return stored

    def settle(self) -> dict[str, WindowOverlapError]:
        """Look again, now that the windows can be seen, and settle those that share offsets with none.

        :returns: why the others were taken back, by their names.
        """
        refused = {}
        standing = self._stand() if self._unsettled and self._on_overlap == "fail" else None
        for key, extent in self._unsettled.items():
            folder = self._folders.revision(*key)
            pinned = folder.pinned()
            overlap = None if standing is None or pinned is None else standing.overlap(pinned.manifest, extent)
            if overlap is None:
                if not folder.settle():
                    refused[folder.id] = taken_back(folder)
            # One that another try has settled stands.
            elif self._folders.take_back(folder, f"shares offsets with {overlap.window}") or not folder.is_settled:
                refused[folder.id] = self._error(folder.id, overlap)
        self._unsettled.clear()
        return refused

    def _stand(self) -> StandingWindows:
        unchained = {each.timestamp_ms for each in self._snapshots.entries() if not AsOfKind(each.kind).chained}
        return StandingWindows(self._folders, live_revisions(self._folders.names()), unchained)

    def _refuse_overlap(self, manifest: Manifest, extent: Extent) -> None:
        if self._on_overlap == "allow":
            return
        self._standing = self._standing or self._stand()
        overlap = self._standing.overlap(manifest, extent)
        if overlap is not None:
            raise self._error(manifest.window, overlap)

    def _require_counting(self, *snapshots: OffsetSnapshot) -> None:
        forgotten = self._snapshots.forgotten(snapshots)
        if forgotten:
            raise InstantForgottenError(f"{forgotten[0].as_of} was forgotten since it was resolved. Resolve it again.")

    def _error(self, window: str, overlap: Overlap) -> WindowOverlapError:
        offsets = sum(each.size for each in overlap.shared)
        return WindowOverlapError(
            f"Window {window} is not pinned: {offsets} of its offsets are in window {overlap.window} too, which is "
            f"{_state(overlap)} ({shorten(map(str, overlap.shared))}). Loaded by both, these records would be there "
            "twice. Load the windows that the schedule cuts (airflow backfill create, or clear their runs); or, "
            f"{self._way(overlap)}; or give this one a pipeline of its own. on_overlap='allow' (--on-overlap allow) "
            "pins it all the same.",
            passes=not overlap.settled,
        )

    def _way(self, overlap: Overlap) -> str:
        if overlap.loading is not None:
            return (
                f"where {overlap.window} isn't wanted, end its load first, and then airflow kafka-offsets ledger "
                f"forget {self._pipeline} {overlap.window} --force: what that load publishes once the window is "
                "forgotten counts nowhere, and may stand in a table"
            )
        force = " --force" if overlap.state in _PUBLISHED else ""
        return (
            f"where {overlap.window} isn't wanted, airflow kafka-offsets ledger forget {self._pipeline} "
            f"{overlap.window}{force}"
        )


def _state(overlap: Overlap) -> str:
    if overlap.loading is not None:
        return f"pinned, and may be loading at this moment: {overlap.loading}"
    if overlap.state in _PUBLISHED:
        return "published"
    return "pinned, not loaded" if overlap.settled else "being pinned"


def _extent(start: OffsetSnapshot, end: OffsetSnapshot) -> Extent:
    name = window_id(start.timestamp_ms, end.timestamp_ms)
    return Extent(name, start.timestamp_ms, end.timestamp_ms, start.as_of.chained, end.as_of.chained)


def _made_from(pinned: PinnedManifest, start: OffsetSnapshot, end: OffsetSnapshot) -> bool:
    return pinned.manifest.snapshots == (start.number, end.number)
