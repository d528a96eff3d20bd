"""Pace: how fast a partition is written and read, between two measurements of a group's lag."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_offsets.compat.python_versions import StrEnum
from airflow_kafka_offsets.offsets.groups.lag import PartitionLag
from airflow_kafka_offsets.offsets.specs import IsolationLevel


class Trend(StrEnum):
    """Where a lag is going at its pace."""

    CAUGHT_UP = "caught_up"
    """It is 0."""
    CATCHING_UP = "catching_up"
    """It is read faster than it is written."""
    STEADY = "steady"
    """It is read as fast as it is written, or neither."""
    FALLING_BEHIND = "falling_behind"
    """It is written faster than it is read."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A partition's, of one group. Offsets, as for lag: an upper bound on records.

    :param written: offsets a second that the log's end has moved by.
    :param read: offsets a second that the group's commit has moved by; negative when it was reset.
    :param trend: where the lag is going.
    :param caught_up_in_s: seconds until the lag is 0 if both go on like that; None when it never will be.
    """

    written: float
    read: float
    trend: Trend
    caught_up_in_s: float | None


def pace_between(
    earlier: PartitionLag, later: PartitionLag, seconds: float, isolation_level: IsolationLevel
) -> Pace | None:
    """The pace of a partition; None when a lag, a commit or an end is unknown, or the log was cut in between.

    :param seconds: how long after the first the second was measured.
    :param isolation_level: which end counts.
    """
    ends = [_end(lag, isolation_level) for lag in (earlier, later)]
    commits = [earlier.committed_offset, later.committed_offset]
    if None in (*ends, *commits, earlier.lag, later.lag) or seconds <= 0:
        return None
    written, read = ((now or 0) - (before or 0) for before, now in (ends, commits))
    if written < 0:
        return None
    lag, nearer = later.lag or 0, read - written
    if lag == 0:
        trend, left_s = Trend.CAUGHT_UP, 0.0
    elif nearer > 0:
        trend, left_s = Trend.CATCHING_UP, lag * seconds / nearer
    else:
        trend, left_s = Trend.FALLING_BEHIND if nearer < 0 else Trend.STEADY, None
    return Pace(written / seconds, read / seconds, trend, left_s)


def _end(lag: PartitionLag, isolation_level: IsolationLevel) -> int | None:
    return lag.last_stable_offset if isolation_level is IsolationLevel.READ_COMMITTED else lag.high_watermark
