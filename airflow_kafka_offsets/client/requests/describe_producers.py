"""DescribeProducers (key 61, KIP-664, Kafka 2.8): producers that write to a partition, and their open transactions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest

from airflow_kafka_offsets.client.connection.wire import numbers_by_topic, or_none, response_error
from airflow_kafka_offsets.client.routing.fan_out import ask_leaders
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.offsets.answers.logs import ActiveProducer, PartitionProducers, Producers
from airflow_kafka_offsets.offsets.partitions import TopicPartition


def describe_producers_request(partitions: Iterable[TopicPartition], version: int) -> Any:
    """A request for one leader."""
    return DescribeProducersRequest[version](topics=numbers_by_topic(partitions))


def parse_describe_producers(response: Any) -> dict[TopicPartition, PartitionProducers]:
    """The answers of one leader."""
    return {
        TopicPartition(topic.name, answer.partition_index): PartitionProducers(
            topic.name,
            answer.partition_index,
            tuple(sorted(map(_producer, answer.active_producers), key=lambda producer: producer.producer_id)),
            response_error(answer.error_code, answer.error_message),
        )
        for topic in response.topics
        for answer in topic.partitions
    }


def _producer(state: Any) -> ActiveProducer:
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        or_none(state.last_timestamp),
        or_none(state.current_txn_start_offset),
    )


async def fetch_producers(session: Session, partitions: Iterable[TopicPartition]) -> Producers:
    """Ask all leaders concurrently; returns an element for every partition, by the deadline."""
    found = await ask_leaders(
        session,
        partitions,
        DescribeProducersRequest,
        build=lambda pieces, version, _: describe_producers_request(pieces, version),
        parse=parse_describe_producers,
        failed=lambda piece, error: PartitionProducers(*piece, error=error),
    )
    return Producers(found)
