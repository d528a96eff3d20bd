"""Offsets reached: a group has committed past a fixed target, which new records don't move (a drain barrier)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.conditions.condition import (
    Answers,
    Condition,
    LagsOn,
    Progress,
    Topics,
    note_unknowable,
    unknowable_of,
)
from airflow_kafka_offsets.conditions.left_to_read import (
    Behind,
    is_clear,
    left_to_read,
    note_unread,
    refuse_commits_of_other_logs,
    worst,
)
from airflow_kafka_offsets.errors import ConditionFailedError, ConfigurationError, OffsetsError, shorten
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.lag import GroupLag, PartitionLag
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets


@dataclass(frozen=True, slots=True)
class OffsetsReached(Condition):
    """A group has committed at or past a target on each of its partitions.

    A partition without a commit counts as being at its log start, so it is reached when nothing before the target is
    left; the summary says so. It is also reached when only transaction markers and aborted records lie between the
    commit and the target (E12). Before the condition passes, the logs must be the ones that the target was seen in.

    :param group: group id.
    :param target: the offsets to reach.
    :param isolation_level: which records the group reads.
    """

    kind: ClassVar[str] = "offsets_reached"

    group: str
    target: FixedOffsets
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    def __post_init__(self) -> None:
        if not self.group:
            raise ConfigurationError("Name the group to wait for; group is empty.")
        if not self.target.seen:
            raise ConfigurationError(f"There is nothing to reach: {self.target.source} has no partitions.")

    @property
    def awaited(self) -> str:
        return f"the group has committed up to {self.target.source}"

    @property
    def group_ids(self) -> tuple[str, ...]:
        return (self.group,)

    @property
    def topic_names(self) -> tuple[str, ...]:
        return tuple(self.target.names())

    def judge(self, answers: Answers) -> Progress:
        topics = Topics.of(self.target.names())
        lags = LagsOn.of([(self.group, tuple(key for key, _ in self.target.items()))], self.isolation_level)
        answers.require(topics, lags)
        metadata = answers[topics].raise_for_errors()
        self.target.refuse_other_source(metadata.cluster_id, metadata.topic_ids)
        (lag,) = answers[lags]
        self._refuse_unknown(lag)
        to_go = self._to_go(lag)
        self.target.refuse_truncated(lag.extents)
        left = left_to_read([to_go], self.isolation_level, lambda behind: not behind, answers)
        to_go = [behind for behind in to_go if not is_clear(behind, left)]
        unknowable = [] if to_go else unknowable_of(self.target, metadata, answers)
        result: dict[str, Any] = {"group": self.group, "target": self.target.source, "partitions": len(lag.partitions)}
        result |= self.target.where() | ({"unknowable": unknowable} if unknowable else {})
        text = self._describe(to_go) + note_unread(left) + self._gone(lag) + note_unknowable(unknowable)
        return Progress(not to_go, text, result, sum(behind.lag for behind in to_go))

    def _refuse_unknown(self, lag: GroupLag) -> None:
        """Check that the group's commits are known, and say what it has read."""
        if lag.no_such_group:
            raise ConditionFailedError(
                f"Group {self.group} doesn't exist (GROUP_ID_NOT_FOUND): it can't reach {self.target.source}. "
                "Is it misspelt, or not started yet? First wait for its first commit, for example with "
                "KafkaGroupLagSensor with unknown_group='wait'."
            )
        if lag.error is not None:
            raise OffsetsError("Reading commits", [(f"group {lag.group}", lag.error)])
        refuse_commits_of_other_logs(self.group, lag.partitions)
        lag.partitions.raise_for_errors()

    def _pairs(self, lag: GroupLag) -> Iterator[tuple[PartitionLag, int]]:
        """The group's lag on each partition of the target, and the offset to reach there."""
        for key, target in self.target.items():
            own = lag.partitions.lookup(*key)
            assert own is not None, "every partition of the target was asked for"
            yield own, target

    def _to_go(self, lag: GroupLag) -> list[Behind]:
        found = []
        for own, target in self._pairs(lag):
            start, committed = own.log_start_offset, own.committed_offset
            assert start is not None, "a partition without error has its log start"
            reached = start if committed is None else committed
            if own.lag == 0:  # a share group may have finished all up to the end before Kafka moves its position there
                reached = max(reached, own.end_offset(self.isolation_level) or 0)
            if reached < target:
                position = ReadPosition(own.topic, own.partition, max(reached, start))
                found.append(Behind(position, target, target - reached, max(0, start - reached)))
        return found

    def _gone(self, lag: GroupLag) -> str:
        """Where the group never committed and nothing before the target is left: nobody can tell who read it."""
        gone = [
            f"{own.topic}-{own.partition}"
            for own, target in self._pairs(lag)
            if own.committed_offset is None and 0 < target <= (own.log_start_offset or 0)
        ]
        return f"; it never committed on {shorten(gone)}, where nothing before the target is left" if gone else ""

    def _describe(self, to_go: list[Behind]) -> str:
        if not to_go:
            return f"{self.group} has reached {self.target.source}"
        left, lost = sum(behind.lag for behind in to_go), sum(behind.lost for behind in to_go)
        text = f"{self.group} is {left} offsets before {self.target.source} ({worst(to_go)})"
        return f"{text}; {lost} offsets were deleted before it read them" if lost else text


def log_ends(
    client: OffsetsClient, group: str, topics: Iterable[str] | None, isolation_level: IsolationLevel
) -> FixedOffsets:
    """Where logs end right now, as a target for a group.

    :param topics: topic names; None for all topics that the group has committed on or reads.
    :raises ConfigurationError: when there is no such group, so that it isn't known what it reads.
    :raises OffsetsError: naming every topic, partition or group in error.
    """
    source = f"the log end at {iso_instant(now_ms())}"
    metadata = client.topics(_touched(client, group) if topics is None else topics).raise_for_errors()
    extents = client.log_extents(partitions_of(metadata))
    return FixedOffsets.of_ends(source, extents, isolation_level, metadata.cluster_id, metadata.topic_ids)


def _touched(client: OffsetsClient, group: str) -> list[str]:
    (lag,) = client.group_lags([group]).raise_for_errors()
    if lag.no_such_group:
        raise ConfigurationError(
            f"Group {group} doesn't exist (GROUP_ID_NOT_FOUND), so what it reads is unknown. Is it misspelt, or not "
            "started yet?"
        )
    return lag.partitions.topics()
