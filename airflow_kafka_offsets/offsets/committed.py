"""Committed offsets: what groups have recorded as read (OffsetFetch, key 9; OffsetCommit, key 8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

from airflow_kafka_offsets.errors import OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.partitions import PartitionMap


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a group has committed on one partition.

    :param topic: topic name.
    :param partition: partition number.
    :param offset: next offset to read; None when the group never committed here or the commit expired.
    :param leader_epoch: epoch of the last record read (v5+, KIP-320); None when unknown.
    :param metadata: the committer's own words; may be empty.
    :param error: Kafka's error for this partition alone; its offset is then None.
    """

    topic: str
    partition: int
    offset: int | None = None
    leader_epoch: int | None = None
    metadata: str = ""
    error: ResponseError | None = None


class CommittedOffsets(PartitionMap[CommittedOffset]):
    """Committed offsets by partition."""

    asked = "Fetching committed offsets"
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The commits of one group.

    :param group: group id.
    :param offsets: commits by partition. Empty for a group that is unknown or never committed: OffsetFetch can't tell
        which (E19); the client's group listing can.
    :param error: Kafka's error for the group as a whole; ``offsets`` is then empty.
    """

    group: str
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)
    error: ResponseError | None = None


class GroupsOffsets:
    """The commits of several groups; iterates by group id."""

    __slots__ = ("_groups",)

    def __init__(self, groups: Iterable[GroupOffsets] = ()) -> None:
        self._groups = {each.group: each for each in groups}

    def __iter__(self) -> Iterator[GroupOffsets]:
        return (self._groups[name] for name in sorted(self._groups))

    def __len__(self) -> int:
        return len(self._groups)

    def lookup(self, group: str) -> GroupOffsets | None:
        """One group's commits; None when it wasn't asked for."""
        return self._groups.get(group)

    def ok(self) -> Self:
        """The groups that answered."""
        return type(self)(each for each in self if each.error is None)

    def errors(self) -> Self:
        """The groups in error as a whole."""
        return type(self)(each for each in self if each.error is not None)

    def raise_for_errors(self) -> Self:
        """Return self when every group and every partition is good.

        :raises OffsetsError: naming the groups and partitions in error.
        """
        failures = [(f"group {each.group}", each.error) for each in self if each.error is not None]
        if failures:
            raise OffsetsError("Fetching committed offsets", failures)
        for each in self:
            each.offsets.raise_for_errors()
        return self
