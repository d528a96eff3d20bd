"""Conditions: what a task can wait for, each a plain check that anybody may call with a client.

A sensor checks a condition on a worker, a trigger on the triggerer; both get it as small JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Protocol

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError, OffsetsError, ResponseError
from airflow_kafka_offsets.offsets.completeness import judge_completeness
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.lag import GroupLag, LagStatus
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a wait has come.

    :param done: the condition holds.
    :param summary: one line for people: totals and the worst three.
    :param result: small plain JSON, pushed to XCom when done.
    """

    done: bool
    summary: str
    result: dict[str, Any]


class Condition(Protocol):
    """Something to wait for."""

    def check(self, client: OffsetsClient) -> Progress:
        """Ask the cluster once.

        :raises KafkaOffsetsError: ``retriable`` says whether waiting on makes sense.
        """
        ...

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for a trigger."""
        ...


@dataclass(frozen=True, slots=True)
class GroupsCaughtUp:
    """Every group's lag is at most ``max_lag`` on all partitions of its topics.

    :param groups: group ids.
    :param topics: judge these topics alone; None for all that a group has committed on.
    :param max_lag: the most offsets that a group may be behind in total.
    :param unknown_group: ``fail`` or ``wait`` while a group doesn't exist; it never passes (E19).
    :param isolation_level: which end of the log counts.
    """

    kind: ClassVar[str] = "groups_caught_up"

    groups: tuple[str, ...]
    topics: tuple[str, ...] | None = None
    max_lag: int = 0
    unknown_group: Literal["fail", "wait"] = "fail"
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    def __post_init__(self) -> None:
        if not self.groups:
            raise ConfigurationError("Name at least one group to wait for; groups is empty.")
        if self.max_lag < 0:
            raise ConfigurationError(f"max_lag is a number of offsets, 0 or more, not {self.max_lag}.")
        if self.unknown_group not in ("fail", "wait"):
            raise ConfigurationError(f"unknown_group is 'fail' or 'wait', not {self.unknown_group!r}.")

    def check(self, client: OffsetsClient) -> Progress:
        """Ask for the lag of all groups at once.

        :raises OffsetsError: an unknown group (unless waited for), a commit ahead of the log, or Kafka's own errors.
        """
        lags = list(client.group_lags(self.groups, topics=self.topics, isolation_level=self.isolation_level))
        refused = [(f"group {each.group}", error) for each in lags for error in self._refuse(each)]
        if refused:
            raise OffsetsError("Waiting for lag", refused)
        done = all(_is_behind_at_most(each, self.max_lag) for each in lags)
        result = {"groups": {each.group: each.total for each in lags}, "max_lag": self.max_lag}
        return Progress(done, "; ".join(map(_describe, lags)), result)

    def _refuse(self, lag: GroupLag) -> list[ResponseError]:
        if lag.unknown and self.unknown_group == "fail":
            return [ResponseError("GROUP_ID_NOT_FOUND", 69, False, "no such group; is it misspelt or not started yet?")]
        if lag.error is not None:
            return [] if lag.never_committed else [lag.error]
        ahead = lag.with_status(LagStatus.AHEAD_OF_LOG)
        if ahead:
            where = f"{ahead[0].topic}-{ahead[0].partition}"
            return [ResponseError("OFFSET_OUT_OF_RANGE", 1, False, f"its commit on {where} is past the log's end")]
        return [each.error for each in lag.partitions if each.error is not None]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for a trigger."""
        return _to_json(self)


def _is_behind_at_most(lag: GroupLag, most: int) -> bool:
    return lag.total is not None and lag.total <= most


def _describe(lag: GroupLag) -> str:
    if lag.unknown:
        return f"{lag.group} doesn't exist yet"
    if not len(lag.partitions):
        return f"{lag.group} has committed nothing yet"
    worst = ", ".join(f"{each.topic}-{each.partition} {each.lag}" for each in lag.worst() if each.lag)
    return f"{lag.group} is {lag.total} behind" + (f" ({worst})" if worst else "")


@dataclass(frozen=True, slots=True)
class InstantPassed:
    """A moment has passed on every partition of the topics: a record at or after it stands there.

    :param topics: topic names.
    :param instant_ms: the moment, Unix milliseconds.
    :param idle_after_ms: a partition without such a record counts as idle, and as passed, once the moment is that long
        ago (milliseconds); None to wait for a record.
    :param isolation_level: which records count.
    """

    kind: ClassVar[str] = "instant_passed"

    topics: tuple[str, ...]
    instant_ms: int
    idle_after_ms: int | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    def __post_init__(self) -> None:
        if not self.topics:
            raise ConfigurationError("Name at least one topic to wait for; topics is empty.")

    def check(self, client: OffsetsClient) -> Progress:
        """Look the moment up on every partition.

        :raises OffsetsError: a topic is unknown or a partition can't be asked.
        """
        elapsed_ms = now_ms() - self.instant_ms
        instant = iso_instant(self.instant_ms)
        if elapsed_ms < 0:
            return Progress(False, f"{instant} lies {-elapsed_ms / 1000:.0f} s ahead", {})
        spec = OffsetSpec.at(self.instant_ms)
        listed = client.list_offsets(client.partitions_of(self.topics), spec, isolation_level=self.isolation_level)
        completeness = judge_completeness(listed, elapsed_ms=elapsed_ms, idle_after_ms=self.idle_after_ms)
        result = {
            "instant": instant,
            "partitions_passed": len(completeness.passed),
            "assumed_idle": [str(each) for each in completeness.assumed],
        }
        return Progress(completeness.complete, f"{instant}: {completeness}", result)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for a trigger."""
        return _to_json(self)


def _to_json(condition: GroupsCaughtUp | InstantPassed) -> dict[str, Any]:
    fields = {"kind": condition.kind} | asdict(condition) | {"isolation_level": str(condition.isolation_level)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


_KINDS: Mapping[str, type[GroupsCaughtUp | InstantPassed]] = {
    each.kind: each for each in (GroupsCaughtUp, InstantPassed)
}


def condition_from_json(fields: Mapping[str, Any]) -> Condition:
    """The inverse of ``to_json``."""
    arguments: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    condition = _KINDS[arguments.pop("kind")]
    arguments["isolation_level"] = IsolationLevel(arguments["isolation_level"])
    return condition(**arguments)
