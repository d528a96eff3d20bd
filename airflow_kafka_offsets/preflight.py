"""Pre-flight: asks Kafka, before a Spark cluster starts, whether a pinned window can still be read, exactly."""

from __future__ import annotations

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LogTruncatedError, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.extents import LogExtents
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.preflight import check_ranges, check_topics, clamp_lost, lost_ranges
from airflow_kafka_offsets.offsets.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows import TruncationPolicy


def readable(
    client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, on_truncation: TruncationPolicy = "fail"
) -> PinnedManifest:
    """The window as it can be read: as it was pinned; or, where records are gone and the user takes that, as its next
    revision, which begins where the logs do and says what is lost. A loss is noted in the ledger either way.

    :raises TopicChangedError: another cluster, a topic that is missing or was re-created.
    :raises DataLossError: records of the window are gone; names partitions and exact counts.
    :raises LogTruncatedError: the window reaches past the end of the log, or the log was cut and has grown again.
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
    refuse_rewritten(client, ledger.snapshots.read(manifest.end_snapshot))
    return pinned


def refuse_rewritten(client: OffsetsClient, snapshot: OffsetSnapshot) -> None:
    """Refuse to go on from offsets that a log has given to other records since (S15): an unclean leader election cut it
    below them, and it has grown again. Where the log still ends below, log ends tell; here leader epochs do (KIP-101).

    :raises LogTruncatedError: naming partitions, and where they were cut.
    """
    epochs = {key: each.leader_epoch for key, each in snapshot.boundaries.items() if each.leader_epoch is not None}
    cut = [
        f"{each.topic}-{each.partition} was cut at {each.end_offset}, below {known.offset}"
        for each in client.epoch_ends(epochs)
        if (known := snapshot.boundaries[TopicPartition(each.topic, each.partition)])
        and each.end_offset is not None
        and each.end_offset < known.offset
    ]
    if cut:
        raise LogTruncatedError(
            f"Logs were truncated after the snapshot at {snapshot.as_of} and hold other records now: {shorten(cut)}. A "
            "replica that was behind leads now (unclean leader election). Nothing was read. Forget the windows "
            "between instants that end past there, or start another pipeline."
        )


def _extents(client: OffsetsClient, manifest: Manifest) -> LogExtents:
    check_topics(manifest, client.cluster_id(), client.topic_facts(sorted(manifest.topics)))
    return client.log_extents([TopicPartition(each.topic, each.partition) for each in manifest.non_empty()])
