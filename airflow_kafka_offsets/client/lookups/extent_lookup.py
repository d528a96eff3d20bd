"""Log extents: where each partition's log starts and ends, from two or three ListOffsets at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from airflow_kafka_offsets.client.connection.response_errors import Code, named_error
from airflow_kafka_offsets.client.requests.list_offsets import fetch_list_offsets
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffset, ListedOffsets
from airflow_kafka_offsets.offsets.answers.logs import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

BOTH_ENDS = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
"""High watermark and last stable offset."""
_NO_OFFSET = named_error(Code.UNKNOWN_SERVER_ERROR, "the broker gave no offset for the start or end of the log")


def join_extents(starts: ListedOffsets, ends: Mapping[IsolationLevel, ListedOffsets]) -> LogExtents:
    """One extent for each partition: complete, or in error when any of its answers is.

    :param ends: the answers to ``latest`` by isolation level.
    """

    def extent(start: ListedOffset) -> LogExtent:
        key = start.topic, start.partition
        found = {level: listed.lookup(*key) for level, listed in ends.items()}
        for answer in (start, *found.values()):
            if answer is None or answer.offset is None:
                return LogExtent(*key, error=(answer and answer.error) or _NO_OFFSET)
        told = {level: end for level, end in found.items() if end is not None}
        high_watermark, stable = (end and end.offset for end in map(told.get, BOTH_ENDS))
        return LogExtent(*key, start.offset, high_watermark, stable, _epoch_of(told.values()))

    return LogExtents(map(extent, starts))


def _epoch_of(ends: Iterable[ListedOffset]) -> int | None:
    """The epoch that all answers came under. None where the leader changed between them: each is right by its own, and
    under another one's a log would look as if it had been cut, or a cut one as if it hadn't."""
    epochs = {end.leader_epoch for end in ends}
    return epochs.pop() if len(epochs) == 1 else None


async def fetch_extents(
    session: Session, partitions: Iterable[TopicPartition], isolation_levels: Iterable[IsolationLevel] = BOTH_ENDS
) -> LogExtents:
    """Ask all leaders all questions at the same time; an element for every partition, by the deadline.

    :param isolation_levels: which ends to ask for.
    """
    wanted, levels = list(partitions), list(isolation_levels)
    await session.leaders.locate(wanted, session.deadline)  # once, not by each question
    asked = [(OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED), *((OffsetSpec.LATEST, level) for level in levels)]
    works = [partial(fetch_list_offsets, session, wanted, *question) for question in asked]
    starts, *ends = await session.beside(*works)
    return join_extents(starts, dict(zip(levels, ends, strict=True)))
