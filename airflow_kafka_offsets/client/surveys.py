"""Surveys: everything that a snapshot of some topics is made from, in two rounds, or four when it is of an instant.

Topics and partitions; then where the logs start and end, with the topics' settings alongside; then the first record at
or after the instant; then, only where there is none, the newest timestamp. The ends come before the instant: a record
that arrives in between is then found by the look-up or lies behind the end, and is never skipped (E2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from airflow_kafka_offsets.client.deadline import Deadline
from airflow_kafka_offsets.client.instants import look_up
from airflow_kafka_offsets.client.leaders import Leaders
from airflow_kafka_offsets.client.log_extents import fetch_extents
from airflow_kafka_offsets.client.metadata import partitions_of
from airflow_kafka_offsets.client.record_search import RecordSearch
from airflow_kafka_offsets.client.topic_configs import fetch_topic_configs, topic_facts
from airflow_kafka_offsets.client.transport import Transport
from airflow_kafka_offsets.errors import ClusterError
from airflow_kafka_offsets.offsets.extents import LogExtents
from airflow_kafka_offsets.offsets.listed import ListedOffsets
from airflow_kafka_offsets.offsets.snapshots import TopicFacts
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec


@dataclass(frozen=True, slots=True)
class Survey:
    """Some topics at one time.

    :param cluster_id: the cluster's id.
    :param facts: id, partition count and settings by topic.
    :param extents: where the logs start and end, asked first; an element for every partition.
    :param listed: the first record at or after the instant; empty when none was given.
    """

    cluster_id: str
    facts: Mapping[str, TopicFacts]
    extents: LogExtents
    listed: ListedOffsets = field(default_factory=ListedOffsets)


def cluster_id_of(cluster_id: str | None) -> str:
    """The cluster's id.

    :raises ClusterError: when its brokers are too old to have one.
    """
    if cluster_id is None:
        raise ClusterError("The cluster has no id: its brokers are older than Kafka 0.10.1.")
    return cluster_id


async def survey(
    transport: Transport,
    leaders: Leaders,
    search: RecordSearch,
    topics: Iterable[str],
    spec: OffsetSpec | None,
    isolation_level: IsolationLevel,
    deadline: Deadline,
) -> Survey:
    """Ask the cluster.

    :param spec: the instant; None for no look-up.
    :raises OffsetsError: naming every topic that is unknown or may not be described.
    :raises ClusterError: when the cluster has no id.
    """
    metadata = (await leaders.describe(topics, deadline)).raise_for_errors()
    partitions = partitions_of(metadata)
    works: list[Any] = [
        partial(fetch_extents, transport, leaders, partitions, deadline),
        partial(fetch_topic_configs, transport, [each.topic for each in metadata], deadline),
    ]
    extents, configs = await transport.gather(works)
    facts = {each.topic: topic_facts(each, configs.get(each.topic, {})) for each in metadata}
    found = Survey(cluster_id_of(metadata.cluster_id), facts, extents)
    if spec is None:
        return found
    listed = await look_up(transport, leaders, search, partitions, spec, isolation_level, deadline, extents)
    return Survey(found.cluster_id, facts, extents, listed)
