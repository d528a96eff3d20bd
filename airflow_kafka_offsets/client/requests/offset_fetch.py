"""OffsetFetch (key 9): what groups have committed, asked of their coordinators.

Versions: 0 reads commits that old consumers kept in ZooKeeper, 1 is the first that reads Kafka's own, 2 can ask for
everything a group committed, 3 tells throttle times, 5 leader epochs (KIP-320), 7 RequireStable (KIP-447), 8 takes
several groups (KIP-709), 9 the fields of a KIP-848 member, which an administrator leaves empty. Version 10 replaces
topic names by topic ids: it is spoken when the caller knows the ids, and then refuses the commits of another topic that
has the same name now. Without ids this client stops at 9, which names a topic that was deleted since (E25). From
version 8 on answers are read by :mod:`.offset_fetch_bulk`.
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
from airflow_kafka_offsets.client.connection.response_errors import Code, left_out, response_error
from airflow_kafka_offsets.client.connection.transport import NodeId, RequestFailedError
from airflow_kafka_offsets.client.requests.offset_fetch_bulk import (
    FIRST_VERSION,
    TOPIC_IDS,
    committed_offset,
    decode_offset_fetch,
)
from airflow_kafka_offsets.client.routing.any_broker import ask_any
from airflow_kafka_offsets.client.routing.fan_out import FanOut
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.client.wire import numbers_by_topic
from airflow_kafka_offsets.errors import ConfigurationError, ResponseError
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupOffsets,
    GroupsOffsets,
)
from airflow_kafka_offsets.offsets.partitions import TopicPartition

Wanted = Mapping[str, Collection[TopicPartition] | None]
"""Partitions by group; None for everything that the group has committed."""
TopicIds = Mapping[str, str]
"""Topic ids by topic name."""

_NEWEST_BY_NAME = 9
_ALL_TOPICS = 2
_SETTLED = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID)
"""A missing topic isn't the coordinator's to find, however often it is asked."""
_LEFT_OUT = left_out("the coordinator")


def own_topic_ids(ids: TopicIds | None) -> TopicIds | None:
    """Topic ids as this package writes them.

    :raises ConfigurationError: for a text that is no UUID.
    """
    try:
        return None if ids is None else {topic: str(uuid.UUID(topic_id)) for topic, topic_id in ids.items()}
    except ValueError as error:
        raise ConfigurationError(f"A topic id must be a UUID, as topics() and snapshots give it: {error}.") from None


def newest_version(partitions: Iterable[TopicPartition] | None, topic_ids: TopicIds | None) -> int | None:
    """The newest version that can ask for these partitions, of OffsetFetch and of OffsetCommit alike; None for any:
    each of their topics has an id.
    """
    if partitions is None or topic_ids is None or not all(piece.topic in topic_ids for piece in partitions):
        return _NEWEST_BY_NAME
    return None


def offset_fetch_request(wanted: Wanted, version: int, topic_ids: TopicIds | None = None) -> Any:
    """A request for some groups; before version 8 for one.

    :param topic_ids: for version 10.
    """
    # Lists that groups share are gone through once.
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
    """The commits of one group, before version 8."""
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


def passing_error(commits: CommittedOffsets) -> ResponseError | None:
    """What is worth asking the group's coordinator again for: an error of a partition that may pass, such as
    UNSTABLE_OFFSET_COMMIT while a transaction commits (E31).
    """
    return next((commit.error for commit in commits.unordered() if _may_pass(commit.error)), None)


def _may_pass(error: ResponseError | None) -> bool:
    return error is not None and error.retriable and error.code not in _SETTLED


class _Fetch:
    """What is still to be asked of each group, and what is known of it."""

    def __init__(self, session: Session, wanted: Wanted, topic_ids: TopicIds | None) -> None:
        self._transport = session.transport
        self._wanted = dict(wanted)
        self._topic_ids = topic_ids
        self._known: dict[str, GroupOffsets] = {}
        self._passing: dict[str, ResponseError | None] = {}

    async def ask(self, node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, GroupOffsets]:
        """Each group by the newest version that can say what is wanted of it; those of one version together."""
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
        """What is wanted of groups, by the first and the last version that can say it: everything needs null topics,
        and ids need a name for each of them.
        """
        bounds: dict[tuple[int, int | None], dict[str, Collection[TopicPartition] | None]] = defaultdict(dict)
        known: dict[int, tuple[int, int | None]] = {}
        for group in groups:
            partitions = self._wanted[group]
            if id(partitions) not in known:  # many groups mostly share one list
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
        """What is known of a group by now. Only its partitions that may still answer are asked for again."""
        if answer.error is not None:
            return self.failed(answer.group, answer.error)
        wanted, offsets = self._wanted[answer.group], answer.offsets
        if wanted is not None and len(offsets) < len(wanted):
            # No commit is an answer too, and silence is an error.
            silent = [CommittedOffset(*piece, error=_LEFT_OUT) for piece in wanted if piece not in offsets]
            offsets = CommittedOffsets([*offsets, *silent])
        known = self._known.get(answer.group)
        if known is not None:
            offsets = CommittedOffsets([*known.offsets, *offsets])
        answer = replace(answer, offsets=offsets)
        unstable = [commit for commit in offsets.unordered() if _may_pass(commit.error)]
        self._passing[answer.group] = unstable[0].error if unstable else None
        if unstable:
            self._known[answer.group] = answer
            self._wanted[answer.group] = [TopicPartition.of(commit) for commit in unstable]
        return answer

    def passing(self, answer: GroupOffsets) -> ResponseError | None:
        """What is worth asking again for: the group's own error, or a partition's, which :meth:`_add` has noted."""
        return answer.error or self._passing.get(answer.group)

    def failed(self, group: str, error: ResponseError) -> GroupOffsets:
        """A group for which there is only an error this time: what was answered before stays."""
        self._passing[group] = error
        known = self._known.get(group)
        if known is None:
            return GroupOffsets(group, error=error)
        lost = [CommittedOffset(*piece, error=error) for piece in self._wanted[group] or ()]
        return replace(known, offsets=CommittedOffsets([*known.offsets, *lost]))


async def fetch_offsets(session: Session, wanted: Wanted, topic_ids: TopicIds | None = None) -> GroupsOffsets:
    """Ask all coordinators at the same time; an element for every group, by the deadline."""
    fetch = _Fetch(session, wanted, topic_ids)
    results = await FanOut(session, session.coordinators, fetch.ask, fetch.passing, fetch.failed).run(wanted)
    return GroupsOffsets(results.values())


async def fetch_zookeeper_offsets(session: Session, group: str, partitions: Collection[TopicPartition]) -> GroupOffsets:
    """A group's commits in ZooKeeper, asked of any broker: brokers in ZooKeeper mode speak version 0 (until Kafka 3.9).

    Such a broker says UNKNOWN_TOPIC_OR_PARTITION of a partition that doesn't exist and of one without a commit; the
    topics' metadata tells them apart.

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

    def told(commit: CommittedOffset) -> CommittedOffset:
        key = TopicPartition.of(commit)
        unknown = commit.error is not None and commit.error.code == Code.UNKNOWN_TOPIC_OR_PARTITION
        return CommittedOffset(*key) if unknown and key in existing else commit

    return GroupOffsets(group, CommittedOffsets(map(told, found.offsets)), found.error)
