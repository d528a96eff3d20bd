"""Pre-flight check: asks Kafka, before a Spark cluster starts, whether a pinned window can still be read exactly."""

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
    """The window in a revision that can be read: as pinned; or, if records are deleted and the user accepts that, its
    next revision, which starts at the log start offsets and records the loss. The ledger notes a loss either way.

    :raises TopicChangedError: for another cluster, or a topic that is missing or was re-created.
    :raises DataLossError: when records of the window are deleted; names partitions and exact counts.
    :raises LogTruncatedError: when the window ends past the end of a log, or a log was truncated and has grown again.
    :raises OffsetsError: when a partition can't be asked.
    """
    manifest = pinned.manifest
    with telling_leftovers(ledger):
        extents = _extents(client, manifest)
    lost = lost_ranges(manifest, extents)
    if lost:
        ledger.folder_of(pinned).record_loss(lost, now_ms())
        if on_data_loss == "load_rest":
            # Start from the newest revision, which may have lost records before.
            newest = (ledger.settled(manifest.window) or pinned).manifest
            extents = _extents(client, newest)
            pinned = ledger.window_folders.pin_again(without_lost(newest, extents))
    check_ranges(pinned.manifest, extents)
    refuse_rewritten_window(client, ledger, pinned.manifest)
    return pinned


def changed_since(client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest) -> str | None:
    """How a window's topics and logs have changed since it was resolved, in words; None if they haven't.

    Retention is no change. A change doesn't invalidate what was read before it; the run's result alone says what that
    is.

    :raises LogTruncatedError: when a log was truncated below the window's start before the window's end was resolved.
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
    """Refuse a window whose topics or logs have changed since it was resolved. Retention is no change.

    :returns: the topics' current facts.
    :raises TopicChangedError: for another cluster, or a topic that is missing or was re-created.
    :raises LogTruncatedError: when a log was truncated below the window's start or end, even if it has grown again.
    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    manifest = pinned.manifest
    facts = client.topic_facts(sorted(manifest.topics))
    with telling_leftovers(ledger):
        check_topics(manifest, client.cluster_id(), facts)
    refuse_rewritten_window(client, ledger, manifest)
    return facts


def source_now(client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest) -> Source:
    """The cluster and topics that a window is read from, as Kafka describes them now.

    :raises WindowError: as :func:`refuse_changed`.
    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    facts = refuse_changed(client, ledger, pinned)
    topic_ids = {topic: facts[topic].topic_id for topic in topics_read(pinned.manifest)}
    uncut = len(with_epoch(pinned.manifest)) if tells_epochs(topic_ids) else None
    return Source(client.cluster_id(), topic_ids, uncut, now_ms())


def refuse_rewritten_window(client: OffsetsClient, ledger: Ledger, manifest: Manifest) -> None:
    """Refuse a window when a log was truncated below its start or its end since that was resolved. Both are checked: if
    the log was truncated after the start was resolved but before the end was, only the start shows it.

    :raises: as :func:`refuse_rewritten`.
    """
    for number in sorted({manifest.start_snapshot, manifest.end_snapshot}):
        refuse_rewritten(client, ledger.snapshots.read(number))


def _refuse_cut_between(client: OffsetsClient, ledger: Ledger, manifest: Manifest) -> None:
    """Refuse a window when a log was truncated below its start, but not below its end. The end was then resolved after
    the truncation, and the records that replaced those before the start are in no window. If the log was truncated
    below both, that happened after the window was resolved."""
    cut, cut_since = (
        cut_below(seen_in(snapshot), _epoch_ends(client, snapshot))
        for snapshot in map(ledger.snapshots.read, (manifest.start_snapshot, manifest.end_snapshot))
    )
    between = [words for key, words in cut.items() if key not in cut_since]
    if between:
        raise LogTruncatedError(
            f"Logs were truncated below the start of window {manifest.window} before its end was resolved: "
            f"{shorten(between)}. A replica that was behind is the leader now (unclean leader election), and the "
            f"records it accepted below that start are in no window. Forget this window. {FORGET_PAST}"
        )


def refuse_rewritten(client: OffsetsClient, snapshot: OffsetSnapshot) -> None:
    """Refuse a snapshot whose offsets belong to other records now (S15): an unclean leader election truncated a log
    below them, and it has grown again. Leader epochs show that (KIP-101); the log end shows it only while it is still
    below the snapshot.

    A warning is logged when it can't be known: the brokers are too old to answer, or the snapshot or the log has no
    leader epoch, as with records written before Kafka 0.11.

    :raises LogTruncatedError: naming partitions, and where they were truncated.
    :raises OffsetsError: naming partitions that couldn't be asked for another reason, or whose log hasn't reached the
        snapshot's epoch; it is unknown whether they were truncated.
    """
    seen, ends = seen_in(snapshot), _epoch_ends(client, snapshot)
    cut = cut_below(seen, ends)
    if cut:
        raise LogTruncatedError(
            f"Logs were truncated after the snapshot at {snapshot.as_of} and hold other records now: "
            f"{shorten(cut.values())}. A replica that was behind is the leader now (unclean leader election). "
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
            "It is unknown whether a log was truncated below the snapshot at %s and has grown again: %s",
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
    for pinned in manifest.non_empty():
        extent = extents.lookup(pinned.topic, pinned.partition)
        assert extent is not None and extent.log_start_offset is not None
        rest = pinned.from_log_start(extent.log_start_offset)
        if rest is not pinned:
            lost.append(pinned.log_range._replace(end_offset=rest.start_offset))
    return lost


def without_lost(manifest: Manifest, extents: LogExtents) -> Manifest:
    """What is left of a window, with the loss recorded in its ranges."""

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
        hint = ", or an open transaction holds back its last stable offset" if committed else ""
        raise LogTruncatedError(
            f"Window {manifest.window} reaches past the end of the log: {shorten(beyond)}. The log was "
            f"truncated{hint}. Nothing was read."
        )
