"""Kafka now: where a pipeline's logs start and end, what isn't loaded, and what a group has committed.

Kafka is asked when somebody presses the button, through the one connection that a setting names. A ledger doesn't say
which connection its pipeline uses, and somebody who can write to a ledger mustn't be able to choose what the api-server
connects to. No records are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from airflow.providers.common.compat.sdk import conf

from airflow_kafka_offsets.errors import ClusterError, OffsetsError, TopicChangedError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.logs import LogExtent
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.groups.lag import GroupLag, LagStatus
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.page.overview import Unloaded, gone_of, topic_facts, topic_names, unloaded

Json = dict[str, Any]
_MOST_S = 10.0
"""Deadline of each question, in seconds. There is one question, and a second one for a group."""
_STATUSES = {
    LagStatus.NO_COMMIT: "no commit on some partitions: counted from their log starts",
    LagStatus.BELOW_LOG_START: "the commit points at deleted records",
    LagStatus.AHEAD_OF_LOG: "the commit is past the log's end",
    LagStatus.LOG_TRUNCATED: "the log was truncated below the commit",
    LagStatus.UNKNOWN_GROUP: "there is no such group",
}


def page_kafka_conn_id() -> str:
    """The connection that the page uses to ask Kafka: the ``[kafka_offsets] page_kafka_conn_id`` setting. Empty if the
    page doesn't ask Kafka."""
    return str(conf.get("kafka_offsets", "page_kafka_conn_id", fallback="")).strip()


def kafka_now(ledger: Ledger, group: str | None) -> Json:
    """What Kafka answers about a pipeline's topics.

    :param group: a consumer group whose lag is measured, or None.
    :raises TopicChangedError: when the connection reaches a different cluster than the ledger's.
    :raises OffsetsError: when a topic is gone, or may not be described.
    :raises LedgerError: when the ledger can't be read or is damaged.
    :raises KafkaOffsetsError: when Kafka can't be asked for another reason.
    """
    created, cluster_id = ledger.state.begun, ledger.state.cluster_id
    isolation_level = IsolationLevel.of(created.isolation_level)
    missing, known, topics = unloaded(ledger), topic_facts(ledger), topic_names(ledger)
    with KafkaOffsetsHook(page_kafka_conn_id()).get_conn(_MOST_S) as client:
        asked_ms = now_ms()
        try:
            survey = client.survey(topics)
        except OffsetsError:  # a different cluster doesn't have the topics, as a rule
            with suppress(ClusterError):  # what is wrong with the topics says more
                _require_cluster(client.cluster_id(), cluster_id)
            raise
        _require_cluster(survey.cluster_id, cluster_id)
        lags = client.group_lags([group], topics=topics, isolation_level=isolation_level) if group else None
    extents = list(survey.extents.raise_for_errors())
    measured = None if lags is None or group is None else lags.lookup(group)
    rows = []
    for topic, facts in sorted(survey.facts.items()):
        own = [each for each in extents if each.topic == topic]
        row = _topic(own, facts, known.get(topic), isolation_level) | _unloaded(own, missing, isolation_level)
        if row["recreated"] or row["truncated"]:  # the loaded offsets now belong to other records
            row |= {"unloaded": None, "gone": None}
        rows.append(row if measured is None else row | _committed(measured, topic))
    return {"asked_ms": asked_ms, "group": group, "topics": rows}


def _require_cluster(found: str, own: str | None) -> None:
    if found != own:
        raise TopicChangedError(
            f"The page's connection reaches cluster {found}, but this pipeline's topics are in cluster {own}. Name "
            "another connection in [kafka_offsets] page_kafka_conn_id."
        )


def _topic(extents: Sequence[LogExtent], facts: TopicFacts, known: TopicFacts | None, level: IsolationLevel) -> Json:
    same = known is None or None in (known.topic_id, facts.topic_id) or known.topic_id == facts.topic_id
    return {
        "topic": facts.topic,
        "partitions": len(extents),
        "recreated": not same,
        "retention_ms": facts.retention_ms,
        "log_start": str(sum(each.log_start_offset or 0 for each in extents)),
        "log_end": str(sum(_end(each, level) for each in extents)),
    }


def _end(extent: LogExtent, isolation_level: IsolationLevel) -> int:
    end = extent.end_offset(isolation_level)
    assert end is not None, "an extent without an error has its ends"
    return end


def _unloaded(extents: Sequence[LogExtent], missing: Unloaded | None, level: IsolationLevel) -> Json:
    """How many offsets are in no published window (``unloaded``), and how many of them are deleted (``gone``).

    All offsets of a partition count that is in no published window yet. ``truncated`` is the number of partitions whose
    log ends before what was loaded from it. All are None without windows.
    """
    if missing is None:
        return dict.fromkeys(("unloaded", "gone", "truncated"))
    ranges: dict[TopicPartition, list[LogRange]] = {}
    for each in missing.ranges:
        ranges.setdefault(TopicPartition.of(each), []).append(each)
    unloaded = gone = truncated = 0
    for extent in extents:
        start, end = extent.log_start_offset or 0, _end(extent, level)
        own = ranges.get(TopicPartition.of(extent), [LogRange(extent.topic, extent.partition, start, end)])
        truncated += max(each.start_offset for each in own) > end
        gone += sum(gone_of(each, start) for each in own)
        unloaded += sum(max(0, min(each.end_offset, end) - max(each.start_offset, start)) for each in own)
    return {"unloaded": str(unloaded), "gone": str(gone), "truncated": truncated}


def _committed(lag: GroupLag, topic: str) -> Json:
    """What a group has committed on a topic, and its lag; each is None if it isn't known for some partition."""
    own = [each for each in lag.partitions if each.topic == topic]
    commits, lags = [each.committed_offset for each in own], [each.lag for each in own]
    said = {_STATUSES[each.status] for each in own if each.status in _STATUSES}
    said |= {f"Kafka answered {each.error.name}" for each in own if each.error is not None}
    return {
        "committed": None if not own or None in commits else str(sum(filter(None, commits))),
        "lag": None if not own or None in lags else str(sum(filter(None, lags))),
        "remarks": sorted(said),
    }
