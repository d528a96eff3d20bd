"""Surveys: everything that snapshots of some topics are made from, in two rounds, and two for all instants.

Topics and partitions; then where the logs start and end, with the topics' settings alongside; then the first record at
or after each instant; then, only where there is none, why. The ends come before the instants: a record that arrives in
between is then found by the look-up or lies behind the end, and is never skipped (E2). An end that is older than it
need be is as right, so that one survey serves a whole backfill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from airflow_kafka_offsets.client.lookups.extent_lookup import fetch_extents
from airflow_kafka_offsets.client.lookups.instant_lookup import look_up
from airflow_kafka_offsets.client.requests.describe_configs import fetch_topic_configs, topic_facts
from airflow_kafka_offsets.client.requests.list_offsets import failed_listing
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ClusterError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.answers.logs import LogExtents
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.snapshots import TopicFacts


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
    extents, configs = await session.beside(
        partial(fetch_extents, session, partitions_of(metadata)),
        partial(fetch_topic_configs, session, [each.topic for each in metadata]),
    )
    facts = {each.topic: topic_facts(each, configs.get(each.topic, {})) for each in metadata}
    return Survey(cluster_id_of(metadata.cluster_id), facts, extents)


async def look_up_instants(
    session: Session, extents: LogExtents, instants: Iterable[OffsetSpec], isolation_level: IsolationLevel
) -> dict[OffsetSpec, ListedOffsets]:
    """The first records at or after some instants. Where an extent is in error, that is the answer to each of them.

    :param extents: where the logs start and end, asked before.
    """
    wanted = dict.fromkeys(instants, extents.ok().partitions())
    found = await look_up(session, wanted, isolation_level)
    bad = [(TopicPartition(each.topic, each.partition), each.error) for each in extents if each.error is not None]
    return {
        spec: ListedOffsets([*listed.unordered(), *(failed_listing(key, spec, error) for key, error in bad)])
        for spec, listed in found.items()
    }
