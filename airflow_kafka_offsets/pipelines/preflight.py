"""Pre-flight check: asks Kafka, before a Spark cluster starts, whether a pinned window can still be read exactly."""

from __future__ import annotations

from dataclasses import replace

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import DataLossError, LogTruncatedError, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.leftovers import telling_leftovers
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.answers.logs import LogExtents
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.offsets.windows.truncation import (
    SeenOffset,
    refuse_later_epochs,
)
from airflow_kafka_offsets.pipelines.log_changes import refuse_rewritten_window


def readable(
    client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, on_data_loss: DataLossPolicy = "fail"
) -> PinnedManifest:
    """The window in a revision that can be read: as pinned; or, if records are deleted and the user accepts that, its
    next revision, which starts at the log start offsets and records the loss. The ledger notes a loss either way.

    :raises TopicChangedError: for another cluster, or a topic that is missing or was re-created.
    :raises DataLossError: when records of the window are deleted; names partitions and exact counts.
    :raises LogTruncatedError: when the window ends past the end of a log, or a log was truncated and has grown again.
    :raises WindowOverlapError: when the window is resolved again at the same moment; a retry can succeed.
    :raises OffsetsError: when a partition can't be asked.
    """
    manifest = pinned.manifest
    with telling_leftovers(ledger):
        extents = _extents(client, manifest)
    lost = lost_ranges(manifest, extents)
    if lost:
        ledger.window_folders.of(pinned).record_loss(lost, now_ms())
        if on_data_loss == "load_rest":
            # Start from the newest revision, which may have lost records before.
            newest = (ledger.settled(manifest.window) or pinned).manifest
            extents = _extents(client, newest)
            pinned = ledger.window_folders.pin_again(without_lost(newest, extents))
    check_ranges(pinned.manifest, extents)
    refuse_rewritten_window(client, ledger, pinned.manifest)
    return pinned


def _extents(client: OffsetsClient, manifest: Manifest) -> LogExtents:
    check_topics(manifest, client.cluster_id(), client.topic_facts(sorted(manifest.topics)))
    return client.log_extents([TopicPartition.of(each) for each in manifest.non_empty()])


def check_ranges(manifest: Manifest, extents: LogExtents) -> None:
    """Refuse a window whose records aren't all there.

    :param extents: where the logs of the window's non-empty ranges start and end now.
    :raises OffsetsError: when a partition can't be asked, or the leader that answered is older than the one at the
        window's end.
    :raises DataLossError: when a log start offset is past a range's start; names partitions and exact counts (S12).
    :raises LogTruncatedError: when a range ends past the end of the log (S15).
    """
    lost = lost_ranges(manifest, extents)
    if lost:
        raise DataLossError(
            f"{sum(loss.span for loss in lost)} of {manifest.span} offsets of window {manifest.window} are gone: "
            f"{shorten(map(str, lost))}. Retention or DeleteRecords removed them after the window was resolved. "
            "Nothing was read. on_data_loss='load_rest' loads the remaining records and records the loss."
        )
    _check_ends(manifest, extents)


def lost_ranges(manifest: Manifest, extents: LogExtents) -> list[LogRange]:
    """The exact parts of the ranges below the log start offsets.

    :raises OffsetsError: when a partition can't be asked.
    """
    extents.raise_for_errors()
    lost = []
    for each in manifest.non_empty():
        extent = extents.lookup(each.topic, each.partition)
        assert extent is not None and extent.log_start_offset is not None
        rest = each.from_log_start(extent.log_start_offset)
        if rest is not each:
            lost.append(each.log_range._replace(end_offset=rest.start_offset))
    return lost


def without_lost(manifest: Manifest, extents: LogExtents) -> Manifest:
    """What is left of a window, with the loss recorded in its ranges."""

    def left(offset_range: OffsetRange) -> OffsetRange:
        extent = extents.lookup(offset_range.topic, offset_range.partition)
        start = None if extent is None else extent.log_start_offset
        return offset_range if start is None else offset_range.from_log_start(start)

    return replace(manifest, ranges=tuple(map(left, manifest.ranges)))


def _check_ends(manifest: Manifest, extents: LogExtents) -> None:
    beyond, ends = [], []
    for each in manifest.non_empty():
        extent = extents.lookup(each.topic, each.partition)
        end = extent.end_offset(manifest.isolation_level) if extent else None
        assert end is not None
        if each.end_offset > end:
            beyond.append(f"{each.topic}-{each.partition} ends at {each.end_offset}, the log at {end}")
            ends.append(SeenOffset(each.topic, each.partition, each.end_offset, each.end_leader_epoch))
    refuse_later_epochs(ends, extents.leader_epoch)
    if beyond:
        committed = manifest.isolation_level is IsolationLevel.READ_COMMITTED
        hint = ", or an open transaction holds back its last stable offset" if committed else ""
        raise LogTruncatedError(
            f"Window {manifest.window} reaches past the end of the log: {shorten(beyond)}. The log was "
            f"truncated{hint}. Nothing was read."
        )
