"""The answer to OffsetFetch from version 8 on, decoded in bulk.

A lag poll of a thousand groups on a hundred partitions is a hundred thousand commits in one answer, and making an
object of each and then another one of ours is most of what such a poll costs. The layout is fixed, so that the commits
of a topic without metadata, which is nearly all of them, are one run of equal rows. Versions before 8 answer for one
group, and are left to kafka-python; tests hold this decoder against kafka-python's on every version.

Layout (flexible, KIP-482): throttle time; groups, each: id, topics, error code, tags; topics, each: name (16 bytes of
topic id in version 10), partitions, tags; partitions, each: index, offset, leader epoch, metadata, error code, tags.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_offsets.client.response_errors import response_error
from airflow_kafka_offsets.offsets.committed import CommittedOffset, CommittedOffsets, GroupOffsets

_ROW = struct.Struct(">iqiBhB")
"""A commit without metadata: index, offset, epoch, length of the metadata plus 1, error code, number of tags."""
_METADATA_AT, _TAGS_AT = 16, 19
_HEAD = struct.Struct(">iqi")
_CODE = struct.Struct(">h")
_THROTTLE = struct.Struct(">i")
_TOPIC_IDS = 10


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """What one coordinator answered.

    :param throttle_time_ms: how long it throttled this client.
    :param groups: commits by group id.
    """

    throttle_time_ms: int
    groups: Mapping[str, GroupOffsets]


def decode_offset_fetch(body: bytes, version: int, topics: Mapping[str, str] | None = None) -> FetchedOffsets:
    """The commits of all groups of an answer.

    :param topics: topic names by topic id, for version 10.
    :raises ValueError: when the bytes are no such answer.
    """
    reader = _Reader(body)
    try:
        (throttle_time_ms,) = reader.unpack(_THROTTLE)
        names = (topics or {}) if version >= _TOPIC_IDS else None
        groups = [_group(reader, names) for _ in range(reader.array_size())]
        reader.skip_tags()
    except (struct.error, IndexError) as error:
        raise ValueError(f"an OffsetFetch answer that ends early: {error}") from None
    return FetchedOffsets(throttle_time_ms, {each.group: each for each in groups})


def _group(reader: _Reader, names: Mapping[str, str] | None) -> GroupOffsets:
    group = reader.text()
    topics: dict[str, dict[int, CommittedOffset]] = {}
    for _ in range(reader.array_size()):
        topic = reader.text() if names is None else reader.topic(names)
        topics[topic] = _commits(reader, topic, reader.array_size())
        reader.skip_tags()
    (code,) = reader.unpack(_CODE)
    reader.skip_tags()
    error = response_error(code)
    return GroupOffsets(group, CommittedOffsets.of({} if error else topics), error)


def _commits(reader: _Reader, topic: str, count: int) -> dict[int, CommittedOffset]:
    rows = reader.rows_without_metadata(count)
    if rows is None:
        return {each.partition: each for each in (_commit(reader, topic) for _ in range(count))}
    return {
        index: CommittedOffset(topic, index, offset, epoch if epoch >= 0 else None)
        if offset >= 0 and not code
        else CommittedOffset(topic, index, error=response_error(code))
        for index, offset, epoch, _, code, _ in _ROW.iter_unpack(rows)
    }


def _commit(reader: _Reader, topic: str) -> CommittedOffset:
    index, offset, epoch = reader.unpack(_HEAD)
    metadata = reader.text()
    (code,) = reader.unpack(_CODE)
    reader.skip_tags()
    if offset < 0 or code:
        return CommittedOffset(topic, index, error=response_error(code))
    return CommittedOffset(topic, index, offset, epoch if epoch >= 0 else None, metadata)


class _Reader:
    """Reads Kafka's primitive types one after another."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._body, self._at)
        self._at += layout.size
        return values

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._body[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def take(self, size: int) -> bytes:
        if size > len(self._body) - self._at:
            raise ValueError(f"an OffsetFetch answer that ends early: {size} bytes expected at {self._at}")
        self._at += size
        return self._body[self._at - size : self._at]

    def array_size(self) -> int:
        """Elements of an array; 0 for null. None is smaller than a byte, so that more of them than bytes is a lie."""
        size = max(0, self.varint() - 1)
        if size > len(self._body):
            raise ValueError(f"an OffsetFetch answer with an array of {size} elements in {len(self._body)} bytes")
        return size

    def text(self) -> str:
        """A string; empty for null."""
        return self.take(max(0, self.varint() - 1)).decode()

    def topic(self, names: Mapping[str, str]) -> str:
        """The name of a topic id; the id itself when nobody named it."""
        topic_id = str(uuid.UUID(bytes=self.take(16)))
        return names.get(topic_id, topic_id)

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    def rows_without_metadata(self, count: int) -> bytes | None:
        """The next rows as they are, when none has metadata or tags; else None, and nothing is read."""
        rows = self._body[self._at : self._at + count * _ROW.size]
        size = _ROW.size
        # Where one row is longer than the rest, its own length says so first: all before it are as long as they seem.
        plain = not rows[_METADATA_AT::size].strip(b"\0\1") and not rows[_TAGS_AT::size].strip(b"\0")
        if len(rows) < count * size or not plain:
            return None
        self._at += len(rows)
        return rows
