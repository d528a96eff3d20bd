"""Own epochs of offsets that are to be committed: asks leaders where epochs end (:mod:`.offset_for_leader_epoch`) until
each offset's own is known (:mod:`.own_epochs`).

Mostly, one round confirms the epoch that an offset was seen under; an offset far back in a log takes a few, and one
that was seen under a log's first epoch none.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_offsets.client.requests.offset_for_leader_epoch import fetch_epoch_ends
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.answers.logs import UNTOLD, EpochEnd, LogEpoch
from airflow_kafka_offsets.offsets.answers.own_epochs import OwnEpoch
from airflow_kafka_offsets.offsets.partitions import TopicPartition

Answer = OwnEpoch | ResponseError | None
"""What is known of an offset's epoch; None if nobody can tell."""


async def fetch_own_epochs(session: Session, offsets: CommittedOffsets) -> CommittedOffsets:
    """The offsets, each with its own leader epoch in place of the one that it was seen under; without one if nobody can
    tell. An offset whose leader can't be asked for now is in error.
    """
    found: dict[TopicPartition, Answer] = {
        TopicPartition.of(each): OwnEpoch(each.offset, each.leader_epoch)
        for each in offsets
        if each.offset is not None and each.leader_epoch is not None
    }
    while questions := {
        LogEpoch(*key, epoch)
        for key, known in found.items()
        if isinstance(known, OwnEpoch)
        for epoch in known.questions()
    }:
        for asked, end in (await fetch_epoch_ends(session, questions)).items():
            key = TopicPartition.of(asked)
            found[key] = _told(found[key], asked, end)
    return CommittedOffsets(_with_epoch(each, found) for each in offsets)


def _told(known: Answer, asked: LogEpoch, end: EpochEnd) -> Answer:
    if not isinstance(known, OwnEpoch):
        return known
    if end.error is not None:
        return None if end.error.name in UNTOLD else end.error
    return known.told(asked.leader_epoch, end)


def _with_epoch(offset: CommittedOffset, found: Mapping[TopicPartition, Answer]) -> CommittedOffset:
    known = found.get(TopicPartition.of(offset))
    if isinstance(known, ResponseError):
        return offset._replace(offset=None, leader_epoch=None, error=known)
    return offset._replace(leader_epoch=known.at_most if isinstance(known, OwnEpoch) else None)
