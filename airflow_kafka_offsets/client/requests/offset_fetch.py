"""OffsetFetch (key 9): committed offsets of groups, from their coordinators.

Versions: 0 reads commits that old consumers kept in ZooKeeper, 1 is the first that reads Kafka's own, 2 can ask for all
commits of a group, 3 adds throttle times, 5 leader epochs (KIP-320), 7 RequireStable (KIP-447), 8 several groups per
request (KIP-709), 9 fields for KIP-848 members, which an administrator leaves empty. Version 10 replaces topic names
with topic ids. It is used if the caller knows the ids, and refuses to answer for another topic that now has the same
name. Without ids, this client stops at 9, which also names topics that have since been deleted (E25). From version 8
on, responses are decoded by :mod:`.offset_fetch_bulk`.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.kafka_python import NodeId
from airflow_kafka_offsets.client.connection.transport import RequestFailedError
from airflow_kafka_offsets.client.connection.wire import Code, left_out, numbers_by_topic, response_error
from airflow_kafka_offsets.client.requests.offset_fetch_bulk import (
    FIRST_VERSION,
    TOPIC_IDS,
    committed_offset,
    decode_offset_fetch,
)
from airflow_kafka_offsets.client.routing.any_broker import ask_any
from airflow_kafka_offsets.client.routing.fan_out import FanOut, error_within
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ConfigurationError, ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets, GroupOffsets, GroupsOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition

Wanted = Mapping[str, Collection[TopicPartition] | None]
"""Partitions by group; None for all commits of the group."""
TopicIds = Mapping[str, str]
"""Topic ids by topic name."""

_NEWEST_BY_NAME = 9
_ALL_TOPICS = 2
_LEFT_OUT = left_out("the coordinator")


def own_topic_ids(ids: TopicIds | None) -> TopicIds | None:
    """Topic ids as this package writes them.

    :raises ConfigurationError: for an id that isn't a UUID.
    """
    try:
        return None if ids is None else {topic: str(uuid.UUID(topic_id)) for topic, topic_id in ids.items()}
    except ValueError as error:
        raise ConfigurationError(f"A topic id must be a UUID, as in topics() and snapshots: {error}.") from None


def newest_version(partitions: Iterable[TopicPartition] | None, topic_ids: TopicIds | None) -> int | None:
    """The newest version of OffsetFetch, and of OffsetCommit, that can be used for these partitions; None for no limit,
    because each of their topics has an id.
    """
    if partitions is None or topic_ids is None or not all(piece.topic in topic_ids for piece in partitions):
        return _NEWEST_BY_NAME
    return None


def offset_fetch_request(wanted: Wanted, version: int, topic_ids: TopicIds | None = None) -> Any:
    """A request for some groups; for a single group before version 8.

    :param topic_ids: for version 10.
    """
    # Lists that groups share are traversed once.
    lists = {id(partitions): partitions for partitions in wanted.values() if partitions is not None}
    rows = {key: _rows(partitions, version, topic_ids or {}) for key, partitions in lists.items()}
    topics = {group: None if partitions is None else rows[id(partitions)] for group, partitions in wanted.items()}
    if version < FIRST_VERSION:
        ((group, asked),) = topics.items()
        return OffsetFetchRequest[version](group_id=group, topics=asked, require_stable=True)
    group_class = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [group_class(group_id=group, topics=asked) for group, asked in topics.items()]
    return OffsetFetchRequest[version](groups=groups, require_stable=True)


def _rows(partitions: Iterable[TopicPartition], version: int, topic_ids: TopicIds) -> list[tuple[Any, list[int]]]:
    rows = numbers_by_topic(partitions)
    return [(uuid.UUID(topic_ids[topic]), numbers) for topic, numbers in rows] if version >= TOPIC_IDS else [*rows]


def parse_offset_fetch(group: str, response: Any) -> GroupOffsets:
    """The commits of one group, from a response before version 8."""
    error = response_error(response.error_code or 0)
    if error is not None:
        return GroupOffsets(group, error=error)
    commits = (
        committed_offset(
            topic.name,
            answer.partition_index,
            answer.committed_offset,
            answer.committed_leader_epoch,
            answer.metadata,
            answer.error_code,
        )
        for topic in response.topics
        for answer in topic.partitions
    )
    return GroupOffsets(group, CommittedOffsets(commits))


class _Fetch:
    """Tracks, for each group, what is known and what still has to be asked."""

    def __init__(self, session: Session, wanted: Wanted, topic_ids: TopicIds | None) -> None:
        self._transport = session.transport
        self._wanted = dict(wanted)
        self._topic_ids = topic_ids
        self._known: dict[str, GroupOffsets] = {}

    async def ask(self, node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, GroupOffsets]:
        """Ask for each group with the newest version that can express its request; groups of one version together."""
        versions: dict[int, dict[str, Collection[TopicPartition] | None]] = defaultdict(dict)
        answers: dict[str, GroupOffsets] = {}
        for (oldest, newest), wanted in self._by_bounds(groups).items():
            try:
                version = await self._transport.version(
                    node, OffsetFetchRequest, attempt, at_least=oldest, at_most=newest
                )
            except RequestFailedError as failed:
                if failed.error.code != Code.UNSUPPORTED_VERSION:
                    raise
                answers |= {group: GroupOffsets(group, error=failed.error) for group in wanted}
            else:
                versions[version].update(wanted)
        asked = [partial(self._ask_version, node, wanted, version, attempt) for version, wanted in versions.items()]
        for answer in await self._transport.gather(asked):
            answers |= answer
        return {group: self._add(answers[group]) for group in groups if group in answers}

    def _by_bounds(self, groups: Iterable[str]) -> Mapping[tuple[int, int | None], Wanted]:
        """The groups' requests, by the first and last version that can express them. Asking for all commits needs a
        version with null topics; using ids needs an id for every topic.
        """
        bounds: dict[tuple[int, int | None], dict[str, Collection[TopicPartition] | None]] = defaultdict(dict)
        known: dict[int, tuple[int, int | None]] = {}
        for group in groups:
            partitions = self._wanted[group]
            if id(partitions) not in known:  # many groups usually share one list
                oldest = _ALL_TOPICS if partitions is None else 1
                known[id(partitions)] = oldest, newest_version(partitions, self._topic_ids)
            bounds[known[id(partitions)]][group] = partitions
        return bounds

    async def _ask_version(
        self, node: NodeId, wanted: Wanted, version: int, attempt: Deadline
    ) -> Mapping[str, GroupOffsets]:
        if version < FIRST_VERSION:
            requests = [offset_fetch_request(dict([item]), version) for item in wanted.items()]
            send = [partial(self._transport.send, node, request, attempt) for request in requests]
            answers = await self._transport.gather(send)
            return {group: parse_offset_fetch(group, answer) for group, answer in zip(wanted, answers, strict=True)}
        names = {topic_id: topic for topic, topic_id in (self._topic_ids or {}).items()}
        request = offset_fetch_request(wanted, version, self._topic_ids)
        read = partial(decode_offset_fetch, version=version, topics=names)
        fetched = await self._transport.send(node, request, attempt, read=read)
        groups: Mapping[str, GroupOffsets] = fetched.groups
        return groups

    def _add(self, answer: GroupOffsets) -> GroupOffsets:
        """Merge an answer with what is known of its group. Only partitions with transient errors are retried."""
        if answer.error is not None:
            return self.failed(answer.group, answer.error)
        wanted, offsets = self._wanted[answer.group], answer.offsets
        if wanted is not None and len(offsets) < len(wanted):
            # "No commit" is an answer too, but a partition missing from the response is an error.
            missing = [CommittedOffset(*piece, error=_LEFT_OUT) for piece in wanted if piece not in offsets]
            offsets = CommittedOffsets([*offsets, *missing])
        known = self._known.get(answer.group)
        if known is not None:
            offsets = CommittedOffsets([*known.offsets, *offsets])
        answer = replace(answer, offsets=offsets)
        unstable = [each for each in offsets.unordered() if each.error is not None and each.error.may_pass]
        if unstable:
            self._known[answer.group] = answer
            self._wanted[answer.group] = [TopicPartition.of(commit) for commit in unstable]
        return answer

    def failed(self, group: str, error: ResponseError) -> GroupOffsets:
        """A group for which this attempt only gave an error: earlier answers are kept."""
        known = self._known.get(group)
        if known is None:
            return GroupOffsets(group, error=error)
        lost = [CommittedOffset(*piece, error=error) for piece in self._wanted[group] or ()]
        return replace(known, offsets=CommittedOffsets([*known.offsets, *lost]))


async def fetch_offsets(session: Session, wanted: Wanted, topic_ids: TopicIds | None = None) -> GroupsOffsets:
    """Ask all coordinators concurrently; returns an element for every group, by the deadline."""
    fetch = _Fetch(session, wanted, topic_ids)
    results = await FanOut(session, session.coordinators, fetch.ask, error_within, fetch.failed).run(wanted)
    return GroupsOffsets(results.values())


async def fetch_zookeeper_offsets(session: Session, group: str, partitions: Collection[TopicPartition]) -> GroupOffsets:
    """A group's commits in ZooKeeper, from any broker: brokers in ZooKeeper mode support version 0 (until Kafka 3.9).

    Such a broker answers UNKNOWN_TOPIC_OR_PARTITION both for a partition that doesn't exist and for one without a
    commit; the topics' metadata distinguishes them.

    :raises ClusterUnreachableError: when no broker answers by the deadline.
    """

    async def ask(node: NodeId, attempt: Deadline) -> GroupOffsets:
        try:
            await session.transport.version(node, OffsetFetchRequest, attempt, at_most=0)
        except RequestFailedError as failed:
            if failed.error.code != Code.UNSUPPORTED_VERSION:
                raise
            return GroupOffsets(group, error=failed.error)
        request = offset_fetch_request({group: partitions}, 0)
        return parse_offset_fetch(group, await session.transport.send(node, request, attempt))

    metadata, found = await session.beside(
        partial(session.describe, {piece.topic for piece in partitions}),
        partial(ask_any, session.transport, ask, session.deadline),
    )
    existing = set(partitions_of(metadata))

    def as_uncommitted(commit: CommittedOffset) -> CommittedOffset:
        key = TopicPartition.of(commit)
        unknown = commit.error is not None and commit.error.code == Code.UNKNOWN_TOPIC_OR_PARTITION
        return CommittedOffset(*key) if unknown and key in existing else commit

    return GroupOffsets(group, CommittedOffsets(map(as_uncommitted, found.offsets)), found.error)
