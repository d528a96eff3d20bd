"""Log changes: whether the topics and logs that a snapshot or window was resolved from are still the same.

Retention isn't a change: it removes records, and puts no others in their place. What it removed is a question for
:mod:`.preflight`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LogTruncatedError, WindowError, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.leftovers import telling_leftovers
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.answers.logs import EpochEnds, LogEpoch
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.windows.kafka_source import Source, tells_epochs, topics_read, with_epoch
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.offsets.windows.truncation import (
    FORGET_PAST,
    not_known,
    refuse_later_epochs,
    refuse_unanswered,
    seen_in,
    truncated_below,
    untold,
)

log = logging.getLogger(__name__)


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
        _refuse_truncated_between(client, ledger, manifest)
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
    intact = len(with_epoch(pinned.manifest)) if tells_epochs(topic_ids) else None
    return Source(client.cluster_id(), topic_ids, intact, now_ms())


def refuse_rewritten_window(client: OffsetsClient, ledger: Ledger, manifest: Manifest) -> None:
    """Refuse a window when a log was truncated below its start or its end since that was resolved. Both are checked: if
    the log was truncated after the start was resolved but before the end was, only the start shows it.

    :raises: as :func:`refuse_rewritten`.
    """
    for number in sorted({manifest.start_snapshot, manifest.end_snapshot}):
        refuse_rewritten(client, ledger.snapshots.read(number))


def _refuse_truncated_between(client: OffsetsClient, ledger: Ledger, manifest: Manifest) -> None:
    """Refuse a window when a log was truncated below its start, but not below its end. The end was then resolved after
    the truncation, and the records that replaced those before the start are in no window. If the log was truncated
    below both, that happened after the window was resolved."""
    truncated, since = (
        truncated_below(seen_in(snapshot), _epoch_ends(client, snapshot))
        for snapshot in map(ledger.snapshots.read, (manifest.start_snapshot, manifest.end_snapshot))
    )
    between = [words for key, words in truncated.items() if key not in since]
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
    truncated = truncated_below(seen, ends)
    if truncated:
        raise LogTruncatedError(
            f"Logs were truncated after {snapshot.title} and hold other records now: "
            f"{shorten(truncated.values())}. A replica that was behind is the leader now (unclean leader election). "
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
            "It is unknown whether a log was truncated below %s and has grown again: %s",
            snapshot.title,
            shorten(unknown),
        )


def _epoch_ends(client: OffsetsClient, snapshot: OffsetSnapshot) -> EpochEnds:
    epochs = [
        LogEpoch(*key, boundary.leader_epoch)
        for key, boundary in snapshot.boundaries.items()
        if boundary.leader_epoch is not None
    ]
    return EpochEnds(client.epoch_ends(epochs).values() if epochs else ())
