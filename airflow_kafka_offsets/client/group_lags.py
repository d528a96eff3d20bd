"""Group lags: three rounds of requests for any number of groups, and the rules of :mod:`~..offsets.lag` on top.

Commits are asked before the ends of the logs, so that an ordinary race can't make lag negative (E16). Rounds:
coordinators with the topics' metadata alongside, commits, ends. Which topics a group touches is only known from its
commits, unless the caller names them: the first look at a group takes a metadata round more, later ones ask alongside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from airflow_kafka_offsets.client.coordinators import Coordinators
from airflow_kafka_offsets.client.deadline import Deadline
from airflow_kafka_offsets.client.groups import GroupLookup, find_groups
from airflow_kafka_offsets.client.leaders import Leaders
from airflow_kafka_offsets.client.log_extents import fetch_extents
from airflow_kafka_offsets.client.metadata import TopicsMetadata
from airflow_kafka_offsets.client.offset_fetch import fetch_offsets
from airflow_kafka_offsets.client.transport import Transport
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.committed import GroupOffsets, GroupsOffsets
from airflow_kafka_offsets.offsets.extents import LogExtents
from airflow_kafka_offsets.offsets.lag import GroupLag, GroupLags, group_lag
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

_NEVER_COMMITTED = ResponseError(
    "NO_COMMIT", -1, True, "the group exists but has committed nothing; name the topics to count from their log starts"
)
"""The error of a group without commits whose topics nobody named: the sum over no partitions would be 0, and wrong."""


def partitions_of(metadata: TopicsMetadata) -> list[TopicPartition]:
    """All partitions of the topics that are not in error."""
    return [TopicPartition(topic.topic, each.partition) for topic in metadata for each in topic.partitions]


def has_commits(offsets: GroupOffsets) -> bool:
    """Whether a group has committed anywhere, or can't say."""
    return offsets.error is not None or any(each.offset is not None or each.error for each in offsets.offsets)


def touched_topics(offsets: GroupOffsets) -> set[str]:
    """The topics that a group has commits on."""
    return set(offsets.offsets.topics())


class GroupLagRounds:
    """Asks for lag; remembers which topics each group touched, to ask for their metadata alongside the next time."""

    def __init__(self, transport: Transport, leaders: Leaders, coordinators: Coordinators) -> None:
        self._transport = transport
        self._leaders = leaders
        self._coordinators = coordinators
        self._touched: dict[str, set[str]] = {}

    async def on_topics(
        self, groups: Collection[str], topics: Iterable[str], isolation_level: IsolationLevel, deadline: Deadline
    ) -> GroupLags:
        """Lag on all partitions of these topics, and on no others. Each partition is named to the coordinator, so that
        a missing permission is an error and not a gap (E32).

        :raises OffsetsError: naming every topic that is unknown or may not be described.
        """
        metadata, _ = await self._beside(
            partial(self._leaders.describe, topics, deadline), partial(self._coordinators.locate, groups, deadline)
        )
        partitions = partitions_of(metadata.raise_for_errors())
        commits = await self._commits(dict.fromkeys(groups, partitions), deadline)
        extents, lookups = await self._ends(commits, partitions, deadline)
        return GroupLags(_lag(each, extents, lookups, isolation_level) for each in commits)

    async def on_committed(
        self, groups: Collection[str], isolation_level: IsolationLevel, deadline: Deadline
    ) -> GroupLags:
        """Lag on all partitions of every topic that each group has commits on."""
        expected = set().union(*(self._touched.get(group, set()) for group in groups))
        commits, metadata = await self._beside(
            partial(self._commits, dict.fromkeys(groups), deadline), partial(self._describe, expected, deadline)
        )
        self._touched |= {each.group: touched_topics(each) for each in commits if each.error is None}
        touched = set().union(*map(touched_topics, commits))
        partitions = partitions_of(metadata) + partitions_of(await self._describe(touched - expected, deadline))
        partitions += [key for each in commits for key in each.offsets.partitions()]
        extents, lookups = await self._ends(commits, [key for key in partitions if key.topic in touched], deadline)
        return GroupLags(
            _lag(each, _of_topics(extents, touched_topics(each)), lookups, isolation_level) for each in commits
        )

    async def _commits(self, wanted: Any, deadline: Deadline) -> GroupsOffsets:
        return await fetch_offsets(self._transport, self._coordinators, wanted, deadline)

    async def _describe(self, topics: Iterable[str], deadline: Deadline) -> TopicsMetadata:
        names = list(topics)
        return await self._leaders.describe(names, deadline) if names else TopicsMetadata(None)

    async def _ends(
        self, commits: GroupsOffsets, partitions: Collection[TopicPartition], deadline: Deadline
    ) -> tuple[LogExtents, dict[str, GroupLookup]]:
        """Where the logs end, and beside it whether the groups without commits exist."""
        doubtful = [each.group for each in commits if not has_commits(each)]
        extents, lookups = await self._beside(
            partial(fetch_extents, self._transport, self._leaders, partitions, deadline),
            partial(find_groups, self._transport, self._coordinators, doubtful, deadline),
        )
        return extents, lookups

    async def _beside(self, *works: Any) -> Any:
        return await self._transport.gather(works)


def _of_topics(extents: LogExtents, topics: Collection[str]) -> LogExtents:
    return LogExtents(each for each in extents if each.topic in topics)


def _lag(
    commits: GroupOffsets, extents: LogExtents, lookups: dict[str, GroupLookup], isolation_level: IsolationLevel
) -> GroupLag:
    lookup = lookups.get(commits.group)
    if lookup is not None and lookup.error is not None:
        commits = GroupOffsets(commits.group, error=lookup.error)
    unknown = lookup is not None and lookup.error is None and lookup.listed is None
    if not unknown and not len(extents) and commits.error is None:
        commits = GroupOffsets(commits.group, error=_NEVER_COMMITTED)
    return group_lag(commits, extents, unknown=unknown, isolation_level=isolation_level)
