"""Instants: the first record at or after an instant, per partition, or why there is none (E1). Also surveys.

A leader answers "no such record" for an empty log, for a log whose records are all older, and for a record that isn't
visible yet. To tell these apart, we need the log's extent and its newest timestamp. They are asked once for all
instants, and only for the partitions with such an answer.

Kafka (at least 4.3.0) can also be wrong: a segment that lies entirely before the log start, but isn't removed yet (for
some minutes after DeleteRecords or retention), hides the segments after it if one of its records is late enough. The
answer then contradicts the newest timestamp, and the log is read from its start instead.

A survey contains everything that snapshots of some topics are made from. It takes two rounds, and then all instants
take two more. Log ends are asked before the instants: a record that arrives in between is either found by the look-up
or lies past the end, and is never skipped (E2). An older end is just as correct, so one survey serves a whole backfill.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from airflow_kafka_offsets.client.lookups.record_search import find_records
from airflow_kafka_offsets.client.requests.describe_configs import facts_of
from airflow_kafka_offsets.client.requests.list_offsets import failed_listing, fetch_extents, fetch_list_offsets
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ClusterError
from airflow_kafka_offsets.offsets.answers.listed_offsets import (
    ListedOffsets,
    contradicted,
    put_in_records,
    say_why_unmatched,
)
from airflow_kafka_offsets.offsets.answers.logs import LogExtents, TopicFacts
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec, SpecKind


async def look_up(
    session: Session, wanted: Mapping[OffsetSpec, Collection[TopicPartition]], isolation_level: IsolationLevel
) -> dict[OffsetSpec, ListedOffsets]:
    """Ask for several specs concurrently, then find out why an instant has no record on some partitions. If that can't
    be found out, the partition is in error.

    :param wanted: partitions by spec.
    """
    first = session.half() if any(spec.kind is SpecKind.TIMESTAMP for spec in wanted) else session
    works = [
        partial(fetch_list_offsets, first, partitions, spec, isolation_level) for spec, partitions in wanted.items()
    ]
    found: dict[OffsetSpec, ListedOffsets] = dict(zip(wanted, await session.beside(*works), strict=True))
    instants = {
        spec: listed for spec, listed in found.items() if spec.kind is SpecKind.TIMESTAMP and listed.unmatched()
    }
    if not instants:
        return found
    unmatched = set().union(*(listed.unmatched() for listed in instants.values()))
    level = IsolationLevel.READ_UNCOMMITTED
    # The newest record first: the leader then gives the end later, so that it can't be before that record.
    second = session.half()
    newest, extents = await session.beside(
        partial(fetch_list_offsets, second, unmatched, OffsetSpec.MAX_TIMESTAMP, level),
        partial(fetch_extents, second, unmatched),
    )

    async def explain(spec: OffsetSpec, listed: ListedOffsets) -> ListedOffsets:
        doubtful = contradicted(listed, extents, newest, isolation_level)
        if doubtful:
            again = await fetch_list_offsets(session.half(), doubtful, spec, isolation_level)
            listed = ListedOffsets([*listed, *again])  # usually a record has just arrived
            starts = extents.of_keys(again.unmatched())
            read = [ReadPosition(extent.topic, extent.partition, extent.log_start_offset or 0) for extent in starts]
            records = await find_records(session, read, isolation_level, spec.timestamp_ms)
            listed = put_in_records(listed, records, extents)
        return say_why_unmatched(listed, extents, newest)

    explained = await session.beside(*(partial(explain, *item) for item in instants.items()))
    untimed = await _without_timestamps(session, extents, newest)
    return found | {spec: each.with_untimed(untimed) for spec, each in zip(instants, explained, strict=True)}


async def _without_timestamps(session: Session, extents: LogExtents, newest: ListedOffsets) -> set[TopicPartition]:
    """The logs that hold records, none of which has a timestamp, so that their leaders can't name a newest one. Nor can
    they when the newest one isn't replicated yet, so they are asked again after the first one was read."""
    level = IsolationLevel.READ_UNCOMMITTED
    nameless = {TopicPartition.of(each) for each in newest if each.error is None and each.timestamp_ms is None}
    starts = [each for each in extents.of_keys(nameless) if each.error is None and not each.is_empty]
    if not starts:
        return set()
    first = [ReadPosition(each.topic, each.partition, each.log_start_offset or 0) for each in starts]
    records = await find_records(session.half(), first, level, None)
    untimed = {
        TopicPartition.of(record)
        for record in records
        if record.offset is not None and record.timestamp_ms is None and not record.missing_codec
    }
    if not untimed:
        return set()
    again = await fetch_list_offsets(session, untimed, OffsetSpec.MAX_TIMESTAMP, level)
    return {TopicPartition.of(each) for each in again if each.error is None and each.timestamp_ms is None}


@dataclass(frozen=True, slots=True)
class Survey:
    """The state of some topics at one time.

    :param cluster_id: of the cluster that answered.
    :param facts: id, partition count and settings by topic.
    :param extents: where the logs start and end; an element for every partition.
    """

    cluster_id: str
    facts: Mapping[str, TopicFacts]
    extents: LogExtents


def cluster_id_of(cluster_id: str | None) -> str:
    """The cluster's id.

    :raises ClusterError: when there is none, because the brokers are too old.
    """
    if cluster_id is None:
        raise ClusterError("The cluster has no id: its brokers are older than Kafka 0.10.1.")
    return cluster_id


async def fetch_survey(session: Session, topics: Iterable[str]) -> Survey:
    """Survey the topics.

    :raises OffsetsError: naming every topic that is unknown or may not be described.
    :raises ClusterError: when the cluster has no id.
    """
    metadata = (await session.leaders.describe_all(topics, session.deadline)).raise_for_errors()
    extents, facts = await session.beside(
        partial(fetch_extents, session, partitions_of(metadata)), partial(facts_of, session, metadata)
    )
    return Survey(cluster_id_of(metadata.cluster_id), facts, extents)


async def look_up_instants(
    session: Session, extents: LogExtents, instants: Iterable[OffsetSpec], isolation_level: IsolationLevel
) -> dict[OffsetSpec, ListedOffsets]:
    """The first records at or after some instants. If a partition's extent is in error, so are all its elements.

    :param extents: where the logs start and end, asked earlier.
    """
    wanted = dict.fromkeys(instants, extents.ok().partitions())
    found = await look_up(session, wanted, isolation_level)
    bad = [(TopicPartition.of(extent), extent.error) for extent in extents if extent.error is not None]
    return {
        spec: ListedOffsets([*listed.unordered(), *(failed_listing(key, spec, error) for key, error in bad)])
        for spec, listed in found.items()
    }
