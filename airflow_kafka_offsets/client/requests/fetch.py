"""Fetch (key 1): record batches of some partitions, each from an offset on, from one leader without a fetch session.

Versions: 4 adds isolation levels and aborted transactions (KIP-98, Kafka 0.11), 5 log start offsets, 9 leader epochs
(KIP-320), 10 zstd (KIP-110). From 11 on, a leader may redirect a reader to a follower instead of answering (KIP-392).

Partitions are answered in the order of the request. However small the limits are, the first partition with a batch at
its offset gets at least that batch (KIP-74); the others get what fits, which may be nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer import FetchRequest

from airflow_kafka_offsets.client.connection.wire import Code, named_error, or_minus_one, or_none, response_error
from airflow_kafka_offsets.client.records.record_batches import AbortedTransaction
from airflow_kafka_offsets.client.routing.metadata import Epochs
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

FIRST_VERSION, LAST_VERSION = 4, 10
"""The supported versions."""
ANSWER_BYTES = 16 * 1024 * 1024
"""Maximum size of one answer. A single larger batch is still sent."""


class Fetched(NamedTuple):
    """A leader's answer for one partition.

    :param records: batches as bytes, the last may be cut off; empty if there are none, or none fit.
    :param aborted: aborted transactions that overlap them; empty under read_uncommitted.
    :param high_watermark: one past the last replicated record; None if unknown.
    :param last_stable_offset: one past the last record with no open transaction before it; None if unknown.
    :param error: Kafka's error for this partition alone.
    """

    records: bytes = b""
    aborted: tuple[AbortedTransaction, ...] = ()
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    error: ResponseError | None = None

    def end_offset(self, isolation_level: IsolationLevel) -> int | None:
        """One past the last visible offset. Without a last stable offset (logs from before Kafka 0.11, which have no
        transactions), the high watermark."""
        if isolation_level is IsolationLevel.READ_COMMITTED and self.last_stable_offset is not None:
            return self.last_stable_offset
        return self.high_watermark


def fetch_request(
    wanted: Mapping[TopicPartition, tuple[int, int]],
    isolation_level: IsolationLevel,
    *,
    epochs: Epochs,
    max_wait_ms: int,
    version: int,
) -> Any:
    """A request for one leader. Partitions keep their order, except that those of one topic are grouped.

    :param wanted: start offset and approximate maximum size in bytes, by partition.
    :param epochs: the current leader epoch of a partition; None if unknown, which skips the broker's check.
    :param max_wait_ms: how long the broker may read from remote storage; it waits for nothing else.
    """
    topic_class = FetchRequest.FetchTopic
    topics: dict[str, list[Any]] = defaultdict(list)
    for piece, (offset, limit_bytes) in wanted.items():
        partition = topic_class.FetchPartition(
            partition=piece.partition,
            current_leader_epoch=or_minus_one(epochs(piece)),
            fetch_offset=offset,
            partition_max_bytes=limit_bytes,
        )
        topics[piece.topic].append(partition)
    return FetchRequest[version](
        max_wait_ms=max_wait_ms,
        min_bytes=0,
        max_bytes=ANSWER_BYTES,
        isolation_level=int(isolation_level is IsolationLevel.READ_COMMITTED),
        topics=[topic_class(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )


def parse_fetch(response: Any, asked: Iterable[TopicPartition]) -> dict[TopicPartition, Fetched]:
    """One leader's answers, in the order of the response.

    An error of the whole request becomes the error of each partition. So does a response without any partition, which
    a broker sends when it enforces a quota.
    """
    error = response_error(response.error_code or 0)
    if error is None and not response.responses and response.throttle_time_ms:
        error = named_error(Code.THROTTLING_QUOTA_EXCEEDED, "a quota throttles this client: the broker sent no records")
    if error is not None:
        return {piece: Fetched(error=error) for piece in asked}
    return {
        TopicPartition(topic.topic, answer.partition_index): _fetched(answer)
        for topic in response.responses
        for answer in topic.partitions
    }


def _fetched(answer: Any) -> Fetched:
    aborted = (
        AbortedTransaction(transaction.producer_id, transaction.first_offset)
        for transaction in answer.aborted_transactions or ()
    )
    return Fetched(
        answer.records or b"",
        tuple(aborted),
        or_none(answer.high_watermark),
        or_none(answer.last_stable_offset),
        response_error(answer.error_code),
    )
