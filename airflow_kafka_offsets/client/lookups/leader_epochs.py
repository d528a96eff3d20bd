"""Leader epochs of offsets (KIP-101, KIP-320): whether a log was truncated below a commit, and which epoch to commit.

Truncated logs: commits past the point where an unclean leader election truncated the log.

If the log has grown again, its end is past such a commit, as if nothing had happened. But the committed leader epoch
ends where the log was truncated (:mod:`.offset_for_leader_epoch`). If the log's current epoch is still the committed
one, the log can't have been truncated since, and nothing is asked. Only while commits have an earlier epoch than their
log does this take another round, with one request per leader. A commit of a later epoch than its log can't be judged
(:func:`.of_another_log`).

Own epochs: the leader epoch of an offset, which is the one to commit with it. An offset is of the newest epoch that had
begun by then: inside the log, that of its record; at the log's end, that of the leader. An older one makes consumers
believe that the log was truncated, a newer one is of a record further on. Nobody can be asked for it. ListOffsets
answers it for a record that was looked up (Redpanda answers the leader's current epoch instead), and for other offsets
not at all. But where epochs end tells it, for any offset that was seen under an epoch: the own one is the newest whose
predecessor in the log ends at the offset or before it. One round confirms the epoch that the offset was seen under;
each earlier one of the log takes another. An offset that was seen under a log's first epoch takes none.
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
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.truncation import of_another_log

_MOST_ROUNDS = 50
"""After so many epochs back, an offset is committed without one."""
_RESET = "move the group with kafka-offsets reset --backwards"


async def mark_truncated(session: Session, commits: GroupsOffsets, extents: LogExtents) -> GroupsOffsets:
    """The commits, with ``truncated_at`` if the log was truncated below a commit.

    If a leader can't answer for a transient reason, or the commit's epoch is later than the log's, the commit is in
    error, because it can't be judged. If brokers can't answer by design, or the leader doesn't know the epoch, the
    commit stays as it is, and the group's ``untold`` says why.

    :param extents: the logs' extents, asked after the commits.
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
    """The commits whose log now has another epoch, or an unknown one, each with its own epoch and the log's."""
    for commit, extent in with_extents(commits.offsets, extents):
        if commit.leader_epoch is not None and commit.leader_epoch != extent.leader_epoch:
            yield commit, LogEpoch(commit.topic, commit.partition, commit.leader_epoch), extent.leader_epoch


def _untold(end: EpochEnd) -> str | None:
    """Why a leader will never say where an epoch ends; None if it did, or still may."""
    if end.error is not None:
        return UNTOLD.get(end.error.name)
    return "its leader doesn't know the epoch" if end.end_offset is None else None


def _judged(
    commit: CommittedOffset, epoch: LogEpoch, newest: int | None, ends: Mapping[LogEpoch, EpochEnd]
) -> CommittedOffset:
    """The commit, marked by where its epoch ends.

    :param newest: the log's epoch; None if unknown.
    """
    if newest is not None and newest < epoch.leader_epoch:
        seen = f"offset {commit.offset} was committed under epoch {epoch.leader_epoch}"
        return commit._replace(offset=None, error=of_another_log(seen, newest, _RESET))
    end = ends[epoch]
    if end.error is not None:
        return commit if end.error.name in UNTOLD else commit._replace(offset=None, error=end.error)
    if end.end_offset is None or commit.offset is None or end.end_offset >= commit.offset:
        return commit
    return commit._replace(truncated_at=end.end_offset)


async def fetch_own_epochs(session: Session, offsets: CommittedOffsets) -> CommittedOffsets:
    """The offsets, each with its own leader epoch in place of the one that it was seen under; without one if nobody can
    tell. An offset whose leader can't be asked for now is in error.
    """
    found = {TopicPartition.of(each): each for each in offsets}
    open_ones = {key for key, each in found.items() if each.offset is not None and each.leader_epoch}
    for _ in range(_MOST_ROUNDS):
        if not open_ones:
            break
        asked = [LogEpoch(*key, (found[key].leader_epoch or 0) - 1) for key in open_ones]
        for epoch, end in (await fetch_epoch_ends(session, asked)).items():
            key = TopicPartition.of(epoch)
            before, found[key] = found[key], narrowed(found[key], end)
            if found[key] == before or not found[key].leader_epoch:
                open_ones.remove(key)
    return CommittedOffsets(
        each._replace(leader_epoch=None) if key in open_ones else each for key, each in found.items()
    )


def narrowed(offset: CommittedOffset, end: EpochEnd) -> CommittedOffset:
    """The offset once its leader has answered where the epoch before its own ends: the same if that is confirmed, else
    under an earlier epoch; without one if the leader can't tell, doesn't remember, or its log has changed.
    """
    if end.error is not None and end.error.name not in UNTOLD:
        return offset._replace(offset=None, leader_epoch=None, error=end.error)
    if end.error is not None or end.end_offset is None or end.leader_epoch is None:
        return offset._replace(leader_epoch=None)
    if end.leader_epoch >= (offset.leader_epoch or 0):  # another epoch than the one asked for, or an earlier one
        return offset._replace(leader_epoch=None)
    if end.end_offset <= (offset.offset or 0):
        return offset
    return offset._replace(leader_epoch=end.leader_epoch)
