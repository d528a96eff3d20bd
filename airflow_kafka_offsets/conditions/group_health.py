"""Group health: whether a consumer group is within limits, and whether it moves at all.

One poll tells how far behind a group is and whether it has members. That it stands still, or went back, shows only in
comparison with where it was earlier (:class:`GroupPositions`). A commit that hasn't moved proves nothing as long as
only transaction markers and aborted records lay between it and the log's end (E12): so there, the log is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from airflow_kafka_offsets.compat.python_versions import StrEnum
from airflow_kafka_offsets.conditions.condition import Answers, Condition, Descriptions, Progress
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.left_to_read import Behind, is_clear, read_from
from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.offsets.answers.records import FirstRecords
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.lag import GroupLag, PartitionLag


class Alarm(StrEnum):
    """What is wrong with a group."""

    LAG = "lag"
    """It is more offsets behind than allowed."""
    AGE = "age"
    """Its oldest unread record is older than allowed, or nobody can tell how old it is."""
    STALLED = "stalled"
    """A commit hasn't moved since the earlier poll, although there already was a record to read."""
    REWOUND = "rewound"
    """A commit is lower than at the earlier poll, or gone."""
    STOPPED = "stopped"
    """It has no members, and something is left to read. Groups that only commit never have members, nor this."""
    UNKNOWN = "unknown"
    """How far behind it is can't be told."""


class Position(NamedTuple):
    """Where a group was on one partition.

    :param committed_offset: next offset to read; None without a commit.
    :param end_offset: where the log ended.
    """

    topic: str
    partition: int
    committed_offset: int | None
    end_offset: int


@dataclass(frozen=True, slots=True)
class GroupPositions:
    """Where a group was at one time.

    :param at_ms: when, by this machine's clock, Unix milliseconds.
    """

    at_ms: int
    positions: tuple[Position, ...] = ()

    def to_json(self) -> dict[str, Any]:
        topics: dict[str, list[list[int | None]]] = defaultdict(list)
        for topic, *numbers in self.positions:
            topics[topic].append(numbers)
        return {"at_ms": self.at_ms, "topics": dict(topics)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> GroupPositions:
        """The inverse of :meth:`to_json`; raises KeyError, TypeError or ValueError for anything else."""
        found = (Position(topic, *numbers) for topic, rows in fields["topics"].items() for numbers in rows)
        return cls(int(fields["at_ms"]), tuple(found))


@dataclass(frozen=True, slots=True)
class GroupHealth(Condition):
    """One group is within its limits and moves. Its result is ``{"alarms": [...], "lag": 12, "age_s": 3.5}``, and the
    group's ``positions`` as JSON.

    :param limits: of the group: ``max_lag``, ``max_age_ms``, neither, or both.
    :param watched: those of ``stalled``, ``rewound`` and ``stopped`` that count.
    :param earlier: where the group was at an earlier poll; None when that isn't known, and ``stalled`` and ``rewound``
        can't be told.
    """

    kind: ClassVar[str] = "group_health"

    limits: GroupsCaughtUp
    watched: tuple[str, ...]
    earlier: GroupPositions | None = None

    def judge(self, answers: Answers) -> Progress:
        progress = self.limits.judge(answers)
        (lag,) = self.limits.lags(answers)
        # Where topics are named, lag may be measured without describing the group.
        description = lag.description or answers[Descriptions.of(self.limits.groups)].lookup(lag.group)
        unread = self.limits.standing(lag).behind
        unmoved = self._unmoved(lag, unread)
        has_stopped = description is not None and description.has_stopped
        unattended = unread if has_stopped and Alarm.STOPPED in self.watched else ()
        left = read_from((*unmoved, *unattended), self.limits.isolation_level, answers)
        words = self._over_limits(lag.group, progress)
        words |= self._since_earlier(lag, unmoved, left)
        if any(not is_clear(behind, left) for behind in unattended):
            words[Alarm.STOPPED] = "has no members"
        summary = "; ".join([progress.summary, *filter(None, words.values())])
        result = self._numbers(lag.group, progress) | {
            "alarms": [str(alarm) for alarm in words],
            "positions": _positions(lag.partitions, self.limits, answers.at_ms).to_json(),
        }
        return Progress(not words, summary, result, progress.remaining, measures=progress.measures)

    def _numbers(self, group: str, progress: Progress) -> dict[str, Any]:
        age_s = progress.result.get("age_s", {}).get(group)
        return {"lag": progress.remaining} | ({} if self.limits.max_age_ms is None else {"age_s": age_s})

    def _over_limits(self, group: str, progress: Progress) -> dict[Alarm, str]:
        """The alarms about limits. What there is to say is in the summary."""
        if progress.remaining is None:
            return {Alarm.UNKNOWN: ""}
        found = {}
        if self.limits.max_lag is not None and progress.remaining > self.limits.max_lag:
            found[Alarm.LAG] = ""
        if self.limits.max_age_ms is not None:
            age_s = self._numbers(group, progress)["age_s"]
            if age_s is None or age_s * 1000 > self.limits.max_age_ms:
                found[Alarm.AGE] = ""
        return found

    def _since_earlier(self, lag: GroupLag, unmoved: Iterable[Behind], left: FirstRecords) -> dict[Alarm, str]:
        if self.earlier is None:
            return {}
        since, found = iso_instant(self.earlier.at_ms), {}
        stuck = [f"{behind} at {behind.position.offset}" for behind in unmoved if not is_clear(behind, left)]
        if stuck:
            found[Alarm.STALLED] = f"hasn't moved since {since} on {shorten(stuck)}"
        back = []
        for topic, number, before, _ in self.earlier.positions:
            own = lag.partitions.lookup(topic, number)
            if own is None or before is None:
                continue
            if (now := own.committed_offset) is None or now < before:
                back.append(f"{topic}-{number} from {before} to {'no commit' if now is None else now}")
        if Alarm.REWOUND in self.watched and back:
            found[Alarm.REWOUND] = f"went back since {since} on {shorten(back)}"
        return found

    def _unmoved(self, lag: GroupLag, unread: Iterable[Behind]) -> list[Behind]:
        """Where the group is behind at the same commit as earlier: up to the end that the log had then."""
        if self.earlier is None or Alarm.STALLED not in self.watched:
            return []
        ends = {each[:3]: each.end_offset for each in self.earlier.positions if each.committed_offset is not None}
        found = []
        for behind in unread:
            own = lag.partitions.lookup(behind.position.topic, behind.position.partition)
            assert own is not None, "it is behind there"
            end = ends.get((own.topic, own.partition, own.committed_offset))
            if end is not None and end > behind.position.offset and behind.is_in_order:
                found.append(behind._replace(end_offset=end))
        return found


def _positions(partitions: Iterable[PartitionLag], limits: GroupsCaughtUp, at_ms: int) -> GroupPositions:
    ends = ((own, own.end_offset(limits.isolation_level)) for own in partitions)
    return GroupPositions(
        at_ms,
        tuple(Position(own.topic, own.partition, own.committed_offset, end) for own, end in ends if end is not None),
    )
