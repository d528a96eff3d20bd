"""Pre-flight: can a pinned window still be read, exactly? Asked before a Spark cluster starts.

Spark itself finds out on its executors, after four attempts, and never checks cluster or topic id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from airflow_kafka_offsets.errors import (
    DataLossError,
    LogTruncatedError,
    TopicChangedError,
    shorten,
)
from airflow_kafka_offsets.offsets.answers.logs import LogExtents
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot, TopicFacts


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets of a pinned range that no longer exist.

    :param topic: topic name.
    :param partition: partition number.
    :param start_offset: start of the pinned range, inclusive.
    :param log_start_offset: where the log starts now.
    :param lost: how many offsets of the range are gone, exactly.
    """

    topic: str
    partition: int
    start_offset: int
    log_start_offset: int
    lost: int

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition}: {self.lost} offsets from {self.start_offset} on "
            f"(the log starts at {self.log_start_offset})"
        )


def check_topics(pinned: Manifest | OffsetSnapshot, cluster_id: str, topics: Mapping[str, TopicFacts]) -> None:
    """Refuse a window or snapshot whose topics aren't the ones that were pinned.

    :param cluster_id: the cluster that the connection reaches now.
    :param topics: what it says of the topics now; a missing topic is absent.
    :raises TopicChangedError: another cluster, a topic that is missing, or one that was re-created (S16).
    """
    what = f"window {pinned.window}" if isinstance(pinned, Manifest) else f"the snapshot at {pinned.as_of}"
    if cluster_id != pinned.cluster_id:
        raise TopicChangedError(
            f"{what[0].upper()}{what[1:]} was resolved on cluster {pinned.cluster_id}, but the connection reaches "
            f"{cluster_id}. Nothing was done."
        )
    for topic, facts in sorted(pinned.topics.items()):
        current = topics.get(topic)
        if current is None:
            raise TopicChangedError(f"Topic {topic} of {what} no longer exists. Nothing was done.", topic=topic)
        if None not in (facts.topic_id, current.topic_id) and facts.topic_id != current.topic_id:
            raise TopicChangedError(
                f"Topic {topic} was re-created since {what} was resolved (id {facts.topic_id}, now "
                f"{current.topic_id}): the same offsets hold other records. Nothing was done.",
                topic=topic,
            )


def check_ranges(manifest: Manifest, extents: LogExtents) -> None:
    """Refuse a window whose records aren't all there.

    :param extents: where the logs of the window's non-empty ranges start and end now.
    :raises OffsetsError: a partition can't be asked.
    :raises DataLossError: the log start has passed a range's start; names partitions and exact counts (S12).
    :raises LogTruncatedError: a range ends past the end of the log (S15).
    """
    lost = lost_ranges(manifest, extents)
    if lost:
        raise DataLossError(
            f"{sum(each.lost for each in lost)} of {manifest.span} offsets of window {manifest.window} are gone: "
            f"{shorten(map(str, lost))}. Retention or DeleteRecords removed them after the window was resolved. "
            "Nothing was read. on_data_loss='load_rest' loads the rest, and notes the loss."
        )
    _check_ends(manifest, extents)


def lost_ranges(manifest: Manifest, extents: LogExtents) -> list[LostRange]:
    """The ranges whose start the log start has passed, with exact counts.

    :raises OffsetsError: a partition can't be asked.
    """
    return list(_lost(manifest, extents.raise_for_errors()))


def without_lost(manifest: Manifest, extents: LogExtents) -> Manifest:
    """What is left of a window, with the loss written into its ranges."""

    def left(pinned: OffsetRange) -> OffsetRange:
        extent = extents.lookup(pinned.topic, pinned.partition)
        start = None if extent is None else extent.log_start_offset
        return pinned if start is None else pinned.from_log_start(start)

    return replace(manifest, ranges=tuple(map(left, manifest.ranges)))


def _lost(manifest: Manifest, extents: LogExtents) -> Iterable[LostRange]:
    for each in manifest.non_empty():
        extent = extents.lookup(each.topic, each.partition)
        assert extent is not None and extent.log_start_offset is not None
        if extent.log_start_offset > each.start_offset:
            lost = min(extent.log_start_offset, each.end_offset) - each.start_offset
            yield LostRange(each.topic, each.partition, each.start_offset, extent.log_start_offset, lost)


def _check_ends(manifest: Manifest, extents: LogExtents) -> None:
    beyond = []
    for each in manifest.non_empty():
        extent = extents.lookup(each.topic, each.partition)
        end = extent.end_offset(manifest.isolation_level) if extent else None
        assert end is not None
        if each.end_offset > end:
            beyond.append(f"{each.topic}-{each.partition} ends at {each.end_offset}, the log at {end}")
    if beyond:
        committed = manifest.isolation_level is IsolationLevel.READ_COMMITTED
        hint = " or an open transaction holds the last stable offset" if committed else ""
        raise LogTruncatedError(
            f"Window {manifest.window} reaches past the log: {shorten(beyond)}. The log was truncated{hint}. "
            "Nothing was read."
        )
