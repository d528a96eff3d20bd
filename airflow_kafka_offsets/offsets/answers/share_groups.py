"""Share groups (KIP-932): how far they have come, as their coordinators report it.

The members of a share group share the records of a partition, and finish them in any order. So its position is two
numbers: an offset before which all is finished, and how much is not finished after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.groups import ByGroup, CommittedOffset, CommittedOffsets, GroupOffsets
from airflow_kafka_offsets.offsets.partitions import PartitionMap

_NOT_COUNTED = ResponseError(
    "NOT_COUNTED",
    -1,
    True,
    "Kafka knows where the share group is, but hasn't counted its lag since the broker's upgrade to 4.2; it does once "
    "the group finishes a record there",
)


class ShareOffset(NamedTuple):
    """How far a share group has come on one partition (DescribeShareGroupOffsets, key 90).

    :param start_offset: all before it is finished (accepted, rejected, or delivered as often as allowed). Some after it
        may be too: Kafka stores it before it moves it past what was finished last. None while the group has finished
        nothing here, and while Kafka can't read how far it has come: the broker answers the same.
    :param lag: offsets from there to the high watermark that aren't finished (KIP-1226, Kafka 4.2). None without a
        ``start_offset``, and while Kafka hasn't counted them.
    :param leader_epoch: epoch of the leader that reported this last; None without a ``start_offset``.
    :param error: Kafka's error for this partition alone; nothing else is then known.
    """

    topic: str
    partition: int
    start_offset: int | None = None
    lag: int | None = None
    leader_epoch: int | None = None
    error: ResponseError | None = None

    def as_commit(self) -> CommittedOffset:
        """The position as lag is measured from it: an unknown count is an error, and no position is no commit."""
        error = _NOT_COUNTED if self.start_offset is not None and self.lag is None else self.error
        offset = None if error is not None else self.start_offset
        return CommittedOffset(self.topic, self.partition, offset, error=error, counted_lag=self.lag)


class ShareOffsets(PartitionMap[ShareOffset]):
    """Share offsets by partition."""

    asked = "Describing share groups' offsets"


@dataclass(frozen=True, slots=True)
class ShareGroupOffsets:
    """How far one share group has come.

    :param offsets: by partition. Without named partitions, those on which the group has members or had some.
    :param error: Kafka's error for the group as a whole; ``offsets`` is then empty.
    """

    group: str
    offsets: ShareOffsets = field(default_factory=ShareOffsets)
    error: ResponseError | None = None

    def as_commits(self) -> GroupOffsets:
        """The positions as lag is measured from them."""
        commits = CommittedOffsets(offset.as_commit() for offset in self.offsets.unordered())
        return GroupOffsets(self.group, commits, self.error)


class ShareGroupsOffsets(ByGroup[ShareGroupOffsets]):
    """How far several share groups have come."""

    asked = "Describing share groups' offsets"
