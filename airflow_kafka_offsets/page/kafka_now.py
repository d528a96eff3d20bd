"""Kafka at this moment: where a pipeline's logs start and end, what of them isn't loaded, what a group has committed.

Asked when somebody presses the button, through the one connection that a setting names: a ledger doesn't say by which
connection its pipeline is loaded, and whoever may write to it mustn't choose what the api-server connects to. No record
is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow.providers.common.compat.sdk import conf

from airflow_kafka_offsets.errors import TopicChangedError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.summaries import WindowSummary
from airflow_kafka_offsets.offsets.answers.logs import LogExtent
from airflow_kafka_offsets.offsets.groups.lag import GroupLag, LagStatus
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import TopicFacts
from airflow_kafka_offsets.page.overview import gone_of, unloaded_ranges

Json = dict[str, Any]
_MOST_S = 10.0
"""Seconds that one of the questions may take. There is one, and another one for a group."""
_STATUSES = {
    LagStatus.NO_COMMIT: "no commit on some partitions: counted from their log starts",
    LagStatus.BELOW_LOG_START: "the commit points at deleted records",
    LagStatus.AHEAD_OF_LOG: "the commit is past the log's end",
    LagStatus.LOG_TRUNCATED: "the log was cut below the commit",
    LagStatus.UNKNOWN_GROUP: "there is no such group",
}


def page_kafka_conn_id() -> str:
    """The connection by which the page asks Kafka: the ``[kafka_offsets] page_kafka_conn_id`` setting; empty where it
    asks none."""
    return str(conf.get("kafka_offsets", "page_kafka_conn_id", fallback="")).strip()


def kafka_now(ledger: Ledger, summaries: Sequence[WindowSummary], topics: Iterable[str], group: str | None) -> Json:
    """What Kafka says of a pipeline's topics.

    :param summaries: the pipeline's windows.
    :param group: a consumer group to measure on them; None for none.
    :raises TopicChangedError: when the connection reaches another cluster than the ledger's.
    :raises OffsetsError: when a topic is gone, or may not be described.
    :raises LedgerError: when the ledger isn't what it should be.
    :raises KafkaOffsetsError: when Kafka can't be asked for another reason.
    """
    stored = ledger.read_pipeline() or {}
    isolation_level = IsolationLevel.of(stored["isolation_level"])
    unloaded, known = unloaded_ranges(ledger, summaries), _facts(ledger, summaries)
    with KafkaOffsetsHook(page_kafka_conn_id()).get_conn(_MOST_S) as client:
        asked_ms, survey = now_ms(), client.survey(topics)
        if survey.cluster_id != stored["cluster_id"]:
            raise TopicChangedError(
                f"The page's connection reaches cluster {survey.cluster_id}, and this pipeline is of cluster "
                f"{stored['cluster_id']}. Name another connection in [kafka_offsets] page_kafka_conn_id."
            )
        lags = client.group_lags([group], topics=topics, isolation_level=isolation_level) if group else None
    extents = list(survey.extents.raise_for_errors())
    measured = None if lags is None or group is None else lags.lookup(group)
    rows = []
    for topic, facts in sorted(survey.facts.items()):
        own = [each for each in extents if each.topic == topic]
        row = _topic(own, facts, known.get(topic), isolation_level) | _not_loaded(own, unloaded, isolation_level)
        if row["recreated"] or row["truncated"]:  # at the offsets that were loaded are other records now
            row |= {"unread": None, "gone": None}
        rows.append(row if measured is None else row | _committed(measured, topic))
    return {"asked_ms": asked_ms, "group": group, "topics": rows}


def _facts(ledger: Ledger, summaries: Sequence[WindowSummary]) -> Mapping[str, TopicFacts]:
    """What was known of the topics when the newest window was pinned."""
    return ledger.pinned(summaries[-1].window, summaries[-1].revision).manifest.topics if summaries else {}


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


def _not_loaded(extents: Sequence[LogExtent], unloaded: Sequence[LogRange] | None, level: IsolationLevel) -> Json:
    """How many offsets no published window has, and how many of these are gone; of a partition that is in none yet, all
    that its log holds. None while nothing is published.

    ``truncated`` is how many partitions have a log that ends before what is loaded of it.
    """
    if unloaded is None:
        return dict.fromkeys(("unread", "gone", "truncated"))
    ranges: dict[TopicPartition, list[LogRange]] = {}
    for each in unloaded:
        ranges.setdefault(TopicPartition.of(each), []).append(each)
    unread = gone = truncated = 0
    for extent in extents:
        start, end = extent.log_start_offset or 0, _end(extent, level)
        own = ranges.get(TopicPartition.of(extent), [LogRange(extent.topic, extent.partition, start, end)])
        truncated += max(each.start_offset for each in own) > end
        gone += sum(gone_of(each, start) for each in own)
        unread += sum(max(0, min(each.end_offset, end) - max(each.start_offset, start)) for each in own)
    return {"unread": str(unread), "gone": str(gone), "truncated": truncated}


def _committed(lag: GroupLag, topic: str) -> Json:
    """What a group has committed on a topic, and how far that is behind; None where a partition's isn't known."""
    own = [each for each in lag.partitions if each.topic == topic]
    commits, lags = [each.committed_offset for each in own], [each.lag for each in own]
    said = {_STATUSES[each.status] for each in own if each.status in _STATUSES}
    said |= {f"Kafka answered {each.error.name}" for each in own if each.error is not None}
    return {
        "committed": None if not own or None in commits else str(sum(filter(None, commits))),
        "lag": None if not own or None in lags else str(sum(filter(None, lags))),
        "remarks": sorted(said),
    }
