"""Fetch (key 1): the record batches of some partitions from some offsets on, asked of one leader without a session.

Versions: 4 brings isolation levels and aborted transactions (KIP-98, Kafka 0.11), 5 log start offsets, 9 leader epochs
(KIP-320), 10 zstd (KIP-110). From 11 on a leader may send a reader to a follower instead of an answer (KIP-392).

Partitions come in the order of the request. However small the limits are, the first one that has any batch at its
offset gets at least that batch (KIP-74); the others get what fits, which may be nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer import FetchRequest

from airflow_kafka_offsets.client.connection.response_errors import Code, named_error, response_error
from airflow_kafka_offsets.client.records.record_batches import AbortedTransaction
from airflow_kafka_offsets.client.routing.metadata import Epochs
from airflow_kafka_offsets.client.wire import or_minus_one, or_none
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

FIRST_VERSION, LAST_VERSION = 4, 10
"""What is spoken."""
ANSWER_BYTES = 16 * 1024 * 1024
"""What one answer is to hold at most. A batch that is larger comes nevertheless."""


class Fetched(NamedTuple):
    """What a leader answered for one partition.

    :param records: batches as bytes, the last may be cut off; empty when there are none, or none that fit.
    :param aborted: aborted transactions that overlap them; none under read_uncommitted.
    :param high_watermark: one past the last replicated record; None when unknown.
    :param last_stable_offset: one past the last record with no open transaction before it; None when unknown.
    :param error: Kafka's error for this partition alone.
    """

    records: bytes = b""
    aborted: tuple[AbortedTransaction, ...] = ()
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    error: ResponseError | None = None

    def end_offset(self, isolation_level: IsolationLevel) -> int | None:
        """One past the last visible record. Logs of before Kafka 0.11 have no transactions, and no stable offset."""
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
    """A request for one leader, with partitions in order as far as their topics allow.

    :param wanted: by partition, from which offset on, and about how many bytes.
    :param epochs: the current leader epoch of a partition; None when it isn't known, which skips the broker's check.
    :param max_wait_ms: how long the broker may read from remote storage. It waits for nothing else.
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
    """The answers of one leader, in the order of the answer.

    A broker that enforces a quota answers without any partition; an error of the request is that of each partition.
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
