"""Log changes: whether the topics and logs that a snapshot or window was resolved from are still the same, and what
they have lost since.

Retention isn't a change: it removes records, and puts no others in their place. What it has removed is asked before
Spark starts. Whether a log was truncated is asked twice in a window's life: when it is pinned, and when it is
published. If topics began anew since the newest snapshot (re-created, truncated, or on another cluster), the ledger's
offsets belong to records that are gone: :func:`.corrections.restart` records it, if this finds that it is so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import chain
from typing import TypeVar

from airflow_kafka_offsets.arguments import DataLossPolicy
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata
from airflow_kafka_offsets.errors import (
    DataLossError,
    KafkaOffsetsError,
    LedgerConflictError,
    OffsetsError,
    TopicChangedError,
    or_error,
    shorten,
)
from airflow_kafka_offsets.ledger.corrections import ends_on
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.logs import EpochEnds, LogEpoch, LogExtents, TopicFacts
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange, SeenOffset, TopicPartition, by_partition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows import truncation
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, ends_seen, starts_seen, topics_read
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.topic_identity import Source, check_topics, is_another, topic_change
from airflow_kafka_offsets.offsets.windows.truncation import (
    RESTART,
    refuse_shorter,
    refuse_unanswered,
    seen_in,
    truncated_below,
)

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


def lost_of_each(
    client: OffsetsClient, manifests: Mapping[K, Manifest], on_data_loss: DataLossPolicy = "fail"
) -> dict[K, tuple[LogRange, ...] | KafkaOffsetsError]:
    """What Kafka no longer has of each window, exactly: empty for one that can be read as it was pinned. All are asked
    about in the same few requests.

    :param on_data_loss: ``load_rest`` if the remaining records are to be loaded.
    :returns: for each, what is lost, or why it can't be loaded:

        - TopicChangedError for another cluster, or a topic that is missing or was re-created.
        - DataLossError when records are gone, and ``on_data_loss`` is ``fail``; names partitions and exact counts.
        - LogTruncatedError when the window ends past the end of a log.
        - OffsetsError when a partition can't be asked.
    :raises ClusterError: when no broker can be asked.
    """
    extents = client.log_extents(dict.fromkeys(chain(*map(_partitions, manifests.values()))))
    return of_same_topics(
        client, manifests, lambda each: lost_in(each, extents.of_keys(_partitions(each)), on_data_loss)
    )


def _partitions(manifest: Manifest) -> list[TopicPartition]:
    return [TopicPartition.of(each) for each in manifest.non_empty()]


def lost_in(manifest: Manifest, extents: LogExtents, on_data_loss: DataLossPolicy = "fail") -> tuple[LogRange, ...]:
    """What logs no longer have of a window. Raises what :func:`lost_of_each` returns.

    :param extents: where the logs of the window's non-empty ranges start and end now.
    """
    logs = by_partition(extents.raise_for_errors())
    lost = []
    for each in manifest.non_empty():  # S12
        end_offset = min(logs[TopicPartition.of(each)].log_start_offset or 0, each.end_offset)
        if end_offset > each.start_offset:
            lost.append(each.log_range._replace(end_offset=end_offset))
    if lost and on_data_loss != "load_rest":
        raise DataLossError(
            f"{sum(loss.span for loss in lost)} of {manifest.span} offsets of window {manifest.window} are gone: "
            f"{shorten(map(str, lost))}. Retention or DeleteRecords removed them after the window was resolved. "
            "Nothing was read. on_data_loss='load_rest' loads the remaining records and records the loss."
        )
    ends = {key: log.end_offset(manifest.isolation_level) or 0 for key, log in logs.items()}
    committed = manifest.isolation_level is IsolationLevel.READ_COMMITTED
    hint = " Or an open transaction holds back its last stable offset: then try again later." if committed else ""
    refuse_shorter(
        manifest.title, ends_seen(manifest), ends, extents.leader_epoch, f"Nothing was read. {RESTART}{hint}"
    )
    return tuple(lost)


def restart_found(client: OffsetsClient, ledger: Ledger) -> Restarted:
    """The restart that Kafka shows, without its place in time.

    :raises LedgerConflictError: when there is no change.
    :raises TopicChangedError: when a topic doesn't exist now.
    :raises OffsetsError: when a topic or a leader can't be asked.
    """
    last = ledger.state.newest_snapshot
    if last is None:
        raise LedgerConflictError(f"Pipeline {ledger.pipeline} has no snapshot, so there is nothing to restart.")
    stored, cluster_id = ledger.offsets_at(last.at_ms), client.cluster_id()
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
    begun_anew = {*made_anew, *(place.topic for place in truncated)}
    if not begun_anew:
        raise LedgerConflictError(
            f"Nothing is restarted: Kafka shows no change of {shorten(sorted(newest.topics))} since the snapshot at "
            f"{iso_instant(newest.timestamp_ms)}. Cluster ({cluster_id}), topic ids and partitions are the same, and "
            "no log was truncated below it. If the ledger is wrong for another reason, use kafka-offsets ledger rewind."
        )
    why = shorten([*made_anew.values(), *truncated.values()])
    return Restarted(now_ms(), tuple(sorted(begun_anew)), why, truncated=tuple(truncated))


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
