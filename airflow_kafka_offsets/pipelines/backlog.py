"""The backlog of a pipeline: what isn't loaded, and which of its records Kafka's retention deletes next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.logs import LogExtent
from airflow_kafka_offsets.offsets.answers.records import FirstRecords
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import AnswerSet, LogRange, TopicPartition
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
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics

REST = "backlog"
"""Instead of a window's name: what is after the last window."""
_APART_MS = 600_000
"""How long a log is looked at to tell how fast it grows, at least: less shows its producers' rhythm."""


class Backlog:
    """One look at what of a pipeline isn't loaded, and at what the cluster says of that.

    :param end: where its last window ends.
    """

    def __init__(self, client: OffsetsClient, ledger: Ledger, end: FixedOffsets) -> None:
        self._client = client
        self._ledger = ledger
        self._end = end
        unloaded = [each for each in ledger.summaries() if each.attempt is None]
        self._manifests = [ledger.pinned(each.window, each.revision).manifest for each in unloaded]
        self._survey = client.survey({*end.names(), *(name for each in self._manifests for name in each.topics)})
        self._extents = self._survey.extents.raise_for_errors()
        self.warnings: list[str] = []
        """What couldn't be asked for the forecasts, a line each."""

    def forecasts(self) -> list[WindowForecast]:
        """A forecast for every window that isn't loaded and holds something, and for the backlog."""
        pending = self._pending()
        ranges = [each for several in pending.values() for each in several]
        records, paces, at_ms = self._first_records(ranges), self._paces(ranges), now_ms()

        def one(each: LogRange) -> RangeForecast:
            pace = paces.get(TopicPartition.of(each), LogPace())
            return forecast(each, self._extent(each), self._survey.facts[each.topic], records, pace, at_ms)

        return [WindowForecast.of(window, map(one, each)) for window, each in pending.items() if each]

    def _pending(self) -> dict[str, list[LogRange]]:
        for manifest in self._manifests:
            check_topics(manifest, self._survey.cluster_id, self._survey.facts)
        pending = {
            manifest.window: [pinned.log_range for pinned in manifest.non_empty()] for manifest in self._manifests
        }
        return pending | {REST: list(self._backlog())}

    def _backlog(self) -> Iterator[LogRange]:
        """What is after the last window. A partition that it doesn't have is new, and all of it is in the next one."""
        ids = {topic: facts.topic_id for topic, facts in self._survey.facts.items()}
        self._end.refuse_other_source(self._survey.cluster_id, ids)
        offsets = dict(self._end.items())
        for each in self._extents:
            assert each.log_start_offset is not None and each.high_watermark is not None
            start_offset = offsets.get(TopicPartition.of(each), each.log_start_offset)
            if start_offset < each.high_watermark:
                yield LogRange(each.topic, each.partition, start_offset, each.high_watermark)

    def _extent(self, each: LogRange) -> LogExtent:
        extent = self._extents.lookup(each.topic, each.partition)
        assert extent is not None, "topics that are the same ones lose no partitions"
        return extent

    def _first_records(self, ranges: Iterable[LogRange]) -> FirstRecords:
        """The first record of each range that has a limit. Retention doesn't ask whether a record was committed."""
        rests = [
            rest_of(each, self._extent(each))
            for each in ranges
            if any(applies(limit, self._survey.facts[each.topic]) for limit in Limit)
        ]
        records = self._client.first_records(rests, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        self._note("What deletes records by time is unknown", records)
        return records

    def _paces(self, ranges: Iterable[LogRange]) -> dict[TopicPartition, LogPace]:
        """How those partitions grow whose size is limited."""
        sized = [each for each in ranges if applies(Limit.SIZE, self._survey.facts[each.topic])]
        if not sized:
            return {}
        pieces = {TopicPartition.of(each): self._extent(each) for each in sized}
        sizes, local = self._client.log_sizes(pieces), self._client.list_offsets(pieces, OffsetSpec.EARLIEST_LOCAL)
        self._note("What deletes records by size is unknown", sizes)
        at_ms = now_ms()
        earlier = _snapshot_before(self._ledger, at_ms - _APART_MS)
        return {
            piece: log_pace(extent, sizes.lookup(*piece), local.lookup(*piece), earlier, at_ms)
            for piece, extent in pieces.items()
        }

    def _note(self, what: str, answers: AnswerSet[Any]) -> None:
        failures = answers.failures()
        if failures:
            self.warnings.append(f"{what}: {shorten(f'{name}: {error}' for name, error in failures)}")


def last_end(ledger: Ledger) -> FixedOffsets | None:
    """Where the last window ends; without windows, where the newest snapshot stands, from which one may start."""
    last = ledger.last_pinned()
    if last is not None:
        return FixedOffsets.of_window_end(last.manifest)
    chained = [each for each in ledger.snapshots.entries() if each.kind in (AsOfKind.INSTANT, AsOfKind.LATEST)]
    return FixedOffsets.of_snapshot(ledger.snapshots.read(chained[-1].number)) if chained else None


def _snapshot_before(ledger: Ledger, moment_ms: int) -> OffsetSnapshot | None:
    """The newest snapshot that was resolved by then. Numbers are in order of resolving, so that few are read."""
    log = ledger.snapshots
    numbers = sorted(each.number for each in log.entries())
    later = bisect_right(numbers, moment_ms, key=lambda number: log.read(number).resolved_at_ms)
    return log.read(numbers[later - 1]) if later else None
