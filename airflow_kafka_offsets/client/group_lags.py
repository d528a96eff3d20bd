"""Group lags: three rounds of requests for any number of groups, and the rules of :mod:`~..offsets.lag` on top.

Commits are asked before the ends of the logs, so that an ordinary race can't make lag negative (E16). Rounds:
coordinators with the topics' metadata alongside; commits; ends. Each is one request a broker, and one more a leader for
the log starts, without which a commit on deleted records can't be told from a good one. Which topics a group touches is
only known from its commits and members, unless the caller names topics or partitions: the first look at a group takes a
metadata round more, later ones ask alongside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any

from airflow_kafka_offsets.client.coordinators import Coordinators
from airflow_kafka_offsets.client.deadline import Deadline
from airflow_kafka_offsets.client.describe_groups import fetch_descriptions
from airflow_kafka_offsets.client.leaders import Leaders
from airflow_kafka_offsets.client.listing import fetch_list_offsets
from airflow_kafka_offsets.client.log_extents import BOTH_ENDS, fetch_extents
from airflow_kafka_offsets.client.metadata import TopicsMetadata, partitions_of
from airflow_kafka_offsets.client.offset_fetch import fetch_offsets
from airflow_kafka_offsets.client.response_errors import UNSUPPORTED_VERSION, left_out
from airflow_kafka_offsets.client.transport import Transport
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.committed import GroupOffsets, GroupsOffsets
from airflow_kafka_offsets.offsets.extents import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.groups import GroupDescription, GroupDescriptions
from airflow_kafka_offsets.offsets.lag import GroupLag, GroupLags
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

_NEVER_COMMITTED = ResponseError(
    "NO_COMMIT", -1, True, "the group exists but has committed nothing; name the topics to count from their log starts"
)
"""The error of a group without commits and members whose topics nobody named: a sum over no partitions would be 0."""
_HIGH_WATERMARK = IsolationLevel.READ_UNCOMMITTED


def touched_topics(commits: GroupOffsets, description: GroupDescription | None) -> set[str]:
    """The topics that a group has commits on, and that its members read."""
    read = set() if description is None else description.topics()
    return read.union(commits.offsets.topics())


class GroupLagRounds:
    """Asks for lag; remembers which topics each group touched, to ask for their metadata alongside the next time.

    ``isolation_level`` is which end counts; ``both_ends`` asks for the other one too.
    """

    def __init__(self, transport: Transport, leaders: Leaders, coordinators: Coordinators) -> None:
        self._transport = transport
        self._leaders = leaders
        self._coordinators = coordinators
        self._touched: dict[str, set[str]] = {}

    async def on_topics(
        self,
        groups: Collection[str],
        topics: Iterable[str],
        isolation_level: IsolationLevel,
        both_ends: bool,
        deadline: Deadline,
    ) -> GroupLags:
        """Lag on all partitions of these topics, and on no others. Each partition is named to the coordinator, so that
        a missing permission is an error and not a gap (E32).

        :raises OffsetsError: naming every topic that is unknown or may not be described.
        """
        metadata, _ = await self._beside(
            partial(self._leaders.describe, topics, deadline), partial(self._coordinators.locate, groups, deadline)
        )
        partitions = partitions_of(metadata.raise_for_errors())
        return await self._judge(dict.fromkeys(groups, partitions), isolation_level, both_ends, deadline)

    async def on_partitions(
        self,
        wanted: Mapping[str, Collection[TopicPartition]],
        isolation_level: IsolationLevel,
        both_ends: bool,
        deadline: Deadline,
    ) -> GroupLags:
        """Lag of each group on exactly its partitions, each of which may be in error alone. Metadata is asked only for
        topics with a partition whose leader isn't known.

        :param wanted: partitions by group, none of them twice.
        """
        everything = list(_all_of(wanted))
        await self._beside(
            partial(self._leaders.locate, everything, deadline), partial(self._coordinators.locate, wanted, deadline)
        )
        return await self._judge(wanted, isolation_level, both_ends, deadline)

    async def _judge(
        self,
        wanted: Mapping[str, Collection[TopicPartition]],
        isolation_level: IsolationLevel,
        both_ends: bool,
        deadline: Deadline,
    ) -> GroupLags:
        """The rounds after the look-up of leaders and coordinators: commits, then ends."""
        everything = _all_of(wanted)
        commits = await self._commits(wanted, deadline)
        doubtful = [each.group for each in commits if not each.has_commits]
        extents, described = await self._beside(
            partial(self._ends, commits, everything, isolation_level, both_ends, deadline),
            partial(self._describe_groups, doubtful, deadline),
        )
        return GroupLags(
            _lag(each, _only(extents, wanted[each.group]), described.lookup(each.group), isolation_level)
            for each in commits
        )

    async def on_committed(
        self, groups: Collection[str], isolation_level: IsolationLevel, both_ends: bool, deadline: Deadline
    ) -> GroupLags:
        """Lag on all partitions of every topic that each group has commits on, or that its members read."""
        expected = set().union(*(self._touched.get(group, set()) for group in groups))
        await self._coordinators.locate(groups, deadline)  # once, not by each of the next two
        commits, described, metadata = await self._beside(
            partial(self._commits, dict.fromkeys(groups), deadline),
            partial(self._describe_groups, groups, deadline),
            partial(self._describe_topics, expected, deadline),
        )
        touched = {each.group: touched_topics(each, described.lookup(each.group)) for each in commits}
        self._touched |= touched
        everything = set().union(*touched.values())
        partitions = partitions_of(metadata) + partitions_of(
            await self._describe_topics(everything - expected, deadline)
        )
        # Whatever was committed on or is assigned is judged, even where the topic is gone (E25).
        partitions += [key for each in commits for key in each.offsets.partitions()]
        partitions += [key for each in described for key in each.assignment()]
        judged = [each for each in dict.fromkeys(partitions) if each.topic in everything]
        extents = await self._ends(commits, judged, isolation_level, both_ends, deadline)
        return GroupLags(
            _lag(each, extents.of_topics(touched[each.group]), described.lookup(each.group), isolation_level)
            for each in commits
        )

    async def _commits(
        self, wanted: Mapping[str, Collection[TopicPartition] | None], deadline: Deadline
    ) -> GroupsOffsets:
        return await fetch_offsets(self._transport, self._coordinators, wanted, _half(deadline))

    async def _describe_groups(self, groups: Collection[str], deadline: Deadline) -> GroupDescriptions:
        return await fetch_descriptions(self._transport, self._coordinators, groups, _half(deadline))

    async def _describe_topics(self, topics: Collection[str], deadline: Deadline) -> TopicsMetadata:
        return await self._leaders.describe(topics, deadline) if topics else TopicsMetadata()

    async def _ends(
        self,
        commits: GroupsOffsets,
        partitions: Collection[TopicPartition],
        isolation_level: IsolationLevel,
        both_ends: bool,
        deadline: Deadline,
    ) -> LogExtents:
        """Where the logs start and end. The high watermark is asked too where a commit lies past the stable offset."""
        levels = BOTH_ENDS if both_ends else (isolation_level,)
        extents = await fetch_extents(self._transport, self._leaders, partitions, deadline, levels)
        if _HIGH_WATERMARK in levels:
            return extents
        past = {key for each in commits for key in _past_the_end(each, extents)}
        if not past:
            return extents
        found = await fetch_list_offsets(
            self._transport, self._leaders, past, OffsetSpec.LATEST, _HIGH_WATERMARK, deadline
        )
        complete = (
            LogExtent(*key, error=each.error or left_out("the leader"))
            if each.offset is None
            else extents.lookup(*key)._replace(high_watermark=each.offset)  # type: ignore[union-attr]  # it was past it
            for each in found
            for key in [(each.topic, each.partition)]
        )
        return LogExtents([*extents, *complete])

    async def _beside(self, *works: Any) -> Any:
        return await self._transport.gather(works)


def _all_of(wanted: Mapping[str, Collection[TopicPartition]]) -> Collection[TopicPartition]:
    """All partitions, each once. A list that a thousand groups share is gone through once."""
    lists = {id(each): each for each in wanted.values()}
    return dict.fromkeys(chain.from_iterable(lists.values()))


def _only(extents: LogExtents, partitions: Collection[TopicPartition]) -> LogExtents:
    return extents if len(partitions) == len(extents) else extents.of_partitions(partitions)


def _hides_partitions(commits: GroupOffsets, error: ResponseError) -> bool:
    """Whether a group whose members aren't known may read more than it has committed on."""
    return error.code != UNSUPPORTED_VERSION or not commits.has_commits


