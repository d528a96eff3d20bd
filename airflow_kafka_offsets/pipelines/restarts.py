"""Restarts: which topics of a pipeline began anew in Kafka since their newest snapshot.

A topic that was re-created, a log that was truncated, a cluster that was replaced: in all of them, the offsets of the
ledger belong to records that are gone. :func:`.decisions.restart` records it, if this finds that it is so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, TopicChangedError, shorten
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import is_another
from airflow_kafka_offsets.offsets.windows.truncation import refuse_unanswered, seen_in, truncated_below
from airflow_kafka_offsets.pipelines.log_changes import epoch_ends


def restart_found(client: OffsetsClient, ledger: Ledger, topics: Collection[str] | None = None) -> Restarted:
    """The restart that Kafka shows, without its place in time.

    :param topics: look at these topics alone; None for all of the newest snapshot.
    :raises LedgerConflictError: when there is no change, or none of these topics has one.
    :raises ConfigurationError: when a topic isn't the pipeline's; or when only some are named, but the cluster is
        another one.
    :raises TopicChangedError: when a topic doesn't exist now.
    :raises OffsetsError: when a topic or a leader can't be asked.
    """
    known = _known(ledger, ledger.state)
    wanted = _wanted(known, topics)
    cluster_id = client.cluster_id()
    facts = client.topic_facts(sorted(wanted))
    missing = sorted(wanted - facts.keys())
    if missing:
        raise TopicChangedError(
            f"Topic {shorten(missing)} doesn't exist on cluster {cluster_id}. Create it first, or name the others with "
            "--topics.",
            topic=missing[0],
        )
    if is_another(ledger.state.cluster_id, cluster_id):
        if wanted != known.topics.keys():
            others = shorten(sorted(known.topics.keys() - wanted))
            raise ConfigurationError(
                f"The pipeline is on cluster {cluster_id} now, and was on {ledger.state.cluster_id}: all of its topics "
                f"restart, {others} too. Leave --topics out."
            )
        moved = f"the cluster was {ledger.state.cluster_id}, and is {cluster_id} now"
        return Restarted(now_ms(), tuple(sorted(wanted)), moved, cluster_id)
    left = known.without(known.topics.keys() - wanted)
    made_anew = {topic: words for topic in left.topics for words in _identity(left.topics[topic], facts[topic])}
    truncated = _truncated(client, left.without(made_anew))
    changes = {*made_anew, *(place.topic for place in truncated)}
    if not changes:
        raise LedgerConflictError(
            f"Nothing is restarted: Kafka shows no change of {shorten(sorted(wanted))} since the snapshot at "
            f"{iso_instant(known.timestamp_ms)}. Cluster ({cluster_id}), topic ids and partitions are the same, and no "
            "log was truncated below it. If the ledger is wrong for another reason, use kafka-offsets ledger rewind."
        )
    why = shorten([*made_anew.values(), *truncated.values()])
    return Restarted(now_ms(), tuple(sorted(changes)), why, truncated=tuple(truncated))


def _known(ledger: Ledger, state: State) -> OffsetSnapshot:
    """The newest snapshot, without topics that were restarted after it."""
    newest = state.newest_snapshot
    if newest is None:
        raise LedgerConflictError(f"Pipeline {ledger.pipeline} has no snapshot, so there is nothing to restart.")
    known = state.anew(ledger.contents.snapshot(newest.offsets), newest.at_ms, newest.at_ms + 1)
    if not known.topics:
        raise LedgerConflictError(
            f"The topics of pipeline {ledger.pipeline} were restarted already: the next snapshot begins them anew."
        )
    return known


def _wanted(known: OffsetSnapshot, topics: Collection[str] | None) -> set[str]:
    if topics is None:
        return set(known.topics)
    strange = sorted(set(topics) - known.topics.keys())
    if strange:
        raise ConfigurationError(
            f"The newest snapshot doesn't have {shorten(strange)}, or was followed by its restart. It has "
            f"{shorten(sorted(known.topics))}."
        )
    return set(topics)


def _identity(old: TopicFacts, new: TopicFacts) -> Iterator[str]:
    if is_another(old.topic_id, new.topic_id):
        yield f"topic {old.topic} was re-created (its id was {old.topic_id}, and is {new.topic_id} now)"
    elif new.partition_count < old.partition_count:
        counts = f"it had {old.partition_count} partitions, and has {new.partition_count} now"
        yield f"topic {old.topic} was re-created ({counts})"


def _truncated(client: OffsetsClient, known: OffsetSnapshot) -> dict[SeenOffset, str]:
    """Where logs were truncated below a snapshot, by their leader epochs or else by their ends, and that in words."""
    seen = seen_in(known)
    ends = epoch_ends(client, seen)
    refuse_unanswered(ends)
    extents = client.log_extents(known.boundaries).raise_for_errors()
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
