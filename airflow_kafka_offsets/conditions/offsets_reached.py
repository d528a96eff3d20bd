"""Offsets reached: a group has committed past a fixed target, which new records don't move: the drain barrier."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_kafka_offsets.conditions.condition import Condition, Progress, Steps
from airflow_kafka_offsets.conditions.left_to_read import read_left
from airflow_kafka_offsets.conditions.questions import Asking, Extents, LagsOn, ask, ask_topics
from airflow_kafka_offsets.conditions.same_logs import ask_same_logs, remark
from airflow_kafka_offsets.errors import ConditionFailedError, ConfigurationError, OffsetsError, shorten
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.groups.lag import GroupLag, LagStatus, PartitionLag
from airflow_kafka_offsets.offsets.groups.lag_policies import Behind
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets


@dataclass(frozen=True, slots=True)
class OffsetsReached(Condition):
    """A group has committed at or past a target on each of its partitions.

    A partition without a commit stands at its log start, so that it is reached where nothing before the target is left;
    the summary says so. Where nothing but transaction markers and aborted records lies between a commit and the target,
    it is reached (E12). Before it passes, the logs have to be those that the target was seen in.

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
        if not self.target.topics:
            raise ConfigurationError(f"There is nothing to reach: {self.target.source} has no partitions.")

    def steps(self) -> Steps:
        metadata = yield from ask_topics(self.target.names())
        self.target.refuse_other_source(metadata.cluster_id, metadata.topic_ids)
        partitions = tuple(key for key, _ in self.target.items())
        lags = yield from ask(LagsOn.about([(self.group, partitions)], isolation_level=self.isolation_level))
        (lag,) = lags
        if lag.unknown:
            raise ConditionFailedError(
                f"Group {self.group} doesn't exist (GROUP_ID_NOT_FOUND): it can't reach the {self.target.source}. "
                "Is it misspelt, or not started yet? Wait for its first commit before, for example by "
                "KafkaGroupLagSensor with unknown_group='wait'."
            )
        ahead = lag.with_status(LagStatus.AHEAD_OF_LOG) if lag.error is None else []
        if ahead:
            raise ConditionFailedError(
                f"The commit of group {self.group} on {ahead[0].topic}-{ahead[0].partition} is past the log's end "
                "(OFFSET_OUT_OF_RANGE): the topic was truncated or re-created, or the commit copied. It has reached "
                "nothing."
            )
        cut = lag.with_status(LagStatus.LOG_TRUNCATED) if lag.error is None else []
        if cut:
            raise ConditionFailedError(
                f"The log of {cut[0].topic}-{cut[0].partition} was cut below the commit of group {self.group} and has "
                "grown past it again (unclean leader election): the group has not read what stands before its commit "
                "now. airflow kafka-offsets reset puts it where it is to go on."
            )
        to_go = self._to_go(lag)
        yield from self._refuse_truncated(lag, to_go)
        read = yield from read_left([to_go], self.isolation_level, lambda behind: not behind)
        to_go = [each for each in to_go if not read.is_clear(each)]
        left = sum(each.lag for each in to_go)
        result: dict[str, Any] = {"group": self.group, "target": self.target.source, "partitions": len(partitions)}
        result |= self.target.where()
        text = self._describe(to_go) + read.remark() + self._gone(lag)
        unknowable = [] if to_go else (yield from ask_same_logs(self.target, metadata))
        if unknowable:
            result["unknowable"] = unknowable
            text += remark(unknowable)
        return Progress(not to_go, text, result, left)

    def _to_go(self, lag: GroupLag) -> list[Behind]:
        if lag.error is not None:
            raise OffsetsError("Reading commits", [(f"group {lag.group}", lag.error)])
        lag.partitions.raise_for_errors()
        found = []
        for key, target in self.target.items():
            each = lag.partitions.lookup(*key)
            assert each is not None and each.log_start_offset is not None, "every partition of the target was asked for"
            stands = each.log_start_offset if each.committed_offset is None else each.committed_offset
            if stands < target:
                position = ReadPosition(*key, max(stands, each.log_start_offset))
                found.append(Behind(position, target - stands, max(0, each.log_start_offset - stands)))
        return found

    def _refuse_truncated(self, lag: GroupLag, to_go: Iterable[Behind]) -> Asking[None]:
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

    def _gone(self, lag: GroupLag) -> str:
        """Where the group never committed, and what was before the target is gone: nobody can tell who read it."""
        gone = [
            str(key)
            for key, target in self.target.items()
            if (each := lag.partitions.lookup(*key)) is not None
            and each.committed_offset is None
            and 0 < target <= (each.log_start_offset or 0)
        ]
        return f"; it never committed on {shorten(gone)}, where nothing before the target is left" if gone else ""

    def _describe(self, to_go: list[Behind]) -> str:
        if not to_go:
            return f"{self.group} has reached the {self.target.source}"
        worst = sorted(to_go, key=lambda each: -each.lag)[:3]
        listed = ", ".join(f"{each} {each.lag}" for each in worst)
        left, lost = sum(each.lag for each in to_go), sum(each.lost for each in to_go)
        text = f"{self.group} is {left} offsets before the {self.target.source} ({listed})"
        return f"{text}; {lost} offsets were deleted before it read them" if lost else text


def _end(lag: PartitionLag, isolation_level: IsolationLevel) -> int:
    end = lag.last_stable_offset if isolation_level is IsolationLevel.READ_COMMITTED else lag.high_watermark
    assert end is not None, "a partition without error has the end that counts"
    return end