def _half(deadline: Deadline) -> Deadline:
    """The deadline of a round with another one to come, so that a hung coordinator costs its own groups alone."""
    return deadline.within(deadline.remaining_s() / 2)


def _past_the_end(commits: GroupOffsets, extents: LogExtents) -> Iterable[TopicPartition]:
    for topic, committed in commits.offsets.by_topic.items():
        logs = extents.by_topic.get(topic, {})
        for number, each in committed.items():
            extent = logs.get(number)
            end = None if extent is None else extent.last_stable_offset
            if each.offset is not None and end is not None and each.offset > end:
                yield TopicPartition(topic, number)


def _lag(
    commits: GroupOffsets,
    extents: LogExtents,
    description: GroupDescription | None,
    isolation_level: IsolationLevel,
) -> GroupLag:
    if description is not None and description.error is not None and _hides_partitions(commits, description.error):
        commits = GroupOffsets(commits.group, error=description.error)
    has_offsets = any(each.offset is not None for each in commits.offsets.unordered())
    if description is not None and description.is_unknown and has_offsets:
        description = None  # a coordinator that has just taken over may not describe yet what it fetches
    unknown = description is not None and description.is_unknown
    if not unknown and not len(extents) and commits.error is None:
        commits = GroupOffsets(commits.group, error=_NEVER_COMMITTED)
    return GroupLag(commits, extents, description=description, isolation_level=isolation_level)
