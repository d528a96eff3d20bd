"""Restarts: which topics of a pipeline began anew in Kafka since their newest snapshot.

A topic that was re-created, a log that was truncated, a cluster that was replaced: in all of them, the offsets of the
ledger belong to records that are gone. :func:`.corrections.restart` records it, if this finds that it is so.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LedgerConflictError, TopicChangedError, shorten
from airflow_kafka_offsets.ledger.corrections import ends_on
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import is_another, topic_change
from airflow_kafka_offsets.offsets.windows.truncation import refuse_unanswered, seen_in, truncated_below
from airflow_kafka_offsets.pipelines.log_changes import epoch_ends


def restart_found(client: OffsetsClient, ledger: Ledger) -> Restarted:
    """The restart that Kafka shows, without its place in time.

    :raises LedgerConflictError: when there is no change.
    :raises TopicChangedError: when a topic doesn't exist now.
    :raises OffsetsError: when a topic or a leader can't be asked.
    """
    stored = _newest(ledger)
    cluster_id = client.cluster_id()
    facts = client.topic_facts(sorted(stored.topics))
    missing = sorted(stored.topics.keys() - facts.keys())
    if missing:
        raise TopicChangedError(
            f"Topic {shorten(missing)} doesn't exist on cluster {cluster_id}. Create it first.", topic=missing[0]
        )
    if is_another(ledger.state.cluster_id, cluster_id):
        return _moved(client, ledger, facts, cluster_id)
    newest = ledger.offsets_now(stored.timestamp_ms)
    if not newest.topics:
        raise LedgerConflictError(
            f"{shorten(sorted(stored.topics))} of pipeline {ledger.pipeline}: restarted already, the next snapshot "
            "begins the new log. If that restart was wrong, take it away: kafka-offsets ledger list shows its time, "
            "kafka-offsets ledger rewind goes back to it."
        )
    made_anew = {topic: change for topic, old in newest.topics.items() if (change := topic_change(old, facts[topic]))}
    truncated = _truncated(client, newest.without(made_anew))
    changes = {*made_anew, *(place.topic for place in truncated)}
    if not changes:
        raise LedgerConflictError(
            f"Nothing is restarted: Kafka shows no change of {shorten(sorted(newest.topics))} since the snapshot at "
            f"{iso_instant(newest.timestamp_ms)}. Cluster ({cluster_id}), topic ids and partitions are the same, and "
            "no log was truncated below it. If the ledger is wrong for another reason, use kafka-offsets ledger rewind."
        )
    why = shorten([*made_anew.values(), *truncated.values()])
    return Restarted(now_ms(), tuple(sorted(changes)), why, truncated=tuple(truncated))


def _moved(client: OffsetsClient, ledger: Ledger, facts: Mapping[str, TopicFacts], cluster_id: str) -> Restarted:
    """The restart of all topics on another cluster. Logs that it had windows of there go on where these
    ended, unless they were re-created since."""
    why, resumed = f"the cluster was {ledger.state.cluster_id}, and is {cluster_id} now", None
    seen = ends_on(ledger.state, cluster_id, ledger.contents)
    if seen is not None:
        known = seen.without([topic for topic, old in seen.topics.items() if topic_change(old, facts.get(topic))])
        truncated = _truncated(client, known)
        resumed = known.begun_anew((), truncated, None) if known.topics else None
        why = shorten([why, *truncated.values()])
    if resumed is not None:
        why += f"; {shorten(sorted(resumed.topics))} goes on where the windows on that cluster ended"
    return Restarted(now_ms(), tuple(sorted(facts)), why, cluster_id, resumed=resumed)


def _newest(ledger: Ledger) -> OffsetSnapshot:
    """The newest snapshot, as it is stored."""
    newest = ledger.state.newest_snapshot
    if newest is None:
        raise LedgerConflictError(f"Pipeline {ledger.pipeline} has no snapshot, so there is nothing to restart.")
    return ledger.offsets_at(newest.at_ms)


def _truncated(client: OffsetsClient, newest: OffsetSnapshot) -> dict[SeenOffset, str]:
    """Where logs were truncated below a snapshot, by their leader epochs or else by their ends, and that in words."""
    seen = seen_in(newest)
    ends = epoch_ends(client, seen)
    refuse_unanswered(ends)
    extents = client.log_extents(newest.boundaries).raise_for_errors()
    found: dict[SeenOffset, str] = {}
    by_epoch = truncated_below(seen, ends)
    for each in seen:
        key, end, extent = TopicPartition.of(each), ends.lookup(*each[:2]), extents.lookup(*each[:2])
        if key in by_epoch and end is not None and end.end_offset is not None:
            found[SeenOffset(*key, end.end_offset, end.leader_epoch)] = by_epoch[key]
        elif extent is not None and extent.high_watermark is not None and extent.ends_before(each.offset):
            place = SeenOffset(*key, extent.high_watermark, extent.leader_epoch)
            found[place] = f"{key} ends at {place.offset}, below {each.offset}"
    return found
