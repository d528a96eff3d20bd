"""Bulk decoder for OffsetFetch responses from version 8 on.

A lag poll of a thousand groups on a hundred partitions gets a hundred thousand commits in one response. Most of its
cost would be creating a kafka-python object for each, and then one of ours. The layout is fixed, and nearly all commits
have no metadata, so a topic's commits are usually one run of rows of equal size. Versions before 8 answer for one group
and are left to kafka-python. Tests compare this decoder with kafka-python's on every version.

Layout (flexible, KIP-482): throttle time; groups, each: id, topics, error code, tags; topics, each: name
(16 bytes of topic id in version 10), partitions, tags; partitions, each: index, offset, leader epoch, metadata, error
code, tags.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_offsets.client.connection.wire import or_none, response_error
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets, GroupOffsets

FIRST_VERSION = 8
_ROW = struct.Struct(">iqiBhB")
"""A commit without metadata: index, offset, epoch, length of the metadata plus 1, error code, number of tags."""
_PLAIN = {16: b"\0\1", 19: b"\0"}
"""Allowed bytes at some positions of such a row: null or empty metadata, and no tags."""
_HEAD = struct.Struct(">iqi")
_CODE = struct.Struct(">h")
_NUMBER = struct.Struct(">i")
TOPIC_IDS = 10


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """One coordinator's response.

    :param throttle_time_ms: how long the broker throttled this client.
    :param groups: commits by group id.
    """

    throttle_time_ms: int
    groups: Mapping[str, GroupOffsets]


def decode_offset_fetch(body: bytes, version: int, topics: Mapping[str, str] | None = None) -> FetchedOffsets:
    """The commits of all groups in a response.

    :param topics: topic names by topic id, for version 10.
    :raises ValueError: when the bytes are not a valid response.
    """
    reader = Reader(body)
    (throttle_time_ms,) = reader.unpack(_NUMBER)
    names = (topics or {}) if version >= TOPIC_IDS else None
    groups = [_group(reader, names) for _ in range(reader.array_size())]
    reader.skip_tags()
    return FetchedOffsets(throttle_time_ms, {group.group: group for group in groups})


def _group(reader: Reader, names: Mapping[str, str] | None) -> GroupOffsets:
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


def _commits(reader: Reader, topic: str, count: int) -> dict[int, CommittedOffset]:
    rows = reader.rows(count)
    if rows is None:
        return {commit.partition: commit for commit in (_commit(reader, topic) for _ in range(count))}
    return {
        index: CommittedOffset(topic, index, offset, epoch if epoch >= 0 else None)
        if offset >= 0 and not code
        else CommittedOffset(topic, index, error=response_error(code))
        for index, offset, epoch, _, code, _ in rows
    }


def _commit(reader: Reader, topic: str) -> CommittedOffset:
    index, offset, epoch = reader.unpack(_HEAD)
    metadata = reader.text()
    (code,) = reader.unpack(_CODE)
    reader.skip_tags()
    return committed_offset(topic, index, offset, epoch, metadata, code)


def committed_offset(
    topic: str, partition: int, offset: int, epoch: int | None, metadata: str | None, code: int
) -> CommittedOffset:
    """One partition's commit, from wire values."""
    if offset < 0 or code:
        return CommittedOffset(topic, partition, error=response_error(code))
    return CommittedOffset(topic, partition, offset, or_none(epoch), metadata or "")


class Reader:
    """Reads one value after another. Every method raises ValueError if the bytes end early or are invalid."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Numbers of a fixed size."""
        return layout.unpack(self.take(layout.size))

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        if size > len(self._body) - self._at:
            raise ValueError(f"an answer ends early: {size} bytes expected at {self._at}")
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
        raise ValueError(f"an answer has an unterminated number at {self._at}")

    def array_size(self) -> int:
        """Number of elements in an array; 0 for null. Each takes at least a byte, so there can't be more than bytes."""
        size = max(0, self.varint() - 1)
        if size > len(self._body):
            raise ValueError(f"an answer claims an array of {size} elements in {len(self._body)} bytes")
        return size

    def text(self) -> str:
        """A string; empty for null."""
        return self.take(max(0, self.varint() - 1)).decode()

    def topic(self, names: Mapping[str, str]) -> str:
        """The topic name for the next topic id; the id itself if the name isn't known."""
        topic_id = str(uuid.UUID(bytes=self.take(16)))
        return names.get(topic_id, topic_id)

    def skip_tags(self) -> None:
        """Skip tagged fields, which later versions may add."""
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    def rows(self, count: int) -> Iterator[tuple[Any, ...]] | None:
        """The next commits as rows of equal size; None, without reading anything, if one of them has metadata or tags.
        The first such commit is always found, because all rows before it have the expected size."""
        rows = self._body[self._at : self._at + count * _ROW.size]
        if len(rows) < count * _ROW.size or any(rows[at :: _ROW.size].strip(allowed) for at, allowed in _PLAIN.items()):
            return None
        self._at += len(rows)
        return _ROW.iter_unpack(rows)
