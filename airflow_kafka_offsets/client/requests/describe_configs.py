"""Topic configs: retention, cleanup and timestamp type of topics (DescribeConfigs, key 32), as :class:`TopicFacts`.

Describing configs needs its own permission (DescribeConfigs on the topic). Without it the settings are unknown, which
isn't an error, because windows can be pinned without them. Transient errors are retried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.transport import RequestFailedError
from airflow_kafka_offsets.client.connection.wire import Code, response_error
from airflow_kafka_offsets.client.routing.any_broker import ask_any
from airflow_kafka_offsets.client.routing.metadata import TopicMetadata, TopicsMetadata
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts

_TOPIC = 2
"""Kafka's resource type for topics."""
_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type")


def topic_configs_request(topics: Iterable[str], version: int) -> Any:
    """A request for the settings that windows depend on."""
    return DescribeConfigsRequest[version](resources=[(_TOPIC, topic, list(_KEYS)) for topic in topics])


def parse_topic_configs(response: Any) -> dict[str, dict[str, str]]:
    """Settings by topic; topics whose settings may not be described are left out.

    :raises RequestFailedError: when a topic has a transient error.
    """
    for topic in response.results:
        error = response_error(topic.error_code)
        if error is not None and error.may_pass:
            message = f"the settings of topic {topic.resource_name}: {error.name}"
            raise RequestFailedError(replace(error, message=message))
    return {
        topic.resource_name: {config.name: config.value for config in topic.configs if config.value is not None}
        for topic in response.results
        if topic.error_code == Code.NONE
    }


def _facts(topic: TopicMetadata, configs: Mapping[str, str]) -> TopicFacts:
    """The facts of one topic; None for each setting that is not in ``configs``."""

    def number(key: str) -> int | None:
        return int(configs[key]) if key in configs else None

    return TopicFacts(
        topic.topic,
        topic.topic_id,
        len(topic.partitions),
        cleanup_policy=configs.get("cleanup.policy"),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        timestamp_type=configs.get("message.timestamp.type"),
    )


async def facts_of(session: Session, topics: Iterable[TopicMetadata]) -> dict[str, TopicFacts]:
    """Facts of existing topics, from any broker. Brokers before 0.11 can't be asked; settings are then None.

    :raises ClusterUnreachableError: when no broker answers without a transient error by the deadline.
    """
    found = {topic.topic: topic for topic in topics}

    async def ask(node: NodeId, attempt: Deadline) -> dict[str, dict[str, str]]:
        version = await session.transport.version_if_any(node, DescribeConfigsRequest, attempt)
        if version is None:
            return {}
        request = topic_configs_request(sorted(found), version)
        return parse_topic_configs(await session.transport.send(node, request, attempt))

    configs = await ask_any(session.transport, ask, session.deadline) if found else {}
    return {name: _facts(topic, configs.get(name, {})) for name, topic in found.items()}


async def fetch_topic_facts(session: Session, topics: Iterable[str]) -> dict[str, TopicFacts]:
    """Facts by topic; topics that don't exist are left out.

    :raises OffsetsError: naming the topics with any other error.
    """
    metadata = await session.leaders.describe_all(topics, session.deadline)
    TopicsMetadata(topic for topic in metadata if not topic.is_unknown).raise_for_errors()
    return await facts_of(session, metadata.ok())
