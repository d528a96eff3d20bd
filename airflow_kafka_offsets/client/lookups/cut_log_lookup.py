"""Cut logs: which commits of groups lie above a place where an unclean election has cut the log since (KIP-320).

A log that has grown again ends past such a commit, as if nothing had happened; the leader epoch that was committed ends
where the log was cut (:mod:`.offset_for_leader_epoch`). While the newest epoch of a log is still the one that was
committed, nobody can have cut it, so that nothing is asked: it takes a round more, of a request for each leader, only
while commits are of an earlier epoch than their log. Epochs never run backwards, so that a commit of a
later epoch than its log is of another log of that name, or a leader answered that has been replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_kafka_offsets.client.requests.offset_for_leader_epoch import fetch_epoch_ends
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffset,
    CommittedOffsets,
    GroupOffsets,
    GroupsOffsets,
    with_extents,
)
from airflow_kafka_offsets.offsets.answers.logs import UNTOLD, EpochEnd, LogEpoch, LogExtents
from airflow_kafka_offsets.offsets.windows.truncation import of_another_log

_RESET = "use kafka-offsets reset to move the group"


async def mark_cut(session: Session, commits: GroupsOffsets, extents: LogExtents) -> GroupsOffsets:
    """The commits, with ``cut_at`` where a log was cut below one. Where a leader can't say for a reason that may pass,
    that is the commit's error, and so is an epoch that the log hasn't come to: whether it means anything is open. Where
    brokers can't say by design, or a leader doesn't know the epoch, the commit stays as it is, and the group's
    ``untold`` says so.

    :param extents: the logs as they are now, asked after the commits.
    """
    doubtful = {group.group: list(_doubtful(group, extents)) for group in commits}
    asked = {
        epoch
        for found in doubtful.values()
        for _, epoch, newest in found
        if newest is None or newest > epoch.leader_epoch
    }
    ends = await fetch_epoch_ends(session, asked) if asked else {}

    def marked(group: GroupOffsets) -> GroupOffsets:
        changes = [_judged(*found, ends) for found in doubtful[group.group]]
        if not changes:
            return group
        untold = {
            f"{epoch.topic}-{epoch.partition}": why
            for _, epoch, _ in doubtful[group.group]
            if epoch in ends and (why := _untold(ends[epoch]))
        }
        offsets = CommittedOffsets([*group.offsets.unordered(), *changes])
        return replace(group, offsets=offsets, untold=untold)

    return GroupsOffsets(map(marked, commits))


def _doubtful(commits: GroupOffsets, extents: LogExtents) -> Iterable[tuple[CommittedOffset, LogEpoch, int | None]]:
    """The commits whose log has another epoch by now, or one that isn't known; their own epoch, and the log's."""
    for commit, extent in with_extents(commits.offsets, extents):
        if commit.leader_epoch is not None and commit.leader_epoch != extent.leader_epoch:
            yield commit, LogEpoch(commit.topic, commit.partition, commit.leader_epoch), extent.leader_epoch


def _untold(end: EpochEnd) -> str | None:
    """Why a leader doesn't say where an epoch ends, and never will; None where it says, or may later."""
    if end.error is not None:
        return UNTOLD.get(end.error.name)
    return "its leader doesn't know the epoch" if end.end_offset is None else None


def _judged(
    commit: CommittedOffset, epoch: LogEpoch, newest: int | None, ends: Mapping[LogEpoch, EpochEnd]
) -> CommittedOffset:
    """What a commit is, by where its epoch ends.

    :param newest: the epoch of its log; None when it isn't known.
    """
    if newest is not None and newest < epoch.leader_epoch:
        seen = f"offset {commit.offset} was committed under epoch {epoch.leader_epoch}"
        return commit._replace(offset=None, error=of_another_log(seen, newest, _RESET))
    end = ends[epoch]
    if end.error is not None:
        return commit if end.error.name in UNTOLD else commit._replace(offset=None, error=end.error)
    if end.end_offset is None or commit.offset is None or end.end_offset >= commit.offset:
        return commit
    return commit._replace(cut_at=end.end_offset)
