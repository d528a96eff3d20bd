"""Log changes: whether the topics and logs that a snapshot or window was resolved from are still the same.

Retention isn't a change: it removes records, and puts no others in their place. What it removed is a question for
:mod:`.preflight`. Whether a log was truncated is asked twice in a window's life: when it is pinned, and when it is
published.
"""

from __future__ import annotations

import logging

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LogTruncatedError, TopicChangedError, shorten
from airflow_kafka_offsets.offsets.answers.logs import EpochEnds, LogEpoch
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.kafka_source import Source, ends_seen, starts_seen, topics_read
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.offsets.windows.truncation import (
    RESTART,
    of_unknown_epochs,
    refuse_later_epochs,
    refuse_unanswered,
    seen_in,
    truncated_below,
    unknown_truncations,
)

log = logging.getLogger(__name__)


def changed_since(client: OffsetsClient, manifest: Manifest) -> str | None:
    """How a window's topics have changed since it was resolved, in words; None if they haven't. A change doesn't
    invalidate what was read before it.

    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    try:
        refuse_changed_topics(client, manifest)
    except TopicChangedError as error:
        return str(error)
    return None


def refuse_changed_topics(client: OffsetsClient, manifest: Manifest) -> Source:
    """Refuse a window whose topics have changed since it was resolved.

    :returns: the cluster and topics that it is read from, as Kafka describes them now.
    :raises TopicChangedError: for another cluster, or a topic that is missing or was re-created.
    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    cluster_id, facts = client.cluster_id(), client.topic_facts(sorted(manifest.topics))
    check_topics(manifest, cluster_id, facts)
    return Source(cluster_id, {topic: facts[topic].topic_id for topic in topics_read(manifest)}, now_ms())


def refuse_changed(client: OffsetsClient, manifest: Manifest) -> None:
    """Refuse a window whose topics or logs have changed since it was resolved. Retention is no change.

    :raises TopicChangedError: as :func:`refuse_changed_topics`.
    :raises LogTruncatedError: when a log was truncated below the window's start or end, even if it has grown again.
    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    refuse_changed_topics(client, manifest)
    # Both are checked: if the log was truncated after the start was resolved but before the end was, only the start
    # shows it.
    for seen in (ends_seen(manifest), starts_seen(manifest)):
        _refuse_truncated(client, seen, manifest.title)


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
    _refuse_truncated(client, seen_in(snapshot), snapshot.title)


def epoch_ends(client: OffsetsClient, seen: list[SeenOffset]) -> EpochEnds:
    """Where the leader epochs that offsets were seen under end, as far as they are known."""
    epochs = [LogEpoch(each.topic, each.partition, each.leader_epoch) for each in seen if each.leader_epoch is not None]
    return EpochEnds(client.epoch_ends(epochs).values() if epochs else ())


def _refuse_truncated(client: OffsetsClient, seen: list[SeenOffset], what: str) -> None:
    ends = epoch_ends(client, seen)
    truncated = truncated_below(seen, ends)
    if truncated:
        raise LogTruncatedError(
            f"Logs were truncated after {what} was resolved and hold other records now: "
            f"{shorten(truncated.values())}. A replica that was behind is the leader now (unclean leader election). "
            f"{RESTART}"
        )
    refuse_unanswered(ends)
    strange = of_unknown_epochs(seen, ends)
    if strange:
        metadata = client.topics({place.topic for place in strange}).raise_for_errors()
        refuse_later_epochs(strange, metadata.leader_epoch)
    unknown = list(unknown_truncations(seen, ends))
    if unknown:
        log.warning(
            "It is unknown whether a log was truncated below %s and has grown again: %s", what, shorten(unknown)
        )
