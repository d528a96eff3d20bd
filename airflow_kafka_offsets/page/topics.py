"""The topics of a pipeline, as its newest snapshot has them."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts


def topic_facts(ledger: Ledger) -> Mapping[str, TopicFacts]:
    """The topics of the newest snapshot, without those that have begun anew since.

    :raises LedgerError: when the snapshot can't be read or is damaged.
    """
    newest = ledger.state.newest_snapshot
    if newest is None:
        return {}
    return ledger.offsets_now(newest.at_ms).topics


def topic_names(ledger: Ledger) -> tuple[str, ...]:
    """The topics of the newest snapshot; before the first one, those that the ledger was created with.

    :raises LedgerError: when the snapshot can't be read or is damaged.
    """
    state = ledger.state
    if state.newest_snapshot is not None:
        return tuple(sorted(ledger.offsets_at(state.newest_snapshot.at_ms).topics))
    return () if state.created is None else state.created.topics


def shortest_retention(topics: Mapping[str, TopicFacts]) -> int | None:
    """The shortest retention of some topics, milliseconds; -1 if all are kept forever, as compacted topics are; None if
    it isn't known for one of them."""
    kept = [_kept_ms(topic) for topic in topics.values()]
    if not kept or None in kept:
        return None
    return min((ms for ms in kept if ms is not None and ms >= 0), default=-1)


def _kept_ms(topic: TopicFacts) -> int | None:
    if topic.cleanup_policy is not None and "delete" not in topic.cleanup_policy:
        return -1
    return None if topic.cleanup_policy is None else topic.retention_ms
