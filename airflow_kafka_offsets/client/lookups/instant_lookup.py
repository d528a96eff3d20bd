"""Instants: the first record at or after a moment, per partition, and where there is none, why (E1); and surveys.

A leader says "no such record" of an empty log, of a log whose records are all older, and of a record that isn't visible
yet. Which of them it is takes the log's extent and its newest timestamp, asked once for all instants, and of those
partitions alone.

Kafka (4.3.0 at least) says it wrongly, too: a segment that lies before the log start as a whole, and isn't removed yet
(after DeleteRecords or retention, for some minutes), hides the segments behind it when one of its records is late
enough. The answer contradicts the newest timestamp then, and the log is read from its start instead.

A survey is everything that snapshots of some topics are made from, in two rounds; then come two for all instants. The
ends come before the instants: a record that arrives in between is then found by the look-up or lies behind the end, and
is never skipped (E2). An end that is older than it need be is as right, so that one survey serves a whole backfill.
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
from airflow_kafka_offsets.offsets.answers.logs import LogExtents
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec, SpecKind
from airflow_kafka_offsets.offsets.windows.snapshots import TopicFacts


async def look_up(
    session: Session, wanted: Mapping[OffsetSpec, Collection[TopicPartition]], isolation_level: IsolationLevel
) -> dict[OffsetSpec, ListedOffsets]:
    """Ask for several specs at the same time, and once more where an instant has no record.

    :param wanted: partitions by spec.
    """
    works = [
        partial(fetch_list_offsets, session, partitions, spec, isolation_level) for spec, partitions in wanted.items()
    ]
    found: dict[OffsetSpec, ListedOffsets] = dict(zip(wanted, await session.beside(*works), strict=True))
    instants = {
        spec: listed for spec, listed in found.items() if spec.kind is SpecKind.TIMESTAMP and listed.unmatched()
    }
    if not instants:
        return found
    unmatched = set().union(*(listed.unmatched() for listed in instants.values()))
    level = IsolationLevel.READ_UNCOMMITTED
    # The newest record first: the end, which a leader tells after it, isn't before it then on a busy log.
    newest, extents = await session.beside(
        partial(fetch_list_offsets, session, unmatched, OffsetSpec.MAX_TIMESTAMP, level),
        partial(fetch_extents, session, unmatched, {level, isolation_level}),
    )

    async def explain(spec: OffsetSpec, listed: ListedOffsets) -> ListedOffsets:
        doubtful = contradicted(listed, extents, newest, isolation_level)
        if doubtful:
            again = await fetch_list_offsets(session, doubtful, spec, isolation_level)
            listed = ListedOffsets([*listed, *again])  # mostly a record has just come
            starts = extents.of_keys(again.unmatched())
            read = [ReadPosition(extent.topic, extent.partition, extent.log_start_offset or 0) for extent in starts]
            records = await find_records(session, read, isolation_level, spec.timestamp_ms)
            listed = put_in_records(listed, records, extents)
        return say_why_unmatched(listed, extents, newest)

    explained = await session.beside(*(partial(explain, *item) for item in instants.items()))
    return found | dict(zip(instants, explained, strict=True))


@dataclass(frozen=True, slots=True)
class Survey:
    """Some topics at one time.

    :param cluster_id: the cluster's id.
    :param facts: id, partition count and settings by topic.
    :param extents: where the logs start and end; an element for every partition.
    """

    cluster_id: str
    facts: Mapping[str, TopicFacts]
    extents: LogExtents


def cluster_id_of(cluster_id: str | None) -> str:
    """The cluster's id.

    :raises ClusterError: when its brokers are too old to have one.
    """
    if cluster_id is None:
        raise ClusterError("The cluster has no id: its brokers are older than Kafka 0.10.1.")
    return cluster_id


async def fetch_survey(session: Session, topics: Iterable[str]) -> Survey:
    """Ask the cluster.

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
    """The first records at or after some instants. Where an extent is in error, that is the answer to each of them.

    :param extents: where the logs start and end, asked before.
    """
    wanted = dict.fromkeys(instants, extents.ok().partitions())
    found = await look_up(session, wanted, isolation_level)
    bad = [(TopicPartition.of(extent), extent.error) for extent in extents if extent.error is not None]
    return {
        spec: ListedOffsets([*listed.unordered(), *(failed_listing(key, spec, error) for key, error in bad)])
        for spec, listed in found.items()
    }
