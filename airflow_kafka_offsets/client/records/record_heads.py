"""Record heads: offset and timestamp of each record in a batch, in order; keys and values are skipped.

Covers Kafka's record formats: batches with a header (version 2, Kafka 0.11), and the earlier messages (versions 0 and
1), where a compressed batch is a message that contains messages. kafka-python reads the headers of batches
(``MemoryRecords``), but would decompress each batch as a whole to read its records; :mod:`.unpacking` doesn't.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from airflow_kafka_offsets.client.connection.kafka_python import bytes_of
from airflow_kafka_offsets.client.records.unpacking import TooLargeError, Unpacked

HEADERS_OF_BATCHES = 2
"""First magic number with a header per batch (Kafka 0.11). An earlier batch is a message, whose offset is that of the
last record inside."""
MOST_RECORDS = 1024 * 1024
"""Maximum number of records read from a batch: seven times as many as fit into the megabyte of a Java producer's batch.
"""
_MESSAGE = (struct.Struct(">qiIbb"), struct.Struct(">qiIbbq"))
"""By magic number: offset, length, CRC, magic number, attributes, timestamp."""
_AFTER_LENGTH = 12
_HEADER_BYTES = 61
"""Of a batch's header."""
_NUMBER = struct.Struct(">i")
_CODEC, _LOG_APPEND_TIME = 0x07, 0x08
_LONGEST_KEY = 4


class RecordHead(NamedTuple):
    """The part of a record that is read.

    :param timestamp: as stored; None before Kafka 0.10.
    """

    offset: int
    timestamp: int | None


def record_heads(batch: Any) -> Iterator[RecordHead]:
    """The records in a kafka-python batch, in order.

    :raises UnsupportedCodecError: when the library for its codec isn't installed.
    :raises TooLargeError: when it exceeds the limits for one batch. Records yielded before that are valid.
    :raises ValueError: when the bytes aren't valid records.
    """
    if batch.magic >= HEADERS_OF_BATCHES:
        return _records(batch)
    if batch.compression_type:
        return _messages_within(batch)
    return iter([RecordHead(batch.base_offset, _message(bytes_of(batch), batch.magic)[4])])


def is_abort_marker(batch: Any) -> bool:
    """Whether a control batch aborts a transaction. The log cleaner can leave marker batches without a record."""
    if batch.records_count <= 0:
        return False
    unpacked = Unpacked(batch.compression_type, _after_header(batch))
    for _ in range(4):  # length, attributes, timestamp and offset
        unpacked.varint()
    key = unpacked.take(min(_LONGEST_KEY, unpacked.varint()))
    version, kind = struct.unpack(">hh", key)
    return bool(version == 0 and kind == 0)


def _after_header(batch: Any) -> memoryview:
    return bytes_of(batch)[_HEADER_BYTES:]


def _records(batch: Any) -> Iterator[RecordHead]:
    if batch.records_count < 0:
        raise ValueError(f"a batch claims {batch.records_count} records")
    unpacked = Unpacked(batch.compression_type, _after_header(batch))
    base, first, at_append = batch.base_offset, batch.first_timestamp, batch.timestamp_type == batch.LOG_APPEND_TIME
    for number in range(batch.records_count):
        if number == MOST_RECORDS:
            raise TooLargeError
        length = unpacked.varint()
        end = unpacked.position + length
        unpacked.skip(1)  # attributes, which are still unused
        timestamp = first + unpacked.varint()
        offset = base + unpacked.varint()
        if unpacked.position > end:
            raise ValueError(f"a record claims {length} bytes")
        yield RecordHead(offset, batch.max_timestamp if at_append else timestamp)
        unpacked.skip(end - unpacked.position)  # after the yield: only if the caller wants the next record
    if not unpacked.is_over:
        raise ValueError("a batch has bytes after its last record")


def _message(message: memoryview, magic: int) -> tuple[int, int, int, int, int | None]:
    """Offset, length, magic number, attributes and timestamp of a message."""
    offset, length, _, found, attributes, *timestamp = _MESSAGE[magic].unpack_from(message)
    if found != magic:
        raise ValueError(f"a message has version {found} instead of {magic}")
    return offset, length, found, attributes, timestamp[0] if timestamp else None


def _messages_within(batch: Any) -> Iterator[RecordHead]:
    """The messages in a compressed message. In version 1 their offsets are relative; the outer message has the absolute
    offset of the last."""
    before = 0
    if batch.magic:
        last = deque(_messages(batch), maxlen=1)
        before = batch.base_offset - last[0].offset if last else 0
    for head in _messages(batch):
        yield RecordHead(head.offset + max(0, before), head.timestamp)


def _messages(batch: Any) -> Iterator[RecordHead]:
    message, header = bytes_of(batch), _MESSAGE[batch.magic]
    outer = _message(message, batch.magic)
    at = header.size
    for _ in ("key", "value"):
        (size,) = _NUMBER.unpack_from(message, at)
        start, at = at + _NUMBER.size, at + _NUMBER.size + max(0, size)
    unpacked = Unpacked(batch.compression_type, message[start:at])
    number = 0
    while not unpacked.is_over:
        if number == MOST_RECORDS:
            raise TooLargeError
        number += 1
        offset, length, _, attributes, timestamp = _message(memoryview(unpacked.take(header.size)), batch.magic)
        if attributes & _CODEC:
            raise ValueError(f"a message at offset {offset} is compressed inside a compressed message")
        unpacked.skip(length - (header.size - _AFTER_LENGTH))
        yield RecordHead(offset, outer[4] if outer[3] & _LOG_APPEND_TIME else timestamp)
