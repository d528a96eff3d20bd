"""Log changes: whether the topics and logs that a snapshot or window was resolved from are still the same.

Retention isn't a change: it removes records, and puts no others in their place. What it removed is a question for
:mod:`.preflight`. Whether a log was truncated is asked twice in a window's life: when it is pinned, and when it is
published.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TypeVar

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata
from airflow_kafka_offsets.errors import KafkaOffsetsError, OffsetsError, TopicChangedError, or_error, shorten
from airflow_kafka_offsets.offsets.answers.logs import EpochEnds, LogEpoch
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows import truncation
from airflow_kafka_offsets.offsets.windows.kafka_source import Source, ends_seen, starts_seen, topics_read
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.offsets.windows.truncation import RESTART, seen_in

log = logging.getLogger(__name__)

K = TypeVar("K")
R = TypeVar("R")


def changed_since_each(
    client: OffsetsClient, manifests: Mapping[K, Manifest]
) -> dict[K, str | KafkaOffsetsError | None]:
    """For each of several windows, how its topics have changed since it was resolved, in words; None if they haven't;
    or why Kafka can't be asked about it. A change doesn't invalidate what was read before it.

    :raises ClusterError: when no broker can be asked.
    """
    found = of_same_topics(client, manifests, lambda manifest: None)
    return {key: str(each) if isinstance(each, TopicChangedError) else each for key, each in found.items()}


def of_same_topics(
    client: OffsetsClient, manifests: Mapping[K, Manifest], judge: Callable[[Manifest], R]
) -> dict[K, R | KafkaOffsetsError]:
    """What is found of each of several windows, if it is on the cluster and topics that it was resolved on; otherwise
    the error that says what they are now. The topics of all windows are asked about together; but one that can't be
    asked about doesn't hold up the others.

    :param judge: finds it. An error of this package that it raises stands in its place.
    :raises ClusterError: when no broker can be asked.
    """
    if not manifests:
        return {}
    topics = {topic for manifest in manifests.values() for topic in manifest.topics}
    try:
        cluster_id, facts = client.cluster_id(), client.topic_facts(sorted(topics))
    except OffsetsError as error:
        if len(manifests) == 1:
            return dict.fromkeys(manifests, error)
        alone = (of_same_topics(client, {key: manifest}, judge) for key, manifest in manifests.items())
        return {key: found for each in alone for key, found in each.items()}

    def judged(manifest: Manifest) -> R:
        check_topics(manifest, cluster_id, facts)
        return judge(manifest)

    return {key: or_error(partial(judged, manifest)) for key, manifest in manifests.items()}


def refuse_changed_topics(client: OffsetsClient, manifest: Manifest) -> Source:
    """Refuse a window whose topics have changed since it was resolved.

    :returns: the cluster and topics that it is read from, as Kafka describes them now.
    :raises TopicChangedError: for another cluster, or a topic that is missing or was re-created.
    :raises KafkaOffsetsError: when Kafka can't be asked.
    """
    cluster_id, facts = client.cluster_id(), client.topic_facts(sorted(manifest.topics))
    check_topics(manifest, cluster_id, facts)
    return Source(cluster_id, {topic: facts[topic].topic_id for topic in topics_read(manifest)}, now_ms())


def changes(client: OffsetsClient, manifests: Mapping[K, Manifest]) -> dict[K, KafkaOffsetsError | None]:
    """For each window, whether its topics or logs have changed since it was resolved. Retention is no change. All are
    asked about in the same few requests.

    :returns: for each, None, or an error: as :func:`refuse_changed_topics` raises; a LogTruncatedError when a log was
        truncated below the window's start or end, even if it has grown again; others when Kafka can't be asked.
    :raises ClusterError: when no broker can be asked.
    """
    epochs = {epoch for manifest in manifests.values() for seen in _both(manifest) for epoch in _epochs(seen)}
    ends = client.epoch_ends(epochs) if epochs else {}

    def check(manifest: Manifest) -> None:
        for seen in _both(manifest):
            _refuse_rewritten(client, seen, EpochEnds(ends[epoch] for epoch in _epochs(seen)), manifest.title)

    return of_same_topics(client, manifests, check)


def _both(manifest: Manifest) -> tuple[list[SeenOffset], list[SeenOffset]]:
    """Where a window's ranges end and start. Both are checked: if the log was truncated after the start was resolved,
    but before the end was, only the start shows it."""
    return ends_seen(manifest), starts_seen(manifest)


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
    seen = seen_in(snapshot)
    _refuse_rewritten(client, seen, epoch_ends(client, seen), snapshot.title)


def epoch_ends(client: OffsetsClient, seen: list[SeenOffset]) -> EpochEnds:
    """Where the leader epochs that offsets were seen under end, as far as they are known."""
    epochs = _epochs(seen)
    return EpochEnds(client.epoch_ends(epochs).values() if epochs else ())


def _epochs(seen: list[SeenOffset]) -> list[LogEpoch]:
    return [LogEpoch(each.topic, each.partition, each.leader_epoch) for each in seen if each.leader_epoch is not None]


def _refuse_rewritten(client: OffsetsClient, seen: list[SeenOffset], ends: EpochEnds, what: str) -> None:
    @cache
    def metadata() -> TopicsMetadata:
        return client.topics({place.topic for place in seen}).raise_for_errors()

    unknown = truncation.refuse_rewritten(what, seen, ends, lambda *key: metadata().leader_epoch(*key), RESTART)
    if unknown:
        log.warning(
            "It is unknown whether a log was truncated below %s and has grown again: %s", what, shorten(unknown)
        )
