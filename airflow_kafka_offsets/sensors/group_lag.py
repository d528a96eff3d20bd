"""Wait until consumer groups have caught up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow_kafka_offsets.arguments import constant
from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp, NoCommit
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.sensors.wait_sensor import KafkaGroupSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaGroupLagSensor(KafkaGroupSensor):
    """
    Waits until every named group has read all there is to read on all partitions of its topics.

    It never passes because something is unknown: a misspelt group, a partition in error or a commit past the log's end
    fails the task. Transaction markers and aborted records at a log's end don't count. A group whose consumers never
    commit (Spark, Flink) has no lag to wait on: use :class:`.window_complete.KafkaWindowCompleteSensor` instead. On a
    topic that is never idle, wait for a fixed target: :class:`.offsets_reached.KafkaOffsetsReachedSensor`.

    :param groups: a group id or several. (templated)
    :param topics: judge only these topics; by default all that a group has committed on or reads. (templated)
    :param max_lag: the most offsets that a group may be behind in total; 0 when neither limit is given.
    :param max_age: the oldest that the first unread record of a partition may be, a timedelta or seconds.
    :param no_commit: how a partition without a commit counts: with everything ``from_log_start`` (default), with
        nothing (``ignore``, as long as there is a commit elsewhere); or ``wait`` until there is one.
    :param unknown_group: ``fail`` (default) or ``wait`` while a group doesn't exist.
    :param stable_polls: for how many polls in a row all this must hold.

    The other arguments are those of :class:`~airflow_kafka_offsets.sensors.wait_sensor.KafkaGroupSensor`.

    XCom: ``{"groups": {"<group>": <total lag>}, "max_lag": 0}``, with the limits that were given.
    """

    template_fields: Sequence[str] = ("groups", "topics", *KafkaGroupSensor.template_fields)

    def __init__(
        self,
        *,
        groups: str | list[str],
        topics: str | list[str] | None = None,
        max_lag: int | None = None,
        max_age: timedelta | float | None = None,
        no_commit: NoCommit = "from_log_start",
        unknown_group: Literal["fail", "wait"] = "fail",
        stable_polls: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.groups = groups
        self.topics = topics
        self.max_lag = max_lag
        self.max_age = max_age
        self.no_commit = no_commit
        self.unknown_group = unknown_group
        self.stable_polls = stable_polls
        self._caught_up(constant(groups, "group"), constant(topics, "topic"), IsolationLevel.READ_COMMITTED)

    def condition(self, context: Context) -> Condition:
        return self._caught_up(self.groups, self.topics, IsolationLevel.of(self.isolation_level))

    def _caught_up(
        self, groups: str | list[str], topics: str | list[str] | None, level: IsolationLevel
    ) -> GroupsCaughtUp:
        return GroupsCaughtUp.given(
            groups,
            topics,
            max_lag=self.max_lag,
            max_age=self.max_age,
            no_commit=self.no_commit,
            unknown_group=self.unknown_group,
            stable_polls=self.stable_polls,
            isolation_level=level,
        )
