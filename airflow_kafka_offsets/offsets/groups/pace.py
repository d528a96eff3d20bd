"""Pace: how fast partitions are written and read, between two measurements of a group's lag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from airflow_kafka_offsets.compat.python_versions import StrEnum
from airflow_kafka_offsets.offsets.groups.lag import LagSums, PartitionLag
from airflow_kafka_offsets.offsets.specs import IsolationLevel


class Trend(StrEnum):
    """Where a lag is heading."""

    CAUGHT_UP = "caught_up"
    """The lag is 0."""
    CATCHING_UP = "catching_up"
    """Reads are faster than writes."""
    STEADY = "steady"
    """Reads are as fast as writes, or there are neither."""
    FALLING_BEHIND = "falling_behind"
    """Writes are faster than reads."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a group on one partition, or on all together. In offsets, like lag: an upper bound on records.

    :param written: offsets per second by which the log end has moved.
    :param read: offsets per second by which the group's commit has moved; negative when it was reset.
    :param trend: where the lag is heading.
    :param caught_up_in_s: seconds until the lag is 0 if both go on like this; None when it never will be.
    """

    written: float
    read: float
    trend: Trend
    caught_up_in_s: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, rounded to a useful precision."""
        return {
            "written_per_s": _rounded(self.written),
            "read_per_s": _rounded(self.read),
            "trend": str(self.trend),
            "caught_up_in_s": None if self.caught_up_in_s is None else ceil(self.caught_up_in_s),
        }


def _rounded(rate: float) -> float:
    """Two decimal places; below 1, two significant digits, so that a slow rate isn't 0."""
    return round(rate, 2) if abs(rate) >= 1 else float(f"{rate:.2g}")


def pace_between(
    earlier: PartitionLag, later: PartitionLag, seconds: float, isolation_level: IsolationLevel
) -> Pace | None:
    """The pace of a partition; None when a lag, a commit or an end is unknown, or the log was truncated in between.

    :param seconds: time between the two measurements.
    :param isolation_level: which end counts.
    """
    ends = [lag.end_offset(isolation_level) for lag in (earlier, later)]
    commits = [earlier.committed_offset, later.committed_offset]
    if None in (*ends, *commits, earlier.lag, later.lag) or seconds <= 0:
        return None
    written, read = ((now or 0) - (before or 0) for before, now in (ends, commits))
    return _pace(written, read, later.lag or 0, seconds)


def group_paces(
    earlier: Mapping[str, LagSums], later: Mapping[str, LagSums], seconds: float
) -> dict[str, dict[str, Any] | None]:
    """The pace of each group in JSON; None when it isn't known at both times, on the same number of partitions.

    :param earlier: by group; groups whose lag or commits weren't known are absent.
    :param seconds: time between the two measurements.
    """
    paces: dict[str, dict[str, Any] | None] = dict.fromkeys(later)
    for group, now in later.items():
        before = earlier.get(group)
        if before is not None and before.partitions == now.partitions:
            found = _pace(now.ends - before.ends, now.commits - before.commits, now.ends - now.commits, seconds)
            paces[group] = None if found is None else found.to_json()
    return paces


def _pace(written: int, read: int, lag: int, seconds: float) -> Pace | None:
    if written < 0:
        return None
    nearer = read - written
    if lag == 0:
        trend, left_s = Trend.CAUGHT_UP, 0.0
    elif nearer > 0:
        trend, left_s = Trend.CATCHING_UP, lag * seconds / nearer
    else:
        trend, left_s = Trend.FALLING_BEHIND if nearer < 0 else Trend.STEADY, None
    return Pace(written / seconds, read / seconds, trend, left_s)
