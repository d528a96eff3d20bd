"""The records of a batch, in order: their offsets and timestamps, within bounds.

Covers Kafka's record formats: batches with a header (version 2, Kafka 0.11), and the earlier messages (versions 0 and
1), where a compressed batch is a message that contains messages. kafka-python would decompress any batch as a whole,
however large it gets; :mod:`.unpacking` doesn't.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka.record import MemoryRecords
from kafka.record.legacy_records import LegacyRecordBatch
from kafka.record.util import decode_varint

from airflow_kafka_offsets.client.connection.kafka_python import bytes_of, put_unpacked
from airflow_kafka_offsets.client.records.unpacking import TooLargeError, unpack

HEADERS_OF_BATCHES = 2
"""First magic number with a header per batch (Kafka 0.11). An earlier batch is a message, whose offset is that of the
last record inside."""
MOST_RECORDS = 1024 * 1024
"""Maximum number of records read from a batch: seven times as many as fit into the megabyte of a Java producer's batch.
"""
_HEADER_BYTES = 61
"""Of a batch's header."""
_KEYS_AT = (LegacyRecordBatch.KEY_OFFSET_V0, LegacyRecordBatch.KEY_OFFSET_V1)
"""Where the key of a message begins, by magic number."""
_NUMBER = struct.Struct(">i")


def records_of(batch: Any) -> Iterator[Any]:
    """The records in a kafka-python batch. They can be read once.

    :raises UnsupportedCodecError: when the library for its codec isn't installed.
    :raises TooLargeError: when it exceeds the limits for one batch.
    :raises Exception: when the bytes aren't valid records; those before were.
    """
    if batch.magic < HEADERS_OF_BATCHES:
        return _messages_within(batch) if batch.compression_type else iter(batch)
    if batch.records_count > MOST_RECORDS:
        raise TooLargeError
    packed = bytes_of(batch)[_HEADER_BYTES:]
    if not batch.compression_type:
        return iter(batch) if batch.is_control_batch else _heads(batch, packed)
    unpacked = unpack(batch.compression_type, packed)
    if not batch.is_control_batch:
        return _heads(batch, unpacked)
    put_unpacked(batch, unpacked)
    return iter(batch)


class RecordHead(NamedTuple):
    """The part of a record that is read.

    :param timestamp: Unix milliseconds, as stored.
    """

    offset: int
    timestamp: int


def _heads(batch: Any, content: memoryview | bytearray) -> Iterator[RecordHead]:
    """Keys, values and headers are skipped: a producer may write what it likes there, such as the name of a header that
    isn't UTF-8, which kafka-python takes for a damaged batch."""
    base, first, at_append = batch.base_offset, batch.first_timestamp, batch.timestamp_type == batch.LOG_APPEND_TIME
    at = 0
    for _ in range(batch.records_count):
        length, start = decode_varint(content, at)
        later_ms, at = decode_varint(content, start + 1)  # after the attributes, which are still unused
        delta, at = decode_varint(content, at)
        if not at <= start + length <= len(content):
            raise ValueError(f"a record claims {length} bytes")
        yield RecordHead(base + delta, batch.max_timestamp if at_append else first + later_ms)
        at = start + length
    if at != len(content):
        raise ValueError("a batch has bytes after its last record")


def _messages_within(batch: Any) -> Iterator[Any]:
    message, at = bytes_of(batch), _KEYS_AT[batch.magic]
    for _ in ("key", "value"):
        (size,) = _NUMBER.unpack_from(message, at)
        start, at = at + _NUMBER.size, at + _NUMBER.size + max(0, size)
    unpacked = unpack(batch.compression_type, message[start:at])
    messages = MemoryRecords(unpacked)
    for number, _ in enumerate(messages):  # refuses lengths with which kafka-python's batch would stand still
        if number == MOST_RECORDS:
            raise TooLargeError
    if messages.valid_bytes() != len(unpacked):
        raise ValueError("a message within a message ends early")
    put_unpacked(batch, unpacked)
    return iter(batch)
