"""Pre-flight: asks Kafka, before a Spark cluster starts, whether a pinned window can still be read, exactly."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import DataLossError, LogTruncatedError, WindowError, shorten
from airflow_kafka_offsets.ledger.holes import telling_leftovers
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.answers.logs import FORGET_PAST, EpochEnds, LogEpoch, LogExtents
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.kafka_source import Source, tells_epochs, topics_read, with_epoch
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import DataLossPolicy, OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot, TopicFacts
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.offsets.windows.truncation import (
    SeenOffset,
    cut_below,
    not_known,
    refuse_later_epochs,
    refuse_unanswered,
    seen_in,
    untold,
)

log = logging.getLogger(__name__)


def readable(
    client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, on_data_loss: DataLossPolicy = "fail"
) -> PinnedManifest:
    """The window as it can be read: as it was pinned; or, where records are gone and the user takes that, as its next
    revision, which begins where the logs do and says what is lost. A loss is noted in the ledger either way.

    :raises TopicChangedError: another cluster, a topic that is missing or was re-created.
    :raises DataLossError: records of the window are gone; names partitions and exact counts.
    :raises LogTruncatedError: the window reaches past the end of the log, or the log was cut and has grown again.
    :raises OffsetsError: a partition can't be asked.
    """
    manifest = pinned.manifest
    with telling_leftovers(ledger):
        extents = _extents(client, manifest)
    lost = lost_ranges(manifest, extents)
    if lost:
        ledger.folder_of(pinned).record_loss(lost, now_ms())
        if on_data_loss == "load_rest":
            # What is left of the newest revision, which may have lost some of it before.
            newest = (ledger.settled(manifest.window) or pinned).manifest
            extents = _extents(client, newest)
            pinned = ledger.window_folders.pin_again(without_lost(newest, extents))
    check_ranges(pinned.manifest, extents)
    refuse_rewritten_window(client, ledger, pinned.manifest)
    return pinned


def changed_since(client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest) -> str | None:
    """What has become of a window's topics and logs since it was resolved, in words; None where they are as they were.

    Retention is no change. What was read before stays right: what was read is told by the result of the run alone.

    :raises LogTruncatedError: when a log was cut below the window's start before its end was resolved.
    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    manifest = pinned.manifest
    try:
        refuse_changed(client, ledger, pinned)
    except LogTruncatedError as error:
        _refuse_cut_between(client, ledger, manifest)
        return str(error)
    except WindowError as error:
        return str(error)
    return None


def refuse_changed(client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest) -> Mapping[str, TopicFacts]:
    """Refuse a window whose topics and logs aren't those any more that it was resolved on. Retention is no change.

    :returns: what Kafka says of the topics.
    :raises TopicChangedError: another cluster, a topic that is missing or was re-created.
    :raises LogTruncatedError: a log was cut below the window's start or end, though it may have grown again since.
    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    manifest = pinned.manifest
    facts = client.topic_facts(sorted(manifest.topics))
    with telling_leftovers(ledger):
        check_topics(manifest, client.cluster_id(), facts)
    refuse_rewritten_window(client, ledger, manifest)
    return facts


def source_now(client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest) -> Source:
    """Where a window is read from, as Kafka tells it at this moment.

    :raises WindowError: as :func:`refuse_changed`.
    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    facts = refuse_changed(client, ledger, pinned)
    topic_ids = {topic: facts[topic].topic_id for topic in topics_read(pinned.manifest)}
    uncut = len(with_epoch(pinned.manifest)) if tells_epochs(topic_ids) else None
    return Source(client.cluster_id(), topic_ids, uncut, now_ms())


def refuse_rewritten_window(client: OffsetsClient, ledger: Ledger, manifest: Manifest) -> None:
    """Refuse a window whose start or end is of a log that was cut below it. The start too: where the log was cut
    between the two, the end is of the log as it is now.

    :raises: as :func:`refuse_rewritten`.
    """
    for number in sorted({manifest.start_snapshot, manifest.end_snapshot}):
        refuse_rewritten(client, ledger.snapshots.read(number))


def _refuse_cut_between(client: OffsetsClient, ledger: Ledger, manifest: Manifest) -> None:
    """Refuse a window whose start is of a log that was cut below it, and whose end isn't: that is of the log as it was
    after the cut, so that what the log took in place of the records before the start is in no window. Where both are
    cut, the log was cut after the window had been resolved."""
    cut, cut_since = (
        cut_below(seen_in(snapshot), _epoch_ends(client, snapshot))
        for snapshot in map(ledger.snapshots.read, (manifest.start_snapshot, manifest.end_snapshot))
    )
    between = [words for key, words in cut.items() if key not in cut_since]
    if between:
        raise LogTruncatedError(
            f"Window {manifest.window} starts where logs were truncated before its end was resolved: "
            f"{shorten(between)}. A replica that was behind leads now (unclean leader election), and the "
            f"records it accepted up to there are in no window. Forget this window. {FORGET_PAST}"
        )


