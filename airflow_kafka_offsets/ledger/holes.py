"""Holes: offsets between two published windows that no published window covers. Uses only the ledger.

Skipped runs and failed loads leave holes. If another window that is pinned but not published covers a hole's offsets,
they are being loaded or will be; if no window does, nobody will load them. Time without offsets isn't a hole. What was
left unloaded of a re-created topic is :mod:`.leftovers`' question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from airflow_kafka_offsets.errors import number_of, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.answers.groups import lies_ahead
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.windows.ledger_names import month_of, window_extent
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.tiling import Seam, Tiling, check_tiling, seams, uncovered

_FEW = 4
"""How many windows are checked one by one for a publication; the others are checked a month at a time."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the log between two windows.

    :param start_ms: where the earlier window ends, Unix milliseconds; None for a group's committed offsets instead of a
        window.
    :param end_ms: where the later window starts: the same instant if the two meet in time but not in offsets.
    :param gaps: the offsets between them, one seam for each partition that has any.
    """

    start_ms: int | None
    end_ms: int
    gaps: tuple[Seam, ...]

    def __str__(self) -> str:
        offsets, partitions = sum(gap.size for gap in self.gaps), number_of(len(self.gaps), "partition")
        since = "the group's commits" if self.start_ms is None else iso_instant(self.start_ms)
        time = f"at {since}" if self.start_ms == self.end_ms else f"from {since} to {iso_instant(self.end_ms)}"
        return f"{time}: {offsets} offsets in {partitions} ({shorten(map(str, self.gaps))})"


@dataclass(frozen=True, slots=True)
class Hole:
    """Offsets between two published windows that no published window covers.

    :param whole: the whole hole.
    :param pinned: windows within it that are pinned but not published, in order of time.
    :param unpinned: the parts that no window covers; empty when the pinned windows cover all of it.
    """

    whole: Stretch
    pinned: tuple[str, ...]
    unpinned: tuple[Stretch, ...]

    def __str__(self) -> str:
        parts = [f"no window {stretch}" for stretch in self.unpinned]
        if self.pinned:
            parts.append(f"not published yet: {shorten(self.pinned)}")
        return "; ".join(parts)


class Surroundings:
    """The windows around one window, from one listing of the ledger. Each file is read at most once.

    :param manifest: the window, which is published.
    """

    def __init__(self, ledger: Ledger, manifest: Manifest) -> None:
        self._ledger = ledger
        self._manifest = manifest
        self.index = ledger.window_folders.index()
        self._asked = 0
        self._is_published = cache(self._ask_whether_published)
        self._publication = cache(self._read_publication)
        self._published = cache(self._read_published)
        self._published_in = cache(ledger.window_folders.published_in)

    def again(self) -> Surroundings:
        """The windows around the window, from a new listing."""
        return Surroundings(self._ledger, self._manifest)

    @property
    def alone(self) -> bool:
        """Whether no other window is published."""
        others = (window for window in self.index.latest_first() if window != self._manifest.window)
        return not any(map(self._is_published, others))

    def tiling(self) -> Tiling:
        """How the window meets the published windows that touch or cross it in time, and the nearest ones beyond them.
        Those may leave offsets out, but must share none. A window that isn't loaded yet is no gap."""
        window, log = self._manifest, self._ledger.snapshots
        touching = self.index.crossing(window.start_ms - 1, window.end_ms + 1)
        near = [self._published(other) for other in touching if other != window.window and self._is_published(other)]
        tiling = check_tiling(
            [window, *near],
            lambda each: each.ranges,
            lambda earlier, later: earlier.end_snapshot == later.start_snapshot,
            lambda each: log.log_starts(each.start_snapshot),
        )
        backwards = []
        for first, second in self._beyond():
            found = [seam for seam in seams([first.ranges, second.ranges]) if not seam.is_gap]
            if found:
                backwards.append(f"windows {first.window} and {second.window}: {shorten(map(str, found))}")
        return replace(tiling, problems=(*tiling.problems, *backwards))

    def _beyond(self) -> Iterator[tuple[Manifest, Manifest]]:
        """Pairs of this window and the nearest published one on each side that doesn't meet it in time, in order of
        time."""
        window = self._manifest
        earlier, later = self._published_before(window.start_ms), self._published_after()
        if earlier is not None and self.index.extents[earlier][1] < window.start_ms:
            yield self._published(earlier), window
        if later is not None and self.index.extents[later][0] > window.end_ms:
            yield window, self._published(later)

    def before(self) -> Hole | None:
        """The hole between this window and the nearest published one before it; None when there is none."""
        earlier = self._published_before(self._manifest.start_ms)
        return None if earlier is None else self._between(self._published(earlier), self._manifest)

    def after(self) -> Hole | None:
        """The hole between this window and the nearest published one after it; None when there is none."""
        later = self._published_after()
        return None if later is None else self._between(self._manifest, self._published(later))

    def since(self, commits: Mapping[TopicPartition, int]) -> list[Hole]:
        """The holes between a group's commits and this window, latest first.

        :param commits: the committed offsets; a partition without a commit is absent.
        """
        found: list[Hole] = []
        window = self._manifest
        while _starts_ahead(window, commits):
            first = self._first_in_row(window)
            earlier = self._published_before(window_extent(first)[0])
            if earlier is None:
                found += self._before_the_first(self._manifest_of(first), commits)
                break
            later, window = self._manifest_of(first), self._published(earlier)
            hole = self._between(window, later)
            if hole is not None and any(
                lies_ahead(commits, TopicPartition.of(gap), gap.start_offset) for gap in hole.whole.gaps
            ):
                found.append(hole)
        return found

    def _before_the_first(self, first: Manifest, commits: Mapping[TopicPartition, int]) -> Iterator[Hole]:
        """What the group would miss before the first published window. On a partition without a commit, it starts with
        the first pinned window."""
        log_start = self._ledger.snapshots.log_starts(first.start_snapshot)
        gaps = []
        for beginning in first.ranges:
            committed = commits.get(TopicPartition.of(beginning), beginning.window_start)
            if (
                committed < beginning.window_start
                and (start := max(committed, log_start(beginning))) < beginning.window_start
            ):
                gaps.append(Seam(beginning.topic, beginning.partition, start, beginning.window_start))
        pinned, published = self._reaching_into(Stretch(None, first.start_ms, tuple(gaps)))
        gaps += [gap for gap in self._pinned_gaps(pinned, first.start_ms) if TopicPartition.of(gap) not in commits]
        missing = uncovered(gaps, (self._published(window).ranges for window in published))
        if missing:
            left = uncovered(missing, (self._manifest_of(window).ranges for window in pinned))
            unpinned = (Stretch(None, first.start_ms, tuple(left)),) if left else ()
            yield Hole(Stretch(None, first.start_ms, tuple(missing)), tuple(pinned), unpinned)

    def _pinned_gaps(self, pinned: Iterable[str], before_ms: int) -> Iterator[Seam]:
        """The offsets of unpublished windows that end at or before a time."""
        for window in pinned:
            if self.index.extents[window][1] <= before_ms:
                for unpublished in self._manifest_of(window).non_empty():
                    yield Seam(
                        unpublished.topic, unpublished.partition, unpublished.start_offset, unpublished.end_offset
                    )

    def _first_in_row(self, manifest: Manifest) -> str:
        """The first window of the unbroken row of published windows that ends with the given one: each starts with the
        snapshot that the one before it ends with."""
        window, start_ms, snapshot = manifest.window, manifest.start_ms, manifest.start_snapshot
        while (earlier := self._published_before(start_ms)) is not None and self.index.extents[earlier][1] == start_ms:
            first, last = self._snapshots(earlier)
            if last != snapshot:
                break
            window, start_ms, snapshot = earlier, self.index.extents[earlier][0], first
        return window

    def _snapshots(self, window: str) -> tuple[int, int]:
        """Numbers of the snapshots that a published window was made from. Checkpoints hold them for many windows."""
        numbers = self.index.live[window]
        verified = self._verified.get((window, numbers[0])) if len(numbers) == 1 else None
        found = self._read_published(window) if verified is None else verified  # not kept: a row may be years long
        return found.start_snapshot, found.end_snapshot

    @cached_property
    def _verified(self) -> dict[tuple[str, int], WindowSummary]:
        return self._ledger.checkpoints.read()

    def _between(self, earlier: Manifest, later: Manifest) -> Hole | None:
        """The hole between two neighbouring published windows. Two that meet in time leave offsets out when one was
        resolved again and its newest revision isn't loaded yet."""
        whole = self._stretch(earlier, later)
        if whole is None:
            return None
        pinned, published = self._reaching_into(whole)
        if not uncovered(whole.gaps, (self._published(window).ranges for window in published)):
            return None
        edges = [earlier, *self._edges(sorted([*pinned, *published], key=window_extent)), later]
        parts = (self._stretch(one, other) for one, other in zip(edges[::2], edges[1::2], strict=True))
        newer = [newest for window in (earlier, later) if (newest := self._newer(window, whole)) is not None]
        unpinned = (part for part in parts if part and uncovered(part.gaps, (manifest.ranges for manifest in newer)))
        pinned += [manifest.window for manifest in newer]
        return Hole(whole, tuple(sorted(pinned, key=window_extent)), tuple(unpinned))

    def _newer(self, published: Manifest, whole: Stretch) -> Manifest | None:
        """The newest revision of a published window, if it isn't the published one and covers part of a stretch."""
        newest = self._pinned(published.window)
        if newest.revision == published.revision or uncovered(whole.gaps, [newest.ranges]) == list(whole.gaps):
            return None
        return newest

    def _reaching_into(self, stretch: Stretch) -> tuple[list[str], list[str]]:
        """Other windows that overlap a stretch in time: the unpublished ones, and the published ones that extend beyond
        an end of it."""
        since = 0 if stretch.start_ms is None else stretch.start_ms
        pinned: list[str] = []
        published: list[str] = []
        for window in self.index.crossing(since, stretch.end_ms):
            start_ms, end_ms = self.index.extents[window]
            inside = since <= start_ms and end_ms <= stretch.end_ms
            if not inside and self._is_published(window):
                published.append(window)
            elif self._newest(window).is_pinned:  # else a task is about to pin it, or a crash interrupted one
                pinned.append(window)
        return pinned, published

    def _edges(self, windows: Sequence[str]) -> Iterator[Manifest]:
        """For each row of windows that meet or overlap in time, the one that starts first and the one that ends last:
        between these two, no offset is left out."""
        first = last = None
        for window in windows:
            if last is None or self.index.extents[window][0] > self.index.extents[last][1]:
                yield from map(self._manifest_of, filter(None, (first, last)))
                first = last = window
            last = max(last, window, key=lambda name: self.index.extents[name][1])
        yield from map(self._manifest_of, filter(None, (first, last)))

    def _published_before(self, time_ms: int) -> str | None:
        return next(filter(self._is_published, self.index.ending_by(time_ms)), None)

    def _published_after(self) -> str | None:
        return next(filter(self._is_published, self.index.starting_from(self._manifest.end_ms)), None)

    def _ask_whether_published(self, window: str) -> bool:
        self._asked += 1
        few = self._asked <= _FEW
        return (few or window in self._published_in(month_of(window))) and self._publication(window) is not None

    def _read_publication(self, window: str) -> Publication | None:
        return self._ledger.window_folders.publication(window, self.index.live[window])

    def _read_published(self, window: str) -> Manifest:
        publication = self._publication(window)
        assert publication is not None, "publications are never removed"
        return self._ledger.pinned(window, publication.revision).manifest

    def _newest(self, window: str) -> WindowFolder:
        # A window that was forgotten before this look has none.
        return self._ledger.window_folders.newest(window, self.index.live.get(window, ()))

    def _pinned(self, window: str) -> Manifest:
        return self._ledger.pinned(window, self._newest(window).revision).manifest

    def _stretch(self, earlier: Manifest, later: Manifest) -> Stretch | None:
        if earlier.end_ms > later.start_ms or earlier.end_snapshot == later.start_snapshot:
            return None
        gaps = gaps_between(self._ledger, earlier, later)
        return Stretch(earlier.end_ms, later.start_ms, gaps) if gaps else None

    def _manifest_of(self, window: str) -> Manifest:
        if window == self._manifest.window:
            return self._manifest
        return self._published(window) if self._is_published(window) else self._pinned(window)


def gaps_between(ledger: Ledger, earlier: Manifest, later: Manifest) -> tuple[Seam, ...]:
    """The offsets between two windows, one seam for each partition that has any."""
    beginning = ledger.snapshots.log_starts(later.start_snapshot)
    return tuple(seam for seam in seams([earlier.ranges, later.ranges], beginning) if seam.is_gap)


def _starts_ahead(manifest: Manifest, commits: Mapping[TopicPartition, int]) -> bool:
    return any(lies_ahead(commits, TopicPartition.of(each), each.window_start) for each in manifest.ranges)
