"""Topic identity: whether the cluster and topics are still the ones that some offsets belong to.

Offsets are only numbers: a re-created topic, and another cluster behind the same address, use the same offsets for
other records. Topic ids are never reused (KIP-516), so a topic that has its id after a read had it during the read;
brokers before 2.8 have none. Whether a log was truncated is another question: :mod:`.truncation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_kafka_offsets.errors import TopicChangedError
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts


class Resolved(Protocol):
    """What was resolved on a cluster: a snapshot or a manifest."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def topics(self) -> Mapping[str, TopicFacts]: ...

    @property
    def title(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Source:
    """What a cluster said about itself and a window's topics after they were read.

    :param cluster_id: the cluster's id.
    :param topic_ids: topic ids by name (KIP-516); None from brokers before 2.8, which have none.
    :param asked_ms: when the cluster was asked, Unix milliseconds.
    """

    cluster_id: str
    topic_ids: Mapping[str, str | None]
    asked_ms: int


def is_another(known: str | None, found: str | None) -> bool:
    """Whether two ids differ; False when one is unknown."""
    return None not in (known, found) and known != found


def topic_change(known: TopicFacts, now: TopicFacts | None) -> str | None:
    """What has become of a topic since it was resolved, in words; None if it is the same.

    :param now: what the cluster says about it; None when it isn't there.
    """
    if now is None:
        return f"topic {known.topic} no longer exists"
    if is_another(known.topic_id, now.topic_id):
        return f"topic {known.topic} was re-created (its id was {known.topic_id}, and is {now.topic_id} now)"
    if now.partition_count < known.partition_count:
        counts = f"it had {known.partition_count} partitions, and has {now.partition_count} now"
        return f"topic {known.topic} was re-created ({counts})"
    return None


def check_topics(known: Resolved, cluster_id: str, topics: Mapping[str, TopicFacts], *, all_there: bool = True) -> None:
    """Refuse a window or snapshot whose topics are no longer the ones that it was resolved on. Asked before anything
    about logs: one of a topic that was re-created may seem truncated.

    :param cluster_id: the cluster that the connection reaches now.
    :param topics: what that cluster says about the topics now.
    :param all_there: whether a topic that isn't among these is missing on the cluster.
    :raises TopicChangedError: when it is another cluster, or a topic is missing or was re-created (E24, S16).
    """
    if cluster_id != known.cluster_id:
        raise TopicChangedError(
            f"{known.title[0].upper()}{known.title[1:]} was resolved on cluster {known.cluster_id}, but the connection "
            f"reaches {cluster_id}. Nothing was done. Use the right connection; or, if this cluster has taken the "
            "other one's place, run kafka-offsets ledger restart for the pipeline."
        )
    for topic, facts in sorted(known.topics.items()):
        change = topic_change(facts, topics.get(topic)) if all_there or topic in topics else None
        if change is not None:
            then = (
                "its offsets belong to other records. Nothing was done. Run kafka-offsets ledger restart for the "
                "pipeline: its windows stay as they are, and the next one begins the new topic."
                if topic in topics
                else "nothing was done. Once it is there again, kafka-offsets ledger restart begins it anew."
            )
            raise TopicChangedError(
                f"{change[0].upper()}{change[1:]} since {known.title} was resolved: {then}", topic=topic
            )


def identity_problems(
    pinned: Resolved, read: Iterable[str], cluster_id: str, topic_ids: Mapping[str, str | None]
) -> Iterator[str]:
    """How a cluster differs from the one that a window was resolved on, in words.

    :param read: topics that the window has offsets on.
    :param topic_ids: the ids that the cluster reports for them.
    """
    if cluster_id != pinned.cluster_id:
        yield f"it belongs to cluster {pinned.cluster_id}, but this is {cluster_id}"
        return
    for topic in read:
        resolved, found = pinned.topics[topic].topic_id, topic_ids.get(topic)
        if resolved is not None and resolved != found:
            yield f"topic {topic} was re-created (its id was {resolved}, and is now {found})"
