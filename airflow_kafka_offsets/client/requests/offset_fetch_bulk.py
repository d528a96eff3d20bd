"""OffsetFetch from version 8 on, written and read in bulk.

A lag poll of a thousand groups on a hundred partitions is a hundred thousand commits in one answer, and making an
object of each and then another one of ours is most of what such a poll costs. The layout is fixed, so that the commits
of a topic without metadata, which is nearly all of them, are one run of equal rows. Versions before 8 answer for one
group, and are left to kafka-python; tests hold this decoder against kafka-python's on every version.

Request (flexible, KIP-482): groups, each: id, from version 9 on a member's id and epoch, topics, tags; RequireStable.
Topics are null for all of them. Response: throttle time; groups, each: id, topics, error code, tags; topics, each: name
(16 bytes of topic id in version 10), partitions, tags; partitions, each: index, offset, leader epoch, metadata, error
code, tags.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Mapping

from airflow_kafka_offsets.client.connection.response_errors import response_error
from airflow_kafka_offsets.client.requests.wire import NO_TAGS, NULL, BulkAnswer, Reader, array, text
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets, GroupOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic

FIRST_VERSION = 8
_ROW = struct.Struct(">iqiBhB")
"""A commit without metadata: index, offset, epoch, length of the metadata plus 1, error code, number of tags."""
_PLAIN = {16: b"\0\1", 19: b"\0"}
"""Metadata that is null or empty, and no tags."""
_HEAD = struct.Struct(">iqi")
_CODE = struct.Struct(">h")
_NUMBER = struct.Struct(">i")
_MEMBERS, _TOPIC_IDS = 9, 10
_NO_MEMBER = NULL + _NUMBER.pack(-1)
"""Member id and epoch of whoever is no member."""
_REQUIRE_STABLE = b"\1"


def encode_offset_fetch(
    wanted: Mapping[str, Iterable[TopicPartition] | None], version: int, topic_ids: Mapping[str, str] | None = None
) -> bytes:
    """The body of a request for all groups. Those that are asked for the same partitions share what is written of them.

    :param wanted: partitions by group; None for everything that the group has committed.
    :param topic_ids: ids by topic name, for version 10.
    """
    different = {id(partitions): partitions for partitions in wanted.values()}
    written = {key: _topics(partitions, version, topic_ids) for key, partitions in different.items()}
    member = _NO_MEMBER if version >= _MEMBERS else b""
    groups = [text(group) + member + written[id(partitions)] + NO_TAGS for group, partitions in wanted.items()]
    return array(groups) + _REQUIRE_STABLE + NO_TAGS


def _topics(partitions: Iterable[TopicPartition] | None, version: int, topic_ids: Mapping[str, str] | None) -> bytes:
    if partitions is None:
        return NULL
    topics = []
    for topic, pieces in by_topic(partitions).items():
        name = text(topic) if version < _TOPIC_IDS else uuid.UUID((topic_ids or {})[topic]).bytes
        topics.append(name + array([_NUMBER.pack(piece.partition) for piece in pieces]) + NO_TAGS)
    return array(topics)


def decode_offset_fetch(
    body: bytes, version: int, topics: Mapping[str, str] | None = None
) -> BulkAnswer[str, GroupOffsets]:
    """The commits of all groups of an answer.

    :param topics: topic names by topic id, for version 10.
    :raises ValueError: when the bytes are no such answer.
    """
    reader = Reader(body)
    (throttle_time_ms,) = reader.unpack(_NUMBER)
    names = (topics or {}) if version >= _TOPIC_IDS else None
    groups = [_group(reader, names) for _ in range(reader.array_size())]
    reader.skip_tags()
    return BulkAnswer(throttle_time_ms, {group.group: group for group in groups})


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
    rows = reader.rows(count, _ROW, _PLAIN)
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
    """One partition's commit, of numbers as on the wire."""
    if offset < 0 or code:
        return CommittedOffset(topic, partition, error=response_error(code))
    known_epoch = epoch if epoch is not None and epoch >= 0 else None
    return CommittedOffset(topic, partition, offset, known_epoch, metadata or "")
