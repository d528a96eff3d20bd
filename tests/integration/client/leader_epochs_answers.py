"""What scripted brokers say of where leader epochs end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochResponse

from airflow_kafka_offsets.offsets.partitions import TopicPartition
from tests.integration.client.scripted import Answer
from tests.integration.client.scripted_answers import NO_CODES, Codes


def epochs_end_at(end_offset: int, *, epoch: int | None = None, errors: Codes = NO_CODES) -> Answer:
    """An OffsetForLeaderEpoch answer: the epoch that is asked for ends at the same offset everywhere.

    :param epoch: the newest epoch that the leader remembers; None for that of each question.
    """
    topic_class = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult

    def partition(piece: TopicPartition, leader_epoch: int) -> Any:
        code = errors.get(piece, 0)
        return topic_class.EpochEndOffset(
            error_code=code,
            partition=piece.partition,
            leader_epoch=-1 if code else leader_epoch if epoch is None else min(epoch, leader_epoch),
            end_offset=-1 if code else end_offset,
        )

    def partitions(topic: Any) -> Iterator[Any]:
        for each in topic.partitions:
            yield partition(TopicPartition(topic.topic, each.partition), each.leader_epoch)

    return lambda request: OffsetForLeaderEpochResponse(
        topics=[topic_class(topic=each.topic, partitions=list(partitions(each))) for each in request.topics]
    )
