"""Cut logs: which commits of groups lie above a place where an unclean election has cut the log since (KIP-320).

A log that has grown again ends past such a commit, as if nothing had happened; the leader epoch that was committed ends
where the log was cut (:mod:`.offset_for_leader_epoch`). While the newest epoch of a log is still the one that was
committed, nobody can have cut it, so that nothing is asked: it takes a round more, of a request for each leader, only
while commits are of an earlier epoch than their log. Epochs never run backwards, so that a commit of a
later epoch than its log is of another log of that name, or a leader answered that has been replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from airflow_kafka_offsets.client.requests.offset_for_leader_epoch import fetch_ends_of
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupOffsets,
    GroupsOffsets,
)
from airflow_kafka_offsets.offsets.answers.logs import UNTOLD, EpochEnd, LogEpoch, LogExtents
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.cut_logs import of_another_log

_RESET = "airflow kafka-offsets reset puts the group where it is to go on"


async def mark_cut(session: Session, commits: GroupsOffsets, extents: LogExtents) -> GroupsOffsets:
    """The commits, with ``cut_at`` where a log was cut below one. Where a leader can't say for a reason that may pass,
    that is the commit's error, and so is an epoch that the log hasn't come to: whether it means anything is open.

    :param extents: the logs as they are now, asked after the commits.
    """
    commits = GroupsOffsets(_without_later_epochs(group, extents) for group in commits)
    doubtful = {group.group: list(_doubtful(group, extents)) for group in commits}
    epochs = {_epoch_of(commit) for several in doubtful.values() for commit in several}
    if not epochs:
        return commits
    ends = await fetch_ends_of(session, epochs)
    marked = (
        _marked(group, {_key(commit): ends[_epoch_of(commit)] for commit in doubtful[group.group]}) for group in commits
    )
    return GroupsOffsets(marked)


def _without_later_epochs(commits: GroupOffsets, extents: LogExtents) -> GroupOffsets:
    """The commits, with an error for each one of a later epoch than its log."""
    later = {
        _key(commit): extent.leader_epoch
        for commit in commits.offsets.unordered()
        if commit.leader_epoch is not None
        and (extent := extents.lookup(commit.topic, commit.partition)) is not None
        and extent.leader_epoch is not None
        and extent.leader_epoch < commit.leader_epoch
    }
    if not later:
        return commits

    def told(commit: CommittedOffset) -> CommittedOffset:
        epoch = later.get(_key(commit))
        if epoch is None:
            return commit
        seen = f"offset {commit.offset} was committed under epoch {commit.leader_epoch}"
        return commit._replace(offset=None, error=of_another_log(seen, epoch, _RESET))

    return replace(commits, offsets=CommittedOffsets(map(told, commits.offsets)))


def _doubtful(commits: GroupOffsets, extents: LogExtents) -> Iterable[CommittedOffset]:
    """The commits whose log has a newer epoch by now, or one that isn't known."""
    for topic, committed in commits.offsets.by_topic.items():
        logs = extents.by_topic.get(topic, {})
        for number, commit in committed.items():
            extent = logs.get(number)
            if extent is None or extent.error is not None or commit.offset is None or commit.leader_epoch is None:
                continue
            if extent.leader_epoch is None or extent.leader_epoch > commit.leader_epoch:
                yield commit


def _marked(commits: GroupOffsets, ends: dict[TopicPartition, EpochEnd]) -> GroupOffsets:
    if not ends:
        return commits

    def mark(commit: CommittedOffset) -> CommittedOffset:
        end = ends.get(_key(commit))
        if end is None or commit.offset is None:
            return commit
        if end.error is not None:
            return commit if end.error.name in UNTOLD else commit._replace(offset=None, error=end.error)
        if end.end_offset is None or end.end_offset >= commit.offset:
            return commit
        return commit._replace(cut_at=end.end_offset)

    return replace(commits, offsets=CommittedOffsets(map(mark, commits.offsets)))


def _key(commit: CommittedOffset) -> TopicPartition:
    return TopicPartition(commit.topic, commit.partition)


def _epoch_of(commit: CommittedOffset) -> LogEpoch:
    assert commit.leader_epoch is not None, "only commits with an epoch are doubted"
    return LogEpoch(commit.topic, commit.partition, commit.leader_epoch)