def refuse_rewritten(client: OffsetsClient, snapshot: OffsetSnapshot) -> None:
    """Refuse to go on from offsets that a log has given to other records since (S15): an unclean leader election cut it
    below them, and it has grown again. Where the log still ends below, log ends tell; here leader epochs do (KIP-101).

    Where nobody can know, a warning says so: the brokers are too old to tell, or the snapshot or the log has no epoch,
    as of records written before Kafka 0.11.

    :raises LogTruncatedError: naming partitions, and where they were cut.
    :raises OffsetsError: naming partitions that couldn't be asked for another reason, or whose log hasn't come to the
        snapshot's epoch; whether they were cut is open.
    """
    seen, ends = seen_in(snapshot), _epoch_ends(client, snapshot)
    cut = cut_below(seen, ends)
    if cut:
        raise LogTruncatedError(
            f"Logs were truncated after the snapshot at {snapshot.as_of} and hold other records now: "
            f"{shorten(cut.values())}. A replica that was behind leads now (unclean leader election). "
            f"{FORGET_PAST}"
        )
    refuse_unanswered(ends)
    strange = not_known(seen, ends)
    if strange:
        metadata = client.topics({place.topic for place in strange}).raise_for_errors()
        refuse_later_epochs(strange, metadata.leader_epoch)
    unknown = list(untold(seen, ends))
    if unknown:
        log.warning(
            "Nobody can tell whether a log was truncated below the snapshot at %s and has grown again: %s",
            snapshot.as_of,
            shorten(unknown),
        )


def _epoch_ends(client: OffsetsClient, snapshot: OffsetSnapshot) -> EpochEnds:
    epochs = [
        LogEpoch(*key, boundary.leader_epoch)
        for key, boundary in snapshot.boundaries.items()
        if boundary.leader_epoch is not None
    ]
    return EpochEnds(client.epoch_ends(epochs).values() if epochs else ())


def _extents(client: OffsetsClient, manifest: Manifest) -> LogExtents:
    check_topics(manifest, client.cluster_id(), client.topic_facts(sorted(manifest.topics)))
    return client.log_extents([TopicPartition.of(pinned) for pinned in manifest.non_empty()])


def check_ranges(manifest: Manifest, extents: LogExtents) -> None:
    """Refuse a window whose records aren't all there.

    :param extents: where the logs of the window's non-empty ranges start and end now.
    :raises OffsetsError: a partition can't be asked, or an earlier leader answered than the one of the window's end.
    :raises DataLossError: the log start has passed a range's start; names partitions and exact counts (S12).
    :raises LogTruncatedError: a range ends past the end of the log (S15).
    """
    lost = lost_ranges(manifest, extents)
    if lost:
        raise DataLossError(
            f"{sum(loss.span for loss in lost)} of {manifest.span} offsets of window {manifest.window} are gone: "
            f"{shorten(map(str, lost))}. Retention or DeleteRecords removed them after the window was resolved. "
            "Nothing was read. on_data_loss='load_rest' loads the remaining records and notes the loss."
        )
    _check_ends(manifest, extents)


def lost_ranges(manifest: Manifest, extents: LogExtents) -> list[LogRange]:
    """What the log starts have passed of the ranges, exactly.

    :raises OffsetsError: a partition can't be asked.
    """
    extents.raise_for_errors()
    lost = []
    for pinned in manifest.non_empty():
        extent = extents.lookup(pinned.topic, pinned.partition)
        assert extent is not None and extent.log_start_offset is not None
        rest = pinned.from_log_start(extent.log_start_offset)
        if rest is not pinned:
            lost.append(pinned.log_range._replace(end_offset=rest.start_offset))
    return lost


def without_lost(manifest: Manifest, extents: LogExtents) -> Manifest:
    """What is left of a window, with the loss written into its ranges."""

    def left(pinned: OffsetRange) -> OffsetRange:
        extent = extents.lookup(pinned.topic, pinned.partition)
        start = None if extent is None else extent.log_start_offset
        return pinned if start is None else pinned.from_log_start(start)

    return replace(manifest, ranges=tuple(map(left, manifest.ranges)))


def _check_ends(manifest: Manifest, extents: LogExtents) -> None:
    beyond, ends = [], []
    for pinned in manifest.non_empty():
        extent = extents.lookup(pinned.topic, pinned.partition)
        end = extent.end_offset(manifest.isolation_level) if extent else None
        assert end is not None
        if pinned.end_offset > end:
            beyond.append(f"{pinned.topic}-{pinned.partition} ends at {pinned.end_offset}, the log at {end}")
            ends.append(SeenOffset(pinned.topic, pinned.partition, pinned.end_offset, pinned.end_leader_epoch))
    refuse_later_epochs(ends, extents.leader_epoch)
    if beyond:
        committed = manifest.isolation_level is IsolationLevel.READ_COMMITTED
        hint = " or an open transaction holds the last stable offset" if committed else ""
        raise LogTruncatedError(
            f"Window {manifest.window} reaches past the log: {shorten(beyond)}. The log was truncated{hint}. "
            "Nothing was read."
        )
