"""Record heads: offset and timestamp of each record of a batch, one after the other; keys and values are passed over.

Rests on Kafka's record formats: batches with a header (version 2, Kafka 0.11), and the messages of before (versions 0
and 1), where a compressed batch is a message with messages within. kafka-python reads the headers of batches
(``MemoryRecords``) and would unpack each batch as a whole to read its records; :mod:`.unpacking` doesn't.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka.record.default_records import DefaultRecordBatch

from airflow_kafka_offsets.client.records.unpacking import TooLargeError, Unpacked

HEADERS_OF_BATCHES = 2
"""The magic number from which on a batch has a header of its own (Kafka 0.11). Before, a batch is a message, and its
offset that of the last record within."""
MOST_RECORDS = 1024 * 1024
"""A batch is read up to here: seven times as many records as the megabyte holds that Java's producer puts into one."""
_MESSAGE = (struct.Struct(">qiIbb"), struct.Struct(">qiIbbq"))
"""By magic number: offset, length, CRC, magic number, attributes, timestamp."""
_AFTER_LENGTH = 12
_NUMBER = struct.Struct(">i")
_CODEC, _LOG_APPEND_TIME = 0x07, 0x08
_LONGEST_KEY = 4


class RecordHead(NamedTuple):
    """What is read of a record.

    :param timestamp: as it is stored; None before Kafka 0.10.
    """

    offset: int
    timestamp: int | None


def record_heads(batch: Any) -> Iterator[RecordHead]:
    """The records of one of kafka-python's batches, in order.

    :raises UnsupportedCodecError: when the library of its codec isn't installed.
    :raises TooLargeError: where it unpacks to more than is read of one batch. What came before it is right.
    :raises ValueError: where the bytes are no records.
    """
    if batch.magic >= HEADERS_OF_BATCHES:
        return _records(batch)
    if batch.compression_type:
        return _messages_within(batch)
    return iter([RecordHead(batch.base_offset, _message(memoryview(batch._buffer), batch.magic)[4])])


def is_abort_marker(batch: Any) -> bool:
    """Whether a control batch ends a transaction by an abort. The cleaner leaves markers without a record."""
    if batch.records_count <= 0:
        return False
    unpacked = Unpacked(batch.compression_type, _after_header(batch))
    for _ in range(4):  # length, attributes, timestamp and offset
        unpacked.varint()
    key = unpacked.take(min(_LONGEST_KEY, unpacked.varint()))
    version, kind = struct.unpack(">hh", key)
    return bool(version == 0 and kind == 0)


def _after_header(batch: Any) -> memoryview:
    return memoryview(batch._buffer)[DefaultRecordBatch.HEADER_STRUCT.size :]


def _records(batch: Any) -> Iterator[RecordHead]:
    if batch.records_count < 0:
        raise ValueError(f"a batch that claims {batch.records_count} records")
    unpacked = Unpacked(batch.compression_type, _after_header(batch))
    base, first, at_append = batch.base_offset, batch.first_timestamp, batch.timestamp_type == batch.LOG_APPEND_TIME
    for number in range(batch.records_count):
        if number == MOST_RECORDS:
            raise TooLargeError
        length = unpacked.varint()
        end = unpacked.position + length
        unpacked.skip(1)  # attributes, which nobody uses yet
        timestamp = first + unpacked.varint()
        offset = base + unpacked.varint()
        if unpacked.position > end:
            raise ValueError(f"a record that claims {length} bytes")
        yield RecordHead(offset, batch.max_timestamp if at_append else timestamp)
        unpacked.skip(end - unpacked.position)  # by whoever wants the next one too
    if not unpacked.is_over:
        raise ValueError("a batch with bytes after its last record")


def _message(message: memoryview, magic: int) -> tuple[int, int, int, int, int | None]:
    """Offset, length, magic number, attributes and timestamp of a message."""
    offset, length, _, found, attributes, *timestamp = _MESSAGE[magic].unpack_from(message)
    if found != magic:
        raise ValueError(f"a message of version {found} where one of version {magic} belongs")
    return offset, length, found, attributes, timestamp[0] if timestamp else None


def _messages_within(batch: Any) -> Iterator[RecordHead]:
    """The offsets within a message of version 1 count from its first one, which its last one tells."""
    before = 0
    if batch.magic:
        last = deque(_messages(batch), maxlen=1)
        before = batch.base_offset - last[0].offset if last else 0
    for head in _messages(batch):
        yield RecordHead(head.offset + max(0, before), head.timestamp)


def _messages(batch: Any) -> Iterator[RecordHead]:
    message, header = memoryview(batch._buffer), _MESSAGE[batch.magic]
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
            raise ValueError(f"a message at offset {offset} that is compressed within a compressed one")
        unpacked.skip(length - (header.size - _AFTER_LENGTH))
        yield RecordHead(offset, outer[4] if outer[3] & _LOG_APPEND_TIME else timestamp)
