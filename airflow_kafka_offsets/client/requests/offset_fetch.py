"""OffsetFetch (key 9): what groups have committed, asked of their coordinators.

Versions: 1 is the first that reads Kafka's own commits (0 reads ZooKeeper: :mod:`.offset_fetch_v0`), 2 can ask for
everything a group committed, 3 tells throttle times, 5 leader epochs (KIP-320), 7 RequireStable (KIP-447), 8 takes
several groups (KIP-709), 9 the fields of a KIP-848 member, which an administrator leaves empty. Version 10 replaces
topic names by topic ids: it is spoken when the caller knows the ids, and then refuses the commits of another topic that
has the same name now. Without ids this client stops at 9, which names a topic that was deleted since (E25).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

from kafka.protocol.consumer import OffsetFetchRequest

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.framing import BulkRequest
from airflow_kafka_offsets.client.connection.response_errors import (
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
    left_out,
    response_error,
)
from airflow_kafka_offsets.client.connection.transport import NodeId, RequestFailedError
from airflow_kafka_offsets.client.requests.offset_fetch_bulk import (
    FIRST_VERSION,
    decode_offset_fetch,
    encode_offset_fetch,
)
from airflow_kafka_offsets.client.routing.fan_out import FanOut, ShardRequest
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupOffsets,
    GroupsOffsets,
)
from airflow_kafka_offsets.offsets.partitions import TopicPartition, by_topic

Wanted = Mapping[str, Collection[TopicPartition] | None]
"""Partitions by group; None for everything that the group has committed."""
TopicIds = Mapping[str, str]
"""Topic ids by topic name."""

_NEWEST_BY_NAME = 9
_ALL_TOPICS = 2
_SETTLED = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID})
"""A missing topic isn't the coordinator's to find, however often it is asked."""
_LEFT_OUT = left_out("the coordinator")


def offset_fetch_request(group: str, partitions: Iterable[TopicPartition] | None, version: int) -> Any:
    """A request for one group, before version 8."""
    topic_class = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = None
    if partitions is not None:
        topics = [
            topic_class(name=topic, partition_indexes=[each.partition for each in pieces])
            for topic, pieces in by_topic(partitions).items()
        ]
    return OffsetFetchRequest[version](group_id=group, topics=topics, require_stable=True)


def names_all(wanted: Iterable[Iterable[TopicPartition] | None], topic_ids: TopicIds | None) -> bool:
    """Whether every topic that is asked for can be asked for by its id."""
    return topic_ids is not None and all(
        partitions is not None and all(each.topic in topic_ids for each in partitions) for partitions in wanted
    )


def parse_offset_fetch(group: str, response: Any) -> GroupOffsets:
    """The commits of one group, before version 8."""
    error = response_error(response.error_code or 0)
    if error is not None:
        return GroupOffsets(group, error=error)
    commits = (_commit(topic.name, each) for topic in response.topics for each in topic.partitions)
    return GroupOffsets(group, CommittedOffsets(commits))


def _commit(topic: str, answer: Any) -> CommittedOffset:
    error = response_error(answer.error_code)
    if error is not None or answer.committed_offset < 0:
        return CommittedOffset(topic, answer.partition_index, error=error)
    epoch = answer.committed_leader_epoch
    return CommittedOffset(
        topic,
        answer.partition_index,
        answer.committed_offset,
        epoch if epoch is not None and epoch >= 0 else None,
        answer.metadata or "",
    )


def passing_error(offsets: GroupOffsets) -> ResponseError | None:
    """What is worth asking the group's coordinator again for: the group's own error, or a partition's that may pass,
    such as UNSTABLE_OFFSET_COMMIT while a transaction commits (E31).
    """
    if offsets.error is not None:
        return offsets.error
    return next((each.error for each in offsets.offsets.unordered() if _may_pass(each.error)), None)


def _may_pass(error: ResponseError | None) -> bool:
    return error is not None and error.retriable and error.code not in _SETTLED


def _complete(offsets: CommittedOffsets, wanted: Iterable[TopicPartition]) -> CommittedOffsets:
    """An element for every partition: no commit is an answer too, and silence is an error."""
    silent = [CommittedOffset(*each, error=_LEFT_OUT) for each in wanted if each not in offsets]
    return CommittedOffsets([*offsets, *silent])


class _Bounds(NamedTuple):
    """The versions that can say what is wanted of a group.

    :param oldest: the first of them.
    :param newest: the last one; None for the newest.
    """

    oldest: int
    newest: int | None

    @classmethod
    def of(cls, partitions: Collection[TopicPartition] | None, topic_ids: TopicIds | None) -> Self:
        """Everything needs null topics; ids need a name for each of them."""
        newest = None if names_all([partitions], topic_ids) else _NEWEST_BY_NAME
        return cls(_ALL_TOPICS if partitions is None else 1, newest)


class _Fetch:
    """What is still to be asked of each group, and what is known of it."""

    def __init__(self, session: Session, wanted: Wanted, topic_ids: TopicIds | None) -> None:
        self._transport = session.transport
        self._wanted = dict(wanted)
        self._topic_ids = topic_ids
        self._known: dict[str, GroupOffsets] = {}
        self._passing: dict[str, ResponseError | None] = {}

    async def ask(self, node: NodeId, groups: list[str], attempt: Deadline) -> Mapping[str, GroupOffsets]:
        wanted = {group: self._wanted[group] for group in groups}
        answers = await self._ask(node, wanted, attempt)
        return {group: self._add(answers[group]) for group in groups if group in answers}

    async def _ask(self, node: NodeId, wanted: Wanted, attempt: Deadline) -> Mapping[str, GroupOffsets]:
        """Each group by the newest version that can say what is wanted of it; those of one version together."""
        versions: dict[int, dict[str, Collection[TopicPartition] | None]] = defaultdict(dict)
        answers: dict[str, GroupOffsets] = {}
        for bounds, groups in self._by_bounds(wanted).items():
            try:
                version = await self._transport.version(
                    node, OffsetFetchRequest, attempt, at_least=bounds.oldest, at_most=bounds.newest
                )
            except RequestFailedError as failed:
                if failed.error.code != UNSUPPORTED_VERSION:
                    raise
                answers |= {group: GroupOffsets(group, error=failed.error) for group in groups}
            else:
                versions[version].update(groups)
        asked = [partial(self._ask_version, node, groups, version, attempt) for version, groups in versions.items()]
        for each in await self._transport.gather(asked):
            answers |= each
        return answers

    def _by_bounds(self, wanted: Wanted) -> dict[_Bounds, dict[str, Collection[TopicPartition] | None]]:
        bounds: dict[_Bounds, dict[str, Collection[TopicPartition] | None]] = defaultdict(dict)
        known: dict[int, _Bounds] = {}
        for group, partitions in wanted.items():
            if id(partitions) not in known:  # many groups mostly share one list
                known[id(partitions)] = _Bounds.of(partitions, self._topic_ids)
            bounds[known[id(partitions)]][group] = partitions
        return bounds

    async def _ask_version(
        self, node: NodeId, wanted: Wanted, version: int, attempt: Deadline
    ) -> Mapping[str, GroupOffsets]:
        if version < FIRST_VERSION:
            requests = [offset_fetch_request(*each, version) for each in wanted.items()]
            send = [partial(self._transport.send, node, request, attempt) for request in requests]
            answers = await self._transport.gather(send)
            return {group: parse_offset_fetch(group, each) for group, each in zip(wanted, answers, strict=True)}
        names = {topic_id: topic for topic, topic_id in (self._topic_ids or {}).items()}
        read = partial(decode_offset_fetch, version=version, topics=names)
        body = encode_offset_fetch(wanted, version, self._topic_ids)
        fetched = await self._transport.send(node, BulkRequest(OffsetFetchRequest[version](), read, body), attempt)
        groups: Mapping[str, GroupOffsets] = fetched.groups
        return groups

    def _add(self, answer: GroupOffsets) -> GroupOffsets:
        """What is known of a group by now. Only its partitions that may still answer are asked for again."""
        if answer.error is not None:
            return self.failed(answer.group, answer.error)
        wanted = self._wanted[answer.group]
        if wanted is not None and len(answer.offsets) < len(wanted):
            answer = replace(answer, offsets=_complete(answer.offsets, wanted))
        known = self._known.get(answer.group)
        if known is not None:
            answer = replace(answer, offsets=CommittedOffsets([*known.offsets, *answer.offsets]))
        unstable = [each for each in answer.offsets.unordered() if each.error is not None and _may_pass(each.error)]
        self._passing[answer.group] = unstable[0].error if unstable else None
        if unstable:
            self._known[answer.group] = answer
            self._wanted[answer.group] = [TopicPartition(each.topic, each.partition) for each in unstable]
        return answer

    def passing(self, answer: GroupOffsets) -> ResponseError | None:
        """What is worth asking again for: as :func:`passing_error`, without going through all commits once more."""
        return answer.error or self._passing.get(answer.group)

    def failed(self, group: str, error: ResponseError) -> GroupOffsets:
        """A group for which there is only an error this time: what was answered before stays."""
        self._passing[group] = error
        known = self._known.get(group)
        if known is None:
            return GroupOffsets(group, error=error)
        lost = [CommittedOffset(each.topic, each.partition, error=error) for each in self._wanted[group] or ()]
        return replace(known, offsets=CommittedOffsets([*known.offsets, *lost]))


async def fetch_offsets(session: Session, wanted: Wanted, topic_ids: TopicIds | None = None) -> GroupsOffsets:
    """Ask all coordinators at the same time; an element for every group, by the deadline."""
    fetch = _Fetch(session, wanted, topic_ids)
    question = ShardRequest(fetch.ask, fetch.passing, fetch.failed)
    results = await FanOut(session, session.coordinators, question).run(wanted)
    return GroupsOffsets(results.values())
