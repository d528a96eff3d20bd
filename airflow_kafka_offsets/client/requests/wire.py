"""Kafka's primitive types in flexible versions (KIP-482), for the few messages that are written and read in bulk.

Everything else goes through kafka-python's own encoders and decoders.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

K = TypeVar("K")
E = TypeVar("E")

NO_TAGS = b"\0"
NULL = b"\0"
"""Instead of a string or an array."""


@dataclass(frozen=True, slots=True)
class BulkAnswer(Generic[K, E]):
    """What one broker answered.

    :param throttle_time_ms: how long it throttled this client.
    :param elements: by partition or group.
    """

    throttle_time_ms: int
    elements: Mapping[K, E]


def varint(number: int) -> bytes:
    """An unsigned varint."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def text(value: str) -> bytes:
    """A compact string."""
    encoded = value.encode()
    return varint(len(encoded) + 1) + encoded


def array(elements: list[bytes]) -> bytes:
    """A compact array."""
    return varint(len(elements) + 1) + b"".join(elements)


class Reader:
    """Reads one value after another. Every method raises ValueError when the bytes end early or can't be."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Numbers of a fixed size."""
        return layout.unpack(self.take(layout.size))

    def take(self, size: int) -> bytes:
        """So many bytes."""
        if size > len(self._body) - self._at:
            raise ValueError(f"an answer that ends early: {size} bytes expected at {self._at}")
        self._at += size
        return self._body[self._at - size : self._at]

    def varint(self) -> int:
        """An unsigned varint."""
        number = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError(f"an answer with an unterminated number at {self._at}")

    def array_size(self) -> int:
        """Elements of an array; 0 for null. None is smaller than a byte, so that more of them than bytes is a lie."""
        size = max(0, self.varint() - 1)
        if size > len(self._body):
            raise ValueError(f"an answer with an array of {size} elements in {len(self._body)} bytes")
        return size

    def text(self) -> str:
        """A string; empty for null."""
        return self.take(max(0, self.varint() - 1)).decode()

    def topic(self, names: Mapping[str, str]) -> str:
        """The name of a topic id; the id itself when nobody named it."""
        topic_id = str(uuid.UUID(bytes=self.take(16)))
        return names.get(topic_id, topic_id)

    def skip_tags(self) -> None:
        """Fields of later versions."""
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    def rows(
        self, count: int, layout: struct.Struct, expected: Mapping[int, bytes]
    ) -> Iterator[tuple[Any, ...]] | None:
        """The next rows of a fixed layout; None, and nothing is read, when they aren't.

        :param expected: which bytes may stand at a place of every row: where one row is longer than its layout, its own
            length says so there first, and all rows before it are as long as they seem.
        """
        size = layout.size
        rows = self._body[self._at : self._at + count * size]
        if len(rows) < count * size or any(rows[at::size].strip(allowed) for at, allowed in expected.items()):
            return None
        self._at += len(rows)
        return layout.iter_unpack(rows)
