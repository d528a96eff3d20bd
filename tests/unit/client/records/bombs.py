"""Bombs: record batches of a megabyte or so that unpack to hundreds, made without ever holding what they unpack to."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import lz4.frame
import snappy
import zstandard
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import encode_varint

T0 = 1_735_689_600_000
HOUR_MS = 3_600_000
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
MIB = 1024 * 1024


def varint(number: int) -> bytes:
    written = bytearray()
    encode_varint(number, written.append)
    return bytes(written)


def record(offset_delta: int, timestamp_delta: int, value_size: int) -> tuple[bytes, int, bytes]:
    """A record with a value of zeros: what is before the zeros, how many they are, and what is after them."""
    head = b"\0" + varint(timestamp_delta) + varint(offset_delta) + varint(-1) + varint(value_size)
    tail = varint(0)
    return varint(len(head) + value_size + len(tail)) + head, value_size, tail


def pieces(records: list[tuple[bytes, int, bytes]]) -> Iterator[bytes]:
    zeros = bytes(MIB)
    for head, size, tail in records:
        yield head
        for start in range(0, size, MIB):
            yield zeros[: min(MIB, size - start)]
        yield tail


def gzipped(unpacked: Iterator[bytes]) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*map(packer.compress, unpacked), packer.flush()])


def snapped(unpacked: Iterator[bytes]) -> bytes:
    """As snappy-java writes it: in blocks of 32 KiB."""
    packed, rest, size = [b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)], b"", 32 * 1024
    zeros = snappy.compress(bytes(size))
    for piece in unpacked:
        rest += piece
        while len(rest) >= size:
            block, rest = rest[:size], rest[size:]
            packed_block = zeros if not any(block) else snappy.compress(block)
            packed.append(struct.pack(">i", len(packed_block)) + packed_block)
    block = snappy.compress(rest)
    return b"".join([*packed, struct.pack(">i", len(block)), block])


def lz4_packed(unpacked: Iterator[bytes]) -> bytes:
    packer = lz4.frame.LZ4FrameCompressor(block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB)
    return b"".join([packer.begin(), *map(packer.compress, unpacked), packer.flush()])


def zstd_packed(unpacked: Iterator[bytes]) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return b"".join([*map(packer.compress, unpacked), packer.flush()])


_PACKERS: dict[int, Callable[[Iterator[bytes]], bytes]] = {
    GZIP: gzipped,
    SNAPPY: snapped,
    LZ4: lz4_packed,
    ZSTD: zstd_packed,
}


def bomb(codec: int, value_bytes: int) -> bytes:
    """A batch of two records: one with a large value, and an hour later one with a small one."""
    packed = _PACKERS[codec](pieces([record(0, 0, value_bytes), record(1, HOUR_MS, 8)]))
    header = DefaultRecordBatch.HEADER_STRUCT
    fields = [0, header.size - 12 + len(packed), -1, 2, 0, codec, 1, T0, T0 + HOUR_MS, -1, -1, -1, 2]
    return header.pack(*fields) + packed
