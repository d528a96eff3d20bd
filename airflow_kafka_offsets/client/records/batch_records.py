"""The records of a batch, in order: their offsets and timestamps, within bounds.

Covers Kafka's record formats: batches with a header (version 2, Kafka 0.11), and the earlier messages (versions 0 and
1), where a compressed batch is a message that contains messages.

Brokers only limit the compressed size of a batch (``max.message.bytes``), and a kilobyte may unpack to a megabyte.
Anyone who may write to a topic could then exhaust its readers' memory, because kafka-python would decompress any batch
as a whole. So no batch is unpacked beyond :data:`MOST_BYTES`, with the libraries that kafka-python uses.
"""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import kafka.codec as codecs
from kafka.errors import UnsupportedCodecError
from kafka.record import MemoryRecords
from kafka.record.legacy_records import LegacyRecordBatch
from kafka.record.util import decode_varint

from airflow_kafka_offsets.client.connection.kafka_python import bytes_of, put_unpacked

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
MOST_BYTES = 32 * 1024 * 1024
"""Maximum decompressed size of a batch: 32 times the defaults of the brokers' limit (``max.message.bytes``, compressed)
and of the Java producer's (``max.request.size``, uncompressed)."""
_PIECE_BYTES = 64 * 1024
_ZSTD_WINDOW_BYTES = 32 * 1024 * 1024
"""The window size of zstd's level 20. A frame may ask for gigabytes, which a reader would have to keep in memory."""
_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES = 16
_SNAPPY_RATIO = 64
"""Snappy's densest element turns 3 bytes into 64, so a block that claims a higher ratio than this is corrupt."""


class TooLargeError(Exception):
    """A batch exceeds the limits on what is read from one batch. Never leaves the client."""


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


def unpack(codec: int, packed: memoryview) -> bytearray:
    """The decompressed content of a batch; it may end early where the compressed bytes do.

    :param codec: Kafka's number for the codec.
    :param packed: the batch without its header.
    :raises UnsupportedCodecError: when the library for the codec isn't installed.
    :raises TooLargeError: when there is more than :data:`MOST_BYTES`.
    :raises Exception: an error of the codec's own, for bytes that it can't decompress.
    """
    unpacked = bytearray()
    if codec not in _UNPACKERS:
        raise UnsupportedCodecError("unknown")
    for piece in _UNPACKERS[codec](packed):
        if len(unpacked) + len(piece) > MOST_BYTES:
            raise TooLargeError
        unpacked += piece
    return unpacked


def _gzip(packed: memoryview) -> Iterator[bytes]:
    return _read(gzip.GzipFile(fileobj=io.BytesIO(packed)))


def _lz4(packed: memoryview) -> Iterator[bytes]:
    if not codecs.has_lz4() or codecs.lz4 is None:
        raise UnsupportedCodecError("lz4")
    return _read(codecs.lz4.LZ4FrameFile(io.BytesIO(packed)))


def _zstd(packed: memoryview) -> Iterator[bytes]:
    if not codecs.has_zstd():
        raise UnsupportedCodecError("zstd")
    unpacker = codecs.zstd.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    try:
        yield from _read(unpacker.stream_reader(packed, read_across_frames=True))
    except codecs.zstd.ZstdError as error:
        if "memory" in str(error):  # "Frame requires too much memory for decoding"
            raise TooLargeError from None
        raise


def _read(stream: Any) -> Iterator[bytes]:
    with stream:
        while piece := stream.read(_PIECE_BYTES):
            yield piece


def _snappy(packed: memoryview) -> Iterator[bytes]:
    """The decompressed blocks: one, or several with length prefixes if the Java library wrote them."""
    if not codecs.has_snappy():
        raise UnsupportedCodecError("snappy")
    if packed[: len(_XERIAL)] != _XERIAL:
        yield _block(packed)
        return
    at = _XERIAL_HEADER_BYTES
    while at < len(packed):
        (size,) = struct.unpack_from(">i", packed, at)
        at += 4
        if not 0 < size <= len(packed) - at:
            raise ValueError(f"a block claims {size} bytes, but {len(packed) - at} are left")
        yield _block(packed[at : at + size])
        at += size


def _block(packed: memoryview) -> bytes:
    """One decompressed block. It can only be decompressed as a whole, but starts with its decompressed size."""
    size = 0
    for shift, byte in zip(range(0, 35, 7), packed, strict=False):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    if size > MOST_BYTES:
        raise TooLargeError
    if size > len(packed) * _SNAPPY_RATIO:
        raise ValueError(f"a block of {len(packed)} bytes claims to unpack to {size}")
    unpacked: bytes = codecs.snappy.decompress(packed.tobytes())
    return unpacked


_UNPACKERS: dict[int, Callable[[memoryview], Iterator[bytes]]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
