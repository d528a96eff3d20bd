"""ListOffsets from version 6 on, written and read in bulk.

A snapshot of ten thousand partitions asks each of them four or five times, and making an object of every question and
every answer is most of what it costs. The layouts are fixed (flexible, KIP-482), so that the partitions of a topic are
one run of equal rows. Older versions are left to kafka-python; tests hold this codec against it on every version.

Request: replica id, isolation level, topics, a timeout from version 10 on. Response: throttle time, topics. A topic:
name, partitions, tags.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.client.requests.wire import NO_TAGS, Reader, array, text
from airflow_kafka_offsets.client.routing.leaders import Epochs
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic
from airflow_kafka_offsets.offsets.specs import IsolationLevel

FIRST_VERSION = 6
_TIMEOUT = 10
_HEAD = struct.Struct(">ib")
_CLIENT = -1
"""The replica id of whoever isn't a broker."""
_QUESTION = struct.Struct(">iiqB")
"""Index, current leader epoch, timestamp, number of tags."""
_ANSWER = struct.Struct(">ihqqiB")
"""Index, error code, timestamp, offset, leader epoch, number of tags."""
_PLAIN = {26: NO_TAGS}
_FIELDS = struct.Struct(">ihqqi")
_NUMBER = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Listing:
    """What one leader answered.

    :param throttle_time_ms: how long it throttled this client.
    :param listed: by partition.
    """

    throttle_time_ms: int
    listed: Mapping[TopicPartition, ListedOffset]


def encode_list_offsets(
    partitions: Iterable[TopicPartition],
    timestamp: int,
    isolation_level: IsolationLevel,
    *,
    epochs: Epochs,
    timeout_ms: int,
    version: int,
) -> bytes:
    """The body of a request; arguments as of :func:`.list_offsets.list_offsets_request`."""

    def question(piece: TopicPartition) -> bytes:
        epoch = epochs(piece)
        return _QUESTION.pack(piece.partition, -1 if epoch is None else epoch, timestamp, 0)

    topics = [
        text(topic) + array([question(each) for each in pieces]) + NO_TAGS
        for topic, pieces in by_topic(partitions).items()
    ]
    committed = isolation_level is IsolationLevel.READ_COMMITTED
    timeout = _NUMBER.pack(max(1, timeout_ms)) if version >= _TIMEOUT else b""
    return _HEAD.pack(_CLIENT, committed) + array(topics) + timeout + NO_TAGS


def decode_list_offsets(body: bytes, element: Callable[[str, int, int, int, int, int], ListedOffset]) -> Listing:
    """The answers of one leader.

    :param element: from topic, partition, error code, offset, timestamp and leader epoch, as they come.
    :raises ValueError: when the bytes are no such answer.
    """
    reader = Reader(body)
    (throttle_time_ms,) = reader.unpack(_NUMBER)
    listed: dict[TopicPartition, ListedOffset] = {}
    for _ in range(reader.array_size()):
        topic, count = reader.text(), reader.array_size()
        rows = reader.rows(count, _ANSWER, _PLAIN) or (_answer(reader) for _ in range(count))
        for index, code, timestamp, offset, epoch, _ in rows:
            listed[TopicPartition(topic, index)] = element(topic, index, code, offset, timestamp, epoch)
        reader.skip_tags()
    reader.skip_tags()
    return Listing(throttle_time_ms, listed)


def _answer(reader: Reader) -> tuple[int, ...]:
    """A row with tags."""
    fields = reader.unpack(_FIELDS)
    reader.skip_tags()
    return (*fields, 0)
