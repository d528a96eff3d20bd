"""Stored batches: record batches in the bytes in which a broker keeps them, of every format and in every state."""

from __future__ import annotations

import struct

from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

T0 = 1_735_689_600_000
GZIP, LZ4 = 1, 3
VALUE = b"value" * 50
"""Smaller when it is compressed: kafka-python sends it as it is otherwise."""
TIMESTAMP_TYPE, CONTROL, DELETE_HORIZON = 0x08, 0x20, 0x40
ABORT, COMMIT = 0, 1

Record = tuple[int, int]
"""Offset and timestamp."""


def batch(
    *records: Record, base: int | None = None, last: int | None = None, producer: int = -1, codec: int = 0
) -> bytes:
    """A batch as a broker stores it.

    :param base: first offset of the batch, which is not that of the first record once the cleaner has removed it.
    :param last: last offset of the batch, likewise.
    :param producer: id of the transaction's producer; -1 for no transaction.
    """
    base = records[0][0] if base is None else base
    is_transactional = producer >= 0
    builder = DefaultRecordBatchBuilder(2, codec, is_transactional, producer, 0, 0, 1 << 20)
    for offset, timestamp in records:
        builder.append(offset - base, timestamp, None, VALUE, [])
    built = builder.build()
    return patched(built, base, (records[-1][0] if last is None else last) - base)


def patched(built: bytearray, base: int, last_delta: int, attributes: int = 0, count: int | None = None) -> bytes:
    header = list(DefaultRecordBatch.HEADER_STRUCT.unpack_from(built))
    header[0], header[6] = base, last_delta
    header[5] |= attributes
    header[12] = header[12] if count is None else count
    DefaultRecordBatch.HEADER_STRUCT.pack_into(built, 0, *header)
    return bytes(built)


def stamped_by_the_broker(stored: bytes) -> bytes:
    """The batch on a LogAppendTime topic: its maximum timestamp is that of every record."""
    header = DefaultRecordBatch.HEADER_STRUCT.unpack_from(stored)
    return patched(bytearray(stored), header[0], header[6], TIMESTAMP_TYPE)


def marker(offset: int, producer: int, kind: int, *, timestamp: int = T0) -> bytes:
    """A control batch, which only brokers write."""
    builder = DefaultRecordBatchBuilder(2, 0, True, producer, 0, -1, 1 << 20)
    builder.append(0, timestamp, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), [])
    return patched(builder.build(), offset, 0, CONTROL)


def emptied(base: int, last: int, *, attributes: int = 0, producer: int = -1) -> bytes:
    """What the cleaner leaves of a batch whose records are all gone: its header."""
    header = [base, 49, 0, 2, 0, attributes, last - base, -1, -1, producer, 0, 0, 0]
    return DefaultRecordBatch.HEADER_STRUCT.pack(*header)


def legacy(*records: Record, magic: int = 1, codec: int = 0) -> bytes:
    """Messages of before Kafka 0.11."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for number, (offset, timestamp) in enumerate(records):
        builder.append(number if codec and magic else offset, timestamp, None, VALUE)
    built = builder.build()
    if codec:
        struct.pack_into(">q", built, 0, records[-1][0])
    return bytes(built)


def lz4(stored: bytes) -> bytes:
    """A batch that says of its records that they are compressed with LZ4. Nobody may look."""
    is_legacy = stored[16] < 2
    built = bytearray(stored)
    built[17 if is_legacy else 22] |= LZ4
    return bytes(built)
