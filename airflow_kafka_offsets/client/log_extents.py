"""Log extents: log start, high watermark and last stable offset of each partition, from three ListOffsets at once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from airflow_kafka_offsets.client.deadline import Deadline
from airflow_kafka_offsets.client.leaders import Leaders
from airflow_kafka_offsets.client.list_offsets import fetch_list_offsets
from airflow_kafka_offsets.client.response_errors import UNKNOWN_SERVER_ERROR, named_error
from airflow_kafka_offsets.client.transport import Transport
from airflow_kafka_offsets.offsets.extents import LogExtent, LogExtents
from airflow_kafka_offsets.offsets.listed import ListedOffset, ListedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

_ASKED = (
    (OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
    (OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED),
    (OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED),
)


def join_extents(starts: ListedOffsets, high_watermarks: ListedOffsets, stable: ListedOffsets) -> LogExtents:
    """One extent for each partition: complete, or in error when any of its three answers is."""
    return LogExtents(
        _extent(key, [listed.lookup(*key) for listed in (starts, high_watermarks, stable)])
        for key in starts.partitions()
    )


def _extent(key: TopicPartition, answers: list[ListedOffset | None]) -> LogExtent:
    for each in answers:
        if each is None or each.offset is None:
            error = each.error if each is not None else None
            missing = named_error(UNKNOWN_SERVER_ERROR, "the broker gave no offset for the start or end of the log")
            return LogExtent(*key, error=error or missing)
    start, high_watermark, stable = (each for each in answers if each is not None)
    return LogExtent(*key, start.offset, high_watermark.offset, stable.offset, high_watermark.leader_epoch)


async def fetch_extents(
    transport: Transport, leaders: Leaders, partitions: Iterable[TopicPartition], deadline: Deadline
) -> LogExtents:
    """Ask all leaders all three questions at the same time; an element for every partition, by the deadline."""
    wanted = list(partitions)
    await leaders.locate(wanted, deadline)  # once, not by each of the three
    works = [partial(fetch_list_offsets, transport, leaders, wanted, *asked, deadline) for asked in _ASKED]
    return join_extents(*await transport.gather(works))
