"""Whereabouts: the window that a record is in, and where that window's rows are. Uses only the ledger.

Looks records up by offset, which is exact; for lookups by time see :mod:`.windows_at`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a record is.

    :param found: in words: ``published``, ``pinned, not published``, ``lost``, or why it is in no window.
    :param window: the window that it belongs to; None when it is in none.
    :param revision: the window's revision.
    :param attempt: the published attempt; None when none is published.
    :param output: folder with the attempt's rows.
    :param dag_id: the Dag that made the attempt.
    :param run_id: the Dag run.
    :param task_id: the task.
    """

    found: str
    window: str | None = None
    revision: int | None = None
    attempt: str | None = None
    output: str | None = None
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None


def find(ledger: Ledger, topic: str, partition: int, offset: int) -> Whereabouts:
    """Look up a record by its topic, partition and offset."""
    index = ledger.window_folders.index()
    revisions = {window: ledger.window_folders.current_of(window, numbers) for window, numbers in index.live.items()}
    ordered = index.in_a_row(ledger.snapshots.unchained_times())
    windows = _WindowsOnPartition([revisions[window][0] for window in ordered], TopicPartition(topic, partition))
    others = index.live.keys() - set(ordered)
    near = [revisions[window][0] for window in sorted({*(folder.id for folder in windows.around(offset)), *others})]
    asked = [folder for window in near for folder in revisions[window.id]]
    found = [
        _in_window(folder, each, offset)
        for folder, each in zip(asked, in_parallel(windows.range_of, asked), strict=True)
        if each is not None and each.window_start <= offset < each.end_offset
    ]
    if not found:
        return Whereabouts(windows.why_nowhere(near, offset))
    # If windows overlap, the rows are in one that was published.
    return next((record for record in found if record.attempt), found[0])


class _WindowsOnPartition:
    """The windows of a ledger on one partition. Each manifest is read on first use, and once.

    :param folders: one folder for each window whose offsets rise with time, in order of time.
    :param partition: the partition.
    """

    def __init__(self, folders: Sequence[WindowFolder], partition: TopicPartition) -> None:
        self.folders = folders
        self._partition = partition
        self._ranges = cache(self._read)

    def _read(self, folder: WindowFolder) -> list[OffsetRange] | None:
        pinned = folder.pinned()
        if pinned is None:
            return None
        return [each for each in pinned.manifest.ranges if TopicPartition.of(each) == self._partition]

    def is_pinned(self, folder: WindowFolder) -> bool:
        """Whether it has a manifest. It doesn't while a task is pinning it, or after a crash."""
        return self._ranges(folder) is not None

    def range_of(self, folder: WindowFolder) -> OffsetRange | None:
        """The window's range; None when it isn't pinned, or doesn't have the partition."""
        return next(iter(self._ranges(folder) or ()), None)

    def last_pinned(self, count: int) -> WindowFolder | None:
        """The last pinned window of the first ``count`` folders; None when there is none."""
        return next(filter(self.is_pinned, reversed(self.folders[:count])), None)

    def around(self, offset: int) -> list[WindowFolder]:
        """The last window that ends at or before an offset, and the first one that ends after it, if they exist. As
        offsets rise with time, a binary search reads only about a dozen of a year's windows."""

        def end(count: int) -> int:
            """The end offset of the last pinned window; -1 if that window is older than the partition."""
            last = self.last_pinned(count)
            found = None if last is None else self.range_of(last)
            return -1 if found is None else found.end_offset

        index = bisect_right(range(len(self.folders)), offset, key=lambda index: end(index + 1))
        earlier = self.last_pinned(index)
        return [*([] if earlier is None else [earlier]), *self.folders[index : index + 1]]

    def why_nowhere(self, near: Sequence[WindowFolder], offset: int) -> str:
        """Where an offset is that no window has, in words.

        :param near: the windows around it, and all windows whose offsets don't follow time.
        """
        pinned = list(filter(self.is_pinned, near))
        if not pinned:
            return "there is no window yet"
        ranges = {folder.id: having for folder in pinned if (having := self.range_of(folder)) is not None}
        if not ranges:
            return "the last window doesn't have that partition"
        ends = {window: having.end_offset for window, having in ranges.items() if having.end_offset <= offset}
        starts = {window: having.window_start for window, having in ranges.items() if having.window_start > offset}
        earlier = max(reversed(ends), key=ends.__getitem__, default="")
        later = min(starts, key=starts.__getitem__, default="")
        if not later:
            return f"after the last window, {earlier}, which ends at {ends[earlier]}"
        if not earlier:
            which = "window" if len(ranges) == len(pinned) else "window that has the partition"
            return f"before the first {which}, {later}, which starts at {starts[later]}"
        return f"in a hole: {earlier} ends at {ends[earlier]}, and the next one, {later}, starts at {starts[later]}"


def _in_window(folder: WindowFolder, offset_range: OffsetRange, offset: int) -> Whereabouts:
    if offset < offset_range.start_offset:
        pinned = "the window" if folder.revision == 1 else f"revision {folder.revision} of the window"
        return Whereabouts(f"lost: deleted from the log before {pinned} was pinned", folder.id, folder.revision)
    found = place_of(folder, folder.publication())
    if found.attempt is None:
        partition = TopicPartition.of(offset_range)
        losses = (loss for loss in folder.losses() if TopicPartition.of(loss) == partition)
        if any(offset < loss.end_offset for loss in losses):
            return replace(found, found="lost: deleted from the log before the window was loaded")
    return found


def place_of(folder: WindowFolder, published: Publication | None) -> Whereabouts:
    """Where the records of a pinned window are.

    :param published: its publication; None when nothing is published.
    """
    if published is None:
        return Whereabouts("pinned, not published", folder.id, folder.revision)
    run = folder.attempt(published.attempt).get("airflow") or {}
    return Whereabouts(
        "published",
        folder.id,
        folder.revision,
        published.attempt,
        published.output,
        *(run.get(name) for name in ("dag_id", "run_id", "task_id")),
    )
