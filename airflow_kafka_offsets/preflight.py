"""Pre-flight: asks Kafka, before a Spark cluster starts, whether a pinned window can still be read, exactly."""

from __future__ import annotations

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.extents import LogExtents
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.preflight import check_ranges, check_topics, clamp_lost, lost_ranges
from airflow_kafka_offsets.offsets.windows import TruncationPolicy


def readable(
    client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, on_truncation: TruncationPolicy = "fail"
) -> PinnedManifest:
    """The window as it can be read: as it was pinned; or, where records are gone and the user takes that, as its next
    revision, which begins where the logs do and says what is lost. A loss is noted in the ledger either way.

    :raises TopicChangedError: another cluster, a topic that is missing or was re-created.
    :raises DataLossError: records of the window are gone; names partitions and exact counts.
    :raises LogTruncatedError: the window reaches past the end of the log.
    """
    manifest = pinned.manifest
    extents = _extents(client, manifest)
    lost = lost_ranges(manifest, extents)
    if lost:
        ledger.folder_of(pinned).record_loss(lost, now_ms())
        if on_truncation == "clamp":
            # What is left of the newest revision, which may have lost some of it before.
            newest = ledger.pinned(manifest.window).manifest
            extents = _extents(client, newest)
            pinned = ledger.window_folders.pin_again(clamp_lost(newest, extents))
    check_ranges(pinned.manifest, extents)
    return pinned


def check_readable(client: OffsetsClient, manifest: Manifest) -> None:
    """Refuse a window that can no longer be read exactly.

    :raises: as :func:`readable`.
    """
    check_ranges(manifest, _extents(client, manifest))


def _extents(client: OffsetsClient, manifest: Manifest) -> LogExtents:
    check_topics(manifest, client.cluster_id(), client.topic_facts(sorted(manifest.topics)))
    return client.log_extents([TopicPartition(each.topic, each.partition) for each in manifest.non_empty()])
