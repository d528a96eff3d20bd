"""The backlog of a pipeline: its offsets that aren't loaded, and which of those records retention deletes next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.unloaded import manifests, unloaded_in
from airflow_kafka_offsets.offsets.answers.logs import LogExtent
from airflow_kafka_offsets.offsets.answers.records import FirstRecords
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.offsets.windows.retention import (
    Limit,
    LogPace,
    RangeForecast,
    WindowForecast,
    applies,
    forecast,
    log_pace,
    rest_of,
)
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.tiling import Misfit
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics, is_another

REST = "backlog"
"""Stands for a window's name: the offsets after the last window."""
_APART_MS = 600_000
"""Shortest time over which a log's growth is measured: over less, bursts of its producers distort it."""


class Backlog:
    """The offsets of a pipeline that aren't loaded, and their state in the cluster, at one moment.

    :param end: where the pipeline's last window ends.
    """

    def __init__(self, client: OffsetsClient, ledger: Ledger, end: FixedOffsets) -> None:
        self._client = client
        self._ledger = ledger
        self._end = end
        missing = unloaded_in(ledger)
        self._manifests = [] if missing is None else manifests(ledger, missing.windows)
        self._holes = [] if missing is None else [gap for gap in missing.gaps if gap.missing]
        self._survey = client.survey(
            {*end.names(), *(name for manifest in self._manifests for name in manifest.topics)}
        )
        self._extents = self._survey.extents.raise_for_errors()

    def forecasts(self) -> list[WindowForecast]:
        """A forecast for each non-empty window that isn't loaded, for each hole, and for the backlog.

        :raises TopicChangedError: for another cluster, or a topic that is missing or was re-created.
        :raises LogTruncatedError: when a log ends before the end of such a window, or the start of the backlog.
        """
        pending = self._pending()
        ranges = [unloaded for several in pending.values() for unloaded in several]
        records, paces, at_ms = self._first_records(ranges), self._paces(ranges), now_ms()

        def one(unloaded: LogRange) -> RangeForecast:
            pace = paces.get(TopicPartition.of(unloaded), LogPace())
            return forecast(unloaded, self._extent(unloaded), self._survey.facts[unloaded.topic], records, pace, at_ms)

        return [WindowForecast.of(window, map(one, several)) for window, several in pending.items() if several]

    def _pending(self) -> dict[str, list[LogRange]]:
        for manifest in self._manifests:
            check_topics(manifest, self._survey.cluster_id, self._survey.facts)
            FixedOffsets.of_window_end(manifest).refuse_truncated(self._extents)
        pending = {manifest.window: [each.log_range for each in manifest.non_empty()] for manifest in self._manifests}
        pending |= {f"hole from {iso_instant(hole.start_ms)}": list(self._left_of(hole)) for hole in self._holes}
        return pending | {REST: list(self._backlog())}

    def _left_of(self, hole: Misfit) -> Iterator[LogRange]:
        """The ranges of a hole of which anything is left: nothing can be done for the others, and not for those of a
        topic that was dropped or re-created since."""
        known = self._ledger.pinned(hole.later).manifest.topics
        for seam in hole.missing:
            facts = self._survey.facts.get(seam.topic)
            extent = self._extents.lookup(seam.topic, seam.partition)
            if facts is None or extent is None or is_another(known[seam.topic].topic_id, facts.topic_id):
                continue
            if (extent.log_start_offset or 0) < seam.start_offset:
                yield LogRange(seam.topic, seam.partition, seam.end_offset, seam.start_offset)

    def _backlog(self) -> Iterator[LogRange]:
        """The ranges after the last window. Partitions that it doesn't have are new, and belong to the next window."""
        ids = {topic: facts.topic_id for topic, facts in self._survey.facts.items()}
        self._end.refuse_other_source(self._survey.cluster_id, ids)
        self._end.refuse_truncated(self._extents)
        offsets = dict(self._end.items())
        for extent in self._extents:
            assert extent.log_start_offset is not None and extent.high_watermark is not None
            start_offset = offsets.get(TopicPartition.of(extent), extent.log_start_offset)
            if start_offset < extent.high_watermark:
                yield LogRange(extent.topic, extent.partition, start_offset, extent.high_watermark)

    def _extent(self, unloaded: LogRange) -> LogExtent:
        extent = self._extents.lookup(unloaded.topic, unloaded.partition)
        assert extent is not None, "a topic that wasn't re-created loses no partitions"
        return extent

    def _first_records(self, ranges: Iterable[LogRange]) -> FirstRecords:
        """The first record of each range whose topic limits retention, committed or not: retention deletes both."""
        rests = [
            rest_of(unloaded, self._extent(unloaded))
            for unloaded in ranges
            if any(applies(limit, self._survey.facts[unloaded.topic]) for limit in Limit)
        ]
        return self._client.first_records(rests, isolation_level=IsolationLevel.READ_UNCOMMITTED)

    def _paces(self, ranges: Iterable[LogRange]) -> dict[TopicPartition, LogPace]:
        """How fast the partitions grow whose size is limited."""
        sized = [unloaded for unloaded in ranges if applies(Limit.SIZE, self._survey.facts[unloaded.topic])]
        if not sized:
            return {}
        pieces = {TopicPartition.of(unloaded): self._extent(unloaded) for unloaded in sized}
        sizes, local = self._client.log_sizes(pieces), self._client.list_offsets(pieces, OffsetSpec.EARLIEST_LOCAL)
        at_ms = now_ms()
        earlier = _snapshot_before(self._ledger, at_ms - _APART_MS)
        return {
            piece: log_pace(extent, sizes.lookup(*piece), local.lookup(*piece), earlier, at_ms)
            for piece, extent in pieces.items()
        }


def last_end(ledger: Ledger) -> FixedOffsets | None:
    """Where the last window ends. Without windows: where the first increment starts, if one is stored; else the newest
    snapshot as of an instant or ``latest``, or that was made for an increment to start at. None if there is none:
    a group's commits and log start offsets may be stored for anything."""
    last = ledger.last_pinned()
    if last is not None:
        return FixedOffsets.of_window_end(last.manifest)
    log = ledger.snapshots
    start = log.first_increment_start()
    if start is not None:
        return FixedOffsets.of_snapshot(start)
    starts = [entry for entry in log.entries() if entry.kind in (AsOfKind.INSTANT, AsOfKind.LATEST) or entry.about]
    return FixedOffsets.of_snapshot(log.read(starts[-1].number)) if starts else None


def _snapshot_before(ledger: Ledger, moment_ms: int) -> OffsetSnapshot | None:
    """The newest snapshot resolved by a moment, of those that were each at a later time than all stored before. Their
    numbers follow the order of resolving, so that few are read; the others' needn't: a forgotten instant that got its
    old offsets back has a new number."""
    log, latest_ms = ledger.snapshots, 0
    numbers: list[int] = []
    for entry in sorted(log.entries(), key=lambda entry: entry.number):
        if entry.timestamp_ms > latest_ms:
            latest_ms = entry.timestamp_ms
            numbers.append(entry.number)
    later = bisect_right(numbers, moment_ms, key=lambda number: log.read(number).resolved_at_ms)
    return log.read(numbers[later - 1]) if later else None
