"""The records of a batch, in order: kafka-python's, within bounds.

Covers Kafka's record formats: batches with a header (version 2, Kafka 0.11), and the earlier messages (versions 0 and
1), where a compressed batch is a message that contains messages. kafka-python would decompress any batch as a whole,
however large it gets; :mod:`.unpacking` doesn't.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from kafka.record import MemoryRecords
from kafka.record.legacy_records import LegacyRecordBatch

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
    if batch.compression_type:
        put_unpacked(batch, unpack(batch.compression_type, bytes_of(batch)[_HEADER_BYTES:]))
    return iter(batch)


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
