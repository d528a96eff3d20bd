"""Instants: the first record at or after a moment, per partition, and where there is none, why (E1).

A leader says "no such record" of an empty log, of a log whose records are all older, and of a record that isn't visible
yet. Which of them it is takes the log's extent and its newest timestamp, asked for those partitions alone.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from airflow_kafka_offsets.client.deadline import Deadline
from airflow_kafka_offsets.client.leaders import Leaders
from airflow_kafka_offsets.client.listing import fetch_list_offsets
from airflow_kafka_offsets.client.log_extents import fetch_extents
from airflow_kafka_offsets.client.transport import Transport
from airflow_kafka_offsets.offsets.extents import LogExtents
from airflow_kafka_offsets.offsets.listed import ListedOffsets, say_why_unmatched
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec, SpecKind


async def look_up(
    transport: Transport,
    leaders: Leaders,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec,
    isolation_level: IsolationLevel,
    deadline: Deadline,
    extents: LogExtents | None = None,
) -> ListedOffsets:
    """Ask for a spec, and once more where an instant has no record.

    :param extents: where the logs start and end, if that was asked already.
    """
    listed = await fetch_list_offsets(transport, leaders, partitions, spec, isolation_level, deadline)
    unmatched = listed.unmatched()
    if spec.kind is not SpecKind.TIMESTAMP or not unmatched:
        return listed
    level = IsolationLevel.READ_UNCOMMITTED
    works: list[Any] = [
        partial(fetch_list_offsets, transport, leaders, unmatched, OffsetSpec.MAX_TIMESTAMP, level, deadline)
    ]
    if extents is None:
        works.append(partial(fetch_extents, transport, leaders, unmatched, deadline, [level]))
    newest, *fresh = await transport.gather(works)
    return say_why_unmatched(listed, extents or fresh[0], newest)
