"""What a pipeline hasn't loaded yet, from the first window that is known, published or not.

The page, the retention watch and the verification of the whole ledger all go by this. Offsets are loaded once a
published window has them. What Kafka still has of the others isn't this module's question.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.summaries import WindowSummary, without_replaced
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.tiling import Beginning, Misfit, Tiling, beyond, check_tiling


@dataclass(frozen=True, slots=True)
class Unloaded:
    """What no published window has, from the first window's start on.

    :param since_ms: everything before it is loaded, Unix milliseconds: where the first of ``windows`` or of ``gaps``
        starts, or else where the last window ends.
    :param windows: the unpublished windows that have some of it, in order of time.
    :param gaps: the pairs of windows that have some of it between them, in order of time.
    :param last: the window that ends last, published or not. All that comes after it isn't loaded either.
    """

    since_ms: int
    windows: tuple[WindowSummary, ...]
    gaps: tuple[Misfit, ...]
    last: WindowSummary

    def ranges(self, ledger: Ledger) -> list[LogRange]:
        """All of it, to the log end, wherever that is; including offsets that unpublished windows have lost.

        :raises LedgerError: when a manifest can't be read or is damaged.
        """
        seams = [seam for gap in self.gaps for seam in gap.gaps]
        between = [LogRange(*TopicPartition.of(seam), seam.end_offset, seam.start_offset) for seam in seams]
        inner = {window for gap in self.gaps for window in gap.waiting}
        *outer, last = manifests(ledger, [*(each for each in self.windows if each.window not in inner), self.last])
        late = [each for manifest in outer for each in manifest.ranges]
        pinned = [LogRange(*TopicPartition.of(each), each.window_start, each.end_offset) for each in late]
        after = [LogRange(*TopicPartition.of(each), each.end_offset, sys.maxsize) for each in last.ranges]
        return [*between, *pinned, *after]


def unloaded_in(ledger: Ledger) -> Unloaded | None:
    """What isn't loaded; None if there is no window."""
    summaries = ledger.summaries()
    return unloaded(summaries, tiling_of(ledger, summaries, {}))


def unloaded(summaries: Sequence[WindowSummary], tiling: Tiling) -> Unloaded | None:
    """What isn't loaded; None if there is no window.

    :param tiling: the result of :func:`tiling_of` for the same windows.
    """
    published, waiting = _by_publication(summaries)
    outer = beyond(published, waiting)
    if not (published or outer):
        return None
    last = max([*published, *outer], key=lambda each: each.end_ms)
    late = [each for each in outer if each.offsets or each.lost_offsets]
    gaps = [misfit for misfit in tiling.misfits if misfit.gaps]
    starts = [*(each.start_ms for each in late), *(gap.start_ms for gap in gaps)]
    having = {window for gap in gaps for window in gap.waiting} | {each.window for each in late}
    windows = tuple(each for each in waiting if each.window in having)
    return Unloaded(min(starts, default=last.end_ms), windows, tuple(gaps), last)


def manifests(ledger: Ledger, windows: Sequence[WindowSummary]) -> list[Manifest]:
    """The manifests of some windows."""
    return in_parallel(lambda each: ledger.pinned(each.window, each.revision).manifest, windows)


def tiling_of(
    ledger: Ledger, kept: Sequence[WindowSummary], read: Mapping[WindowSummary, Sequence[OffsetRange]]
) -> Tiling:
    """Whether windows tile, from the first one that is known to the last one. Reads the ledger, and writes nothing.

    :param kept: windows whose manifests are known to be unchanged. They are read only if they may not meet.
    :param read: other windows, with their ranges.
    """
    published, waiting = _by_publication((*kept, *read))
    sure = set(kept)

    @cache
    def ranges(window: WindowSummary) -> Sequence[OffsetRange]:
        return read[window] if window in read else ledger.pinned(window.window, window.revision).manifest.ranges

    def surely_meet(earlier: WindowSummary, later: WindowSummary) -> bool:
        # Unchanged manifests that were made from the same snapshot meet there.
        return {earlier, later} <= sure and earlier.end_snapshot == later.start_snapshot

    def beginning(window: WindowSummary) -> Beginning:
        return ledger.snapshots.log_starts(window.start_snapshot)

    return check_tiling(published, ranges, surely_meet, beginning, waiting)


def _by_publication(summaries: Sequence[WindowSummary]) -> tuple[list[WindowSummary], list[WindowSummary]]:
    """The published windows, and the others."""
    counting = without_replaced(summaries)
    return [each for each in counting if each.attempt is not None], [each for each in counting if each.attempt is None]
