"""Group lags: three rounds of requests for any number of groups, then the rules of :mod:`.lag`.

The rounds are: coordinators along with the topics' metadata; commits; log ends. Commits are asked before ends, so that
an ordinary race can't make lag negative (E16). Each round takes one request per broker, the last one three per leader:
log starts, because without them a commit on deleted records looks like a valid one, and both ends. Unless the caller
names topics or partitions, a group's topics are only known from its commits and members. The first look at a group then
takes another round for metadata; later looks request it along with the commits. A share group commits nothing: once it
is known to be one, another round asks how far it has come.

Throughout, ``isolation_level`` says which end counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain

from airflow_kafka_offsets.client.connection.wire import Code, named_error
from airflow_kafka_offsets.client.lookups.leader_epochs import mark_truncated
from airflow_kafka_offsets.client.requests.describe_groups import fetch_descriptions
from airflow_kafka_offsets.client.requests.describe_share_group_offsets import fetch_share_offsets
from airflow_kafka_offsets.client.requests.list_offsets import fetch_extents
from airflow_kafka_offsets.client.requests.offset_fetch import TopicIds, Wanted, fetch_offsets
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata, partitions_of
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import (
    GroupDescription,
    GroupDescriptions,
    GroupKind,
    GroupOffsets,
    GroupsOffsets,
)
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.lag import GroupLag, GroupLags
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel

_NEVER_COMMITTED = ResponseError(
    "NO_COMMIT", -1, True, "the group exists but has committed nothing; name the topics to count from their log starts"
)
"""The error of a group without commits or members when no topics are named. Lag over no partitions would add up to 0.
"""
_NOT_LISTED = named_error(
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    "the group has committed offsets, but its coordinator neither describes nor lists it, so it isn't known what else "
    "it reads; wait, or name the topics (topics=, --topics)",
)
"""The error of a group that has commits but whose coordinator doesn't know it yet, so it may have members: the
coordinator has just taken over."""
_HIGH_WATERMARK = IsolationLevel.READ_UNCOMMITTED


async def lags_on_topics(
    session: Session,
    groups: Collection[str],
    topics: Iterable[str],
    isolation_level: IsolationLevel,
) -> GroupLags:
    """Lag on all partitions of these topics, and no others. The request names each partition, so that a missing
    permission is an error and not a gap (E32).

    :raises OffsetsError: naming every topic that is unknown or may not be described.
    """
    metadata, _ = await session.beside(
        partial(session.leaders.describe_all, topics, session.deadline),
        partial(session.coordinators.locate, groups, session.deadline),
    )
    partitions = partitions_of(metadata.raise_for_errors())
    return await _judge(session, dict.fromkeys(groups, partitions), isolation_level)


async def lags_on_partitions(
    session: Session,
    wanted: Mapping[str, Collection[TopicPartition]],
    isolation_level: IsolationLevel,
) -> GroupLags:
    """Lag of each group on exactly its given partitions, each with its own error. Metadata is requested only for topics
    with a partition whose leader isn't known.

    :param wanted: partitions by group, without duplicates.
    """
    everything = list(_all_of(wanted))
    await session.beside(
        partial(session.leaders.locate, everything, session.deadline),
        partial(session.coordinators.locate, wanted, session.deadline),
    )
    return await _judge(session, wanted, isolation_level)


async def _judge(
    session: Session,
    wanted: Mapping[str, Collection[TopicPartition]],
    isolation_level: IsolationLevel,
) -> GroupLags:
    """The rounds after leaders and coordinators are known: commits, then ends."""
    everything = _all_of(wanted)
    commits = await fetch_offsets(session.half(), wanted)
    doubtful = [group.group for group in commits if not group.has_commits]
    extents, described = await session.beside(
        partial(fetch_extents, session.half(), everything),
        partial(fetch_descriptions, session.half(), doubtful),
    )
    if shares := {group: wanted[group] for group in _share_groups(described)}:
        commits = await _with_share_groups(session, commits, shares)
        later = await fetch_extents(session.half(), _all_of(shares))  # ends come after positions
        extents = LogExtents([*extents.unordered(), *later.unordered()])
    commits = await mark_truncated(session, commits, extents)
    return GroupLags(
        _lag(group, _only(extents, wanted[group.group]), described.lookup(group.group), isolation_level)
        for group in commits
    )


async def lags_on_committed(session: Session, groups: Collection[str], isolation_level: IsolationLevel) -> GroupLags:
    """Lag on all partitions of every topic that each group has commits on, or that its members read.

    A topic that can't be described may have unknown partitions: its known partitions are in error, so the total is
    unknown. The total is also unknown while not all members' topics are known, or the members themselves aren't.
    """
    expected = set().union(*(session.touched.get(group, set()) for group in groups))
    await session.coordinators.locate(groups, session.deadline)  # once, for both of the next requests to them
    half = session.half()
    commits, described, metadata = await session.beside(
        partial(fetch_offsets, half, dict.fromkeys(groups)),
        partial(fetch_descriptions, half, groups),
        partial(_describe_topics, session, expected),
    )
    if shares := dict.fromkeys(_share_groups(described)):
        commits = await _with_share_groups(session, commits, shares)
    description = {group.group: group for group in described}
    touched = {group.group: description[group.group].topics().union(group.offsets.topics()) for group in commits}
    session.touched.update(touched)
    everything = set().union(*touched.values())
    metadata = metadata.updated(await _describe_topics(session, everything - expected))
    partitions = partitions_of(metadata)
    # Every partition with a commit or an assigned member is judged, even if its topic is gone (E25).
    partitions += [key for group in commits for key in group.offsets.partitions()]
    partitions += [key for group in described for key in group.assignment()]
    judged = [key for key in dict.fromkeys(partitions) if key.topic in everything]
    undescribed = {topic.topic: topic.error for topic in metadata if topic.error is not None}
    known = [key for key in judged if key.topic not in undescribed]
    extents = await fetch_extents(session.half(), known)
    commits = await mark_truncated(session, commits, extents)
    bad = (LogExtent(*key, error=undescribed[key.topic]) for key in judged if key.topic in undescribed)
    extents = LogExtents([*extents.unordered(), *bad])
    return GroupLags(
        _lag(
            group,
            extents.of_topics(touched[group.group]),
            description[group.group],
            isolation_level,
            _hidden(touched[group.group], judged, undescribed, description[group.group]),
        )
        for group in commits
    )


def _share_groups(described: Iterable[GroupDescription]) -> list[str]:
    return [group.group for group in described if group.kind is GroupKind.SHARE]


async def _with_share_groups(session: Session, commits: GroupsOffsets, shares: Wanted) -> GroupsOffsets:
    """The commits, with the positions of share groups, which commit nothing, in place of theirs."""
    found = await fetch_share_offsets(session.half(), shares)
    return GroupsOffsets([*commits, *(group.as_commits() for group in found)])


async def _describe_topics(session: Session, topics: Collection[str]) -> TopicsMetadata:
    return await session.leaders.describe_all(topics, session.deadline) if topics else TopicsMetadata()


def _hidden(
    touched: Collection[str],
    judged: Iterable[TopicPartition],
    undescribed: Mapping[str, ResponseError],
    description: GroupDescription,
) -> ResponseError | None:
    """The error of a topic that the group's members read if none of its partitions is known; else why the members may
    read further topics; None if neither applies.
    """
    hidden = sorted(set(undescribed).intersection(touched).difference(key.topic for key in judged))
    if not hidden:
        return description.topics_unknown
    error = undescribed[hidden[0]]
    return replace(error, message=f"topic {hidden[0]}: {error.message}")


async def fetch_commits(session: Session, wanted: Wanted, topic_ids: TopicIds | None = None) -> GroupsOffsets:
    """Commits of groups. OffsetFetch answers for any group, even one that keeps its progress elsewhere, as if it had
    read nothing: so groups without commits are described, in another round, and those are in error, as are those of
    which nobody can tell."""
    commits = await fetch_offsets(session.half(), wanted, topic_ids)
    doubtful = [group.group for group in commits if not group.has_commits]
    described = await fetch_descriptions(session, doubtful) if doubtful else GroupDescriptions()
    return GroupsOffsets(_refused(group, described.lookup(group.group)) for group in commits)


def _refused(commits: GroupOffsets, description: GroupDescription | None) -> GroupOffsets:
    """The commits of a group; in error if it has none and is of a kind that makes none, or of an unknown one."""
    if description is None or commits.has_commits:
        return commits
    why = description.commits_nothing or description.error
    return commits if why is None else GroupOffsets(commits.group, error=why)


def _all_of(wanted: Mapping[str, Collection[TopicPartition]]) -> Collection[TopicPartition]:
    """All partitions, without duplicates. A list that a thousand groups share is traversed once."""
    lists = {id(partitions): partitions for partitions in wanted.values()}
    return dict.fromkeys(chain.from_iterable(lists.values()))


def _only(extents: LogExtents, partitions: Collection[TopicPartition]) -> LogExtents:
    return extents if len(partitions) == len(extents) else extents.of_keys(partitions)


def _lag(
    commits: GroupOffsets,
    extents: LogExtents,
    description: GroupDescription | None,
    isolation_level: IsolationLevel,
    hidden: ResponseError | None = None,
) -> GroupLag:
    if description is not None and description.kind is GroupKind.SHARE:
        isolation_level = _HIGH_WATERMARK  # Kafka's count goes up to it; the group's positions stand for commits here
    else:
        commits = _refused(commits, description)
    has_offsets = any(commit.offset is not None for commit in commits.offsets.unordered())
    undescribed = None if description is None or commits.error is not None else description.error
    if undescribed is not None and undescribed.code != Code.UNSUPPORTED_VERSION:
        hidden = hidden or undescribed  # its members may read more topics than have commits
    if description is not None and description.no_such_group and has_offsets:
        hidden = hidden or (None if description.listed is None else _NOT_LISTED)
        description = None  # it has commits, so it exists
    unknown = description is not None and description.no_such_group
    if not unknown and not len(extents):
        hidden = hidden or _NEVER_COMMITTED
    return GroupLag(commits, extents, error=hidden, description=description, isolation_level=isolation_level)
