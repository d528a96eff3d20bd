"""Own epochs: the leader epoch of an offset, which is the one to commit with it (KIP-101, KIP-320).

An offset is of the newest epoch that had begun by then: inside the log, that of its record; at the log's end, that of
the leader. An older one makes consumers believe that the log was truncated, a newer one is of a record further on.

Nobody can be asked for it. ListOffsets answers it for a record that was looked up (Redpanda answers the leader's
current epoch instead), and for other offsets not at all. But where epochs end (:mod:`.offset_for_leader_epoch`) tells
it, for any offset that was seen under an epoch: the own one is the newest whose predecessor in the log ends at the
offset or before it. One round confirms the epoch that the offset was seen under; each earlier one of the log takes
another. An offset that was seen under a log's first epoch takes none.
"""

from __future__ import annotations

from airflow_kafka_offsets.client.requests.offset_for_leader_epoch import fetch_epoch_ends
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.logs import UNTOLD, EpochEnd, LogEpoch
from airflow_kafka_offsets.offsets.partitions import TopicPartition

_MOST_ROUNDS = 50
"""After so many epochs back, the offset is committed without one."""


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
