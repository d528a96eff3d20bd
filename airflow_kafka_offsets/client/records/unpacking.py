"""Unpacking: decompresses a batch piece by piece, in memory that doesn't grow with the decompressed size.

Brokers only limit the compressed size of a batch (``max.message.bytes``), and a kilobyte may unpack to a megabyte.
Anyone who may write to a topic could then exhaust its readers' memory. So no batch is unpacked as a whole, or beyond
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
from kafka.record.util import decode_varint

MOST_BYTES = 64 * 1024 * 1024
"""Maximum decompressed size of a batch: 64 times the defaults of the brokers' limit (``max.message.bytes``, compressed)
and of the Java producer's (``max.request.size``, uncompressed)."""
_PIECE_BYTES = 64 * 1024
_ZSTD_WINDOW_BYTES = 32 * 1024 * 1024
"""The window size of zstd's level 20. A frame may ask for gigabytes, which a reader would have to keep in memory."""
_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES = 16
_SNAPPY_RATIO = 64
"""Snappy's densest element turns 3 bytes into 64, so a block that claims a higher ratio than this is corrupt."""
_LONGEST_VARINT = 10


class TooLargeError(Exception):
    """A batch exceeds the limits on what is read from one batch. Never leaves the client."""


class Unpacked:
    """The decompressed content of a batch, read from the start. All methods raise ValueError, or an error of the codec,
    if the content ends early.

    :param codec: Kafka's number for the codec.
    :param packed: the batch without its header.
    :raises UnsupportedCodecError: when the library for the codec isn't installed.
    """

    __slots__ = ("_at", "_passed", "_piece", "_pieces")

    def __init__(self, codec: int, packed: memoryview) -> None:
        self._pieces = _limited(_UNPACKERS.get(codec, _unknown)(packed)) if codec else iter([packed.tobytes()])
        self._piece = b""
        self._at = 0
        self._passed = 0

    @property
    def position(self) -> int:
        """How many bytes have been read or skipped."""
        return self._passed + self._at

    def _fill(self, size: int) -> None:
        """Buffer at least this many bytes, or all that are left."""
        while len(self._piece) - self._at < size:
            piece = next(self._pieces, None)
            if piece is None:
                return
            self._passed += self._at
            self._piece = self._piece[self._at :] + piece
            self._at = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        self._fill(1)
        return self._at == len(self._piece)

    def varint(self) -> int:
        """A signed varint."""
        self._fill(_LONGEST_VARINT)
        try:
            number, self._at = decode_varint(self._piece, self._at)
        except IndexError:
            raise ValueError("a batch ends in the middle of a number") from None
        return int(number)

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes; for small sizes."""
        self._fill(size)
        if not 0 <= size <= len(self._piece) - self._at:
            raise ValueError(f"a batch ends early, or claims that {size} bytes follow")
        self._at += size
        return self._piece[self._at - size : self._at]

    def skip(self, size: int) -> None:
        """Skip bytes without buffering them."""
        if size < 0:
            raise ValueError(f"a batch claims that {size} bytes follow")
        left = size - (len(self._piece) - self._at)
        while left > 0:
            piece = next(self._pieces, None)
            if piece is None:
                raise ValueError(f"a batch ends {left} bytes early")
            self._passed += len(self._piece)
            self._piece = piece
            left -= len(piece)
        self._at = len(self._piece) + left


def _limited(pieces: Iterator[bytes]) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > MOST_BYTES:
            raise TooLargeError
        yield piece


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
    for block in _blocks(packed):
        for start in range(0, len(block), _PIECE_BYTES):
            yield block[start : start + _PIECE_BYTES]


def _blocks(packed: memoryview) -> Iterator[bytes]:
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
