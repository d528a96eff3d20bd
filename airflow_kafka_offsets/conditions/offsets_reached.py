"""Offsets reached: a group has committed past a fixed target, which new records don't move: the drain barrier."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from airflow_kafka_offsets.conditions.condition import Condition, Progress, Steps
from airflow_kafka_offsets.conditions.questions import Extents, LagsOn, Question, Records, ask, ask_partitions
from airflow_kafka_offsets.errors import ConditionFailedError, ConfigurationError, OffsetsError
from airflow_kafka_offsets.offsets.first_records import FirstRecords, Position
from airflow_kafka_offsets.offsets.lag import GroupLag, LagStatus, PartitionLag
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.positions import Positions
from airflow_kafka_offsets.offsets.specs import IsolationLevel


class _ToGo(NamedTuple):
    """A partition on which the group hasn't reached the target."""

    position: Position
    left: int
    target: int
    lost: bool


@dataclass(frozen=True, slots=True)
class OffsetsReached(Condition):
    """A group has committed at or past a target on each of its partitions.

    A partition without a commit stands at its log start. Where nothing but transaction markers and aborted records
    lies between a commit and the target, it is reached (E12).

    :param group: group id.
    :param target: the offsets to reach.
    :param isolation_level: which records the group reads.
    """

    kind: ClassVar[str] = "offsets_reached"

    group: str
    target: Positions
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    def __post_init__(self) -> None:
        if not self.group:
            raise ConfigurationError("Name the group to wait for; group is empty.")
        if not self.target.topics:
            raise ConfigurationError(f"There is nothing to reach: {self.target.source} has no partitions.")

    def steps(self) -> Steps:
        _, topic_ids = yield from ask_partitions(self.target.names())
        self.target.refuse_other_topics(topic_ids)
        partitions = tuple(key for key, _ in self.target.items())
        lags = yield from ask(LagsOn.about([(self.group, partitions)], isolation_level=self.isolation_level))
        (lag,) = lags
        if lag.unknown:
            raise ConditionFailedError(
                f"Group {self.group} doesn't exist (GROUP_ID_NOT_FOUND): it can't reach the {self.target.source}. "
                "Is it misspelt, or not started yet?"
            )
        ahead = lag.with_status(LagStatus.AHEAD_OF_LOG) if lag.error is None else []
        if ahead:
            raise ConditionFailedError(
                f"The commit of group {self.group} on {ahead[0].topic}-{ahead[0].partition} is past the log's end "
                "(OFFSET_OUT_OF_RANGE): the topic was truncated or re-created, or the commit copied. It has reached "
                "nothing."
            )
        to_go = self._to_go(lag)
        yield from self._refuse_truncated(lag, to_go)
        to_go = yield from self._look_behind_markers(to_go)
        left = sum(each.left for each in to_go)
        result: dict[str, Any] = {"group": self.group, "target": self.target.source, "partitions": len(partitions)}
        result |= self.target.where()
        return Progress(not to_go, self._describe(to_go, left), result, left)

    def _to_go(self, lag: GroupLag) -> list[_ToGo]:
        if lag.error is not None:
            raise OffsetsError("Reading commits", [(f"group {lag.group}", lag.error)])
        lag.partitions.raise_for_errors()
        found = []
        for key, target in self.target.items():
            each = lag.partitions.lookup(*key)
            assert each is not None and each.log_start_offset is not None, "every partition of the target was asked for"
            stands = each.log_start_offset if each.committed_offset is None else each.committed_offset
            if stands < target:
                position = Position(*key, max(stands, each.log_start_offset))
                found.append(_ToGo(position, target - stands, target, stands < each.log_start_offset))
        return found

    def _refuse_truncated(self, lag: GroupLag, to_go: Iterable[_ToGo]) -> Generator[Question[Any], Any, None]:
        """Ask for the high watermark where the end of a log lies before the target."""
        waited_for = {TopicPartition(*each.position[:2]) for each in to_go}
        targets = dict(self.target.items())
        short = {
            key
            for each in lag.partitions
            if (key := TopicPartition(each.topic, each.partition)) in waited_for
            and _end(each, self.isolation_level) < targets[key]
        }
        if short:
            extents = (yield from ask(Extents.about(short))).raise_for_errors()
            self.target.refuse_truncated(
                {TopicPartition(each.topic, each.partition): each.high_watermark or 0 for each in extents}
            )

    def _look_behind_markers(self, to_go: list[_ToGo]) -> Generator[Question[Any], Any, list[_ToGo]]:
        """Leave out partitions that have no record left before the target: all of them, or it makes no difference."""
        if not to_go or any(each.lost for each in to_go):
            return to_go
        first = max(to_go, key=lambda each: each.left)
        records = yield from ask(Records.about([first.position], isolation_level=self.isolation_level))
        rest = [each.position for each in to_go if each is not first]
        if rest and records.nothing_before(first.position, first.target):
            more = yield from ask(Records.about(rest, isolation_level=self.isolation_level))
            records = FirstRecords([*records, *more])
        return [each for each in to_go if not records.nothing_before(each.position, each.target)]

    def _describe(self, to_go: list[_ToGo], left: int) -> str:
        if not to_go:
            return f"{self.group} has reached the {self.target.source}"
        worst = sorted(to_go, key=lambda each: -each.left)[:3]
        listed = ", ".join(f"{each.position.topic}-{each.position.partition} {each.left}" for each in worst)
        text = f"{self.group} is {left} offsets before the {self.target.source} ({listed})"
        lost = [each for each in to_go if each.lost]
        if lost:
            where = f"{lost[0].position.topic}-{lost[0].position.partition}"
            text += f"; records after the commit on {where} were deleted before they were read"
        return text


def _end(lag: PartitionLag, isolation_level: IsolationLevel) -> int:
    end = lag.last_stable_offset if isolation_level is IsolationLevel.READ_COMMITTED else lag.high_watermark
    assert end is not None, "a partition without error has the end that counts"
    return end
