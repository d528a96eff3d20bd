"""Unpacking: decompresses a batch, up to a limit.

Brokers only limit the compressed size of a batch (``max.message.bytes``), and a kilobyte may unpack to a megabyte.
Anyone who may write to a topic could then exhaust its readers' memory. So no batch is unpacked beyond
:data:`MOST_BYTES`. The codecs are those of Kafka's record batches, with the same libraries that kafka-python uses.
"""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable, Iterator
from typing import Any

import kafka.codec as codecs
from kafka.errors import UnsupportedCodecError

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


def unpack(codec: int, packed: memoryview) -> bytearray:
    """The decompressed content of a batch; it may end early where the compressed bytes do.

    :param codec: Kafka's number for the codec.
    :param packed: the batch without its header.
    :raises UnsupportedCodecError: when the library for the codec isn't installed.
    :raises TooLargeError: when there is more than :data:`MOST_BYTES`.
    :raises Exception: an error of the codec's own, for bytes that it can't decompress.
    """
    unpacked = bytearray()
    for piece in _UNPACKERS.get(codec, _unknown)(packed):
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


def _unknown(_: memoryview) -> Iterator[bytes]:
    raise UnsupportedCodecError("unknown")


_UNPACKERS: dict[int, Callable[[memoryview], Iterator[bytes]]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
