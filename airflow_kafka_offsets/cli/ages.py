"""``kafka-offsets lag --age``: how old the first record is that a group hasn't read, by its timestamp."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.record_ages import RecordAges
from airflow_kafka_offsets.offsets.answers.records import FirstRecords, ReadPosition
from airflow_kafka_offsets.offsets.groups.lag import GroupLag, PartitionLag
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.specs import IsolationLevel

Ages = dict[tuple[str, str, int], float | None]
"""Seconds by group, topic and partition; 0 if nothing is left to read. None if nobody knows: the lag is unknown,
records were deleted before they were read, or the first one can't be read or has no timestamp of the past."""


def ages_of(client: OffsetsClient, lags: Iterable[GroupLag], level: IsolationLevel) -> Ages:
    """Read the first unread record of each partition that a group is behind on."""
    partitions = {(lag.group, own.topic, own.partition): own for lag in lags for own in lag.partitions}
    records = client.first_records({_position(own) for own in partitions.values() if own.lag}, isolation_level=level)
    now = now_ms()
    return {key: _age_s(own, records, now) for key, own in partitions.items()}


def _age_s(own: PartitionLag, records: FirstRecords, now: int) -> float | None:
    if own.lag is None or own.lost:
        return None
    position = _position(own)
    if own.lag == 0 or records.nothing_before(position, position.offset + own.lag):
        return 0
    first = records.lookup(*position)
    if first is None or first.error is not None or first.missing_codec:
        return None
    age_ms = RecordAges.of([first], now).known_ms
    return None if age_ms is None else age_ms / 1000


def _position(own: PartitionLag) -> ReadPosition:
    """Where the group goes on reading."""
    return ReadPosition(own.topic, own.partition, max(own.committed_offset or 0, own.log_start_offset or 0))
