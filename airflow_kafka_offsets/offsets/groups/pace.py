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
    """A partition's, of one group, or of all its partitions together. Offsets, as for lag: an upper bound on records.

    :param written: offsets a second that the log's end has moved by.
    :param read: offsets a second that the group's commit has moved by; negative when it was reset.
    :param trend: where the lag is going.
    :param caught_up_in_s: seconds until the lag is 0 if both go on like that; None when it never will be.
    """

    written: float
    read: float
    trend: Trend
    caught_up_in_s: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, rounded to what is worth a look."""
        return {
            "written_per_s": _rounded(self.written),
            "read_per_s": _rounded(self.read),
            "trend": str(self.trend),
            "caught_up_in_s": None if self.caught_up_in_s is None else ceil(self.caught_up_in_s),
        }


def _rounded(rate: float) -> float:
    """To two places; a slow rate to two digits, as it isn't 0."""
    return round(rate, 2) if abs(rate) >= 1 else float(f"{rate:.2g}")


def pace_between(
    earlier: PartitionLag, later: PartitionLag, seconds: float, isolation_level: IsolationLevel
) -> Pace | None:
    """The pace of a partition; None when a lag, a commit or an end is unknown, or the log was cut in between.

    :param seconds: how long after the first the second was measured.
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
    """The pace of each group in JSON; None where it isn't known at both times, on the same number of partitions.

    :param earlier: by group; one is absent whose lag or commits weren't known.
    :param seconds: how long after the first the second was measured.
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
