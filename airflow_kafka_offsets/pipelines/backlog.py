"""The backlog of a pipeline: its offsets that aren't loaded, and which of those records retention deletes next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.ledger.holes import unloaded_stretches
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.answers.logs import LogExtent
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.offsets.windows.retention import (
    RangeForecast,
    WindowForecast,
    deletes_by_time,
    forecast,
    limits_size,
    rest_of,
)

REST = "backlog"
"""Stands for a window's name: the offsets after the last window."""


class Backlog:
    """The offsets of a pipeline that aren't loaded, and their state in the cluster, at one moment.

    :param end: where the pipeline's last window ends.
    """

    def __init__(self, client: OffsetsClient, ledger: Ledger, end: FixedOffsets) -> None:
        self._client = client
        self._ledger = ledger
        self._end = end
        self._unloaded = [(each, ledger.between(*each[:2])) for each in unloaded_stretches(ledger.state)]
        topics = {each.topic for _, ranges in self._unloaded for each in ranges}
        # Also topics that have begun anew since they were seen: all that they have isn't loaded.
        newest = ledger.state.newest_snapshot
        seen = () if newest is None else ledger.offsets_at(newest.at_ms).topics
        self._survey = client.survey({*end.names(), *topics, *seen})
        self._extents = self._survey.extents.raise_for_errors()

    def forecasts(self) -> list[WindowForecast]:
        """A forecast for each non-empty window that isn't loaded, for each hole, and for the backlog.

        :raises TopicChangedError: for another cluster, or a topic that is missing or was re-created.
        :raises LogTruncatedError: when a log ends before the end of such a window, or the start of the backlog.
        """
        pending, facts = list(self._pending()), self._survey.facts
        limited = (each for _, several in pending for each in several if deletes_by_time(facts[each.topic]))
        rests = [rest_of(each, self._extent(each)) for each in limited]
        # Committed or not: retention deletes both.
        records = self._client.first_records(rests, isolation_level=IsolationLevel.READ_UNCOMMITTED)

        def one(unloaded: LogRange) -> RangeForecast:
            return forecast(unloaded, self._extent(unloaded), facts[unloaded.topic], records)

        return [WindowForecast.of(window, map(one, several)) for window, several in pending if several]

    def _pending(self) -> Iterator[tuple[str, list[LogRange]]]:
        """The ranges that aren't loaded, with the name of the window, hole or backlog that has them."""
        for stretch, ranges in self._unloaded:
            if stretch.window is None:
                yield f"hole from {iso_instant(stretch.start_ms)}", [each for each in ranges if self._is_left(each)]
            elif ranges:
                self._check(_end_of(self._ledger, stretch.window))
                yield stretch.window.name, ranges
        yield REST, list(self._backlog())

    def _check(self, end: FixedOffsets) -> None:
        """Refuse offsets that aren't those of the logs any more, though no restart says why."""
        ids = {topic: facts.topic_id for topic, facts in self._survey.facts.items()}
        end.refuse_other_source(self._survey.cluster_id, ids)
        end.refuse_truncated(self._extents)

    def _is_left(self, unloaded: LogRange) -> bool:
        """Whether anything is left of a hole's range: nothing can be done otherwise."""
        extent = self._extents.lookup(unloaded.topic, unloaded.partition)
        return extent is not None and (extent.log_start_offset or 0) < unloaded.end_offset

    def _backlog(self) -> Iterator[LogRange]:
        """The ranges after the last window. Partitions that it doesn't have are new, and belong to the next window."""
        self._check(self._end)
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

    def size_limits(self) -> dict[str, int]:
        """The topics that limit the size of their logs (``retention.bytes``), each with its limit. What that will
        delete isn't foretold."""
        return {topic: facts.retention_bytes or 0 for topic, facts in self._survey.facts.items() if limits_size(facts)}


def last_end(ledger: Ledger) -> FixedOffsets | None:
    """Where the last window ends; without windows, the newest snapshot; None if there is none. Without topics that have
    begun anew since."""
    last, newest = ledger.state.last_window, ledger.state.newest_snapshot
    if last is not None:
        return _end_of(ledger, last)
    return None if newest is None else FixedOffsets.of_snapshot(ledger.offsets_now(newest.at_ms))


def _end_of(ledger: Ledger, window: Window) -> FixedOffsets:
    end = FixedOffsets.of_snapshot(ledger.offsets_now(window.end_ms))
    return replace(end, source=f"the end of window {window.name}")
