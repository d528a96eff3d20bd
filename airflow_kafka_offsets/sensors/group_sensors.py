"""Sensors that wait for consumer groups: until they have caught up, or have passed a fixed target (a drain barrier)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow_kafka_offsets.arguments import as_name, as_names, constant
from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp, NoCommit
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached, log_ends
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.references import offsets_in
from airflow_kafka_offsets.sensors.wait_sensor import KafkaWaitSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

LOG_END = "log_end"
"""The target for: where the logs end when a try begins, or when Kafka first says so."""


class KafkaGroupSensor(KafkaWaitSensor):
    """
    Base of the sensors that wait for consumer groups. Its other arguments are those of :class:`KafkaWaitSensor`.

    :param isolation_level: which records count: ``read_committed`` (default), up to the last stable offset; or
        ``read_uncommitted``, up to the high watermark. (templated)
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)
    """

    template_fields: Sequence[str] = ("isolation_level", "kafka_conn_id")

    def __init__(
        self,
        *,
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.isolation_level = isolation_level
        self.kafka_conn_id = kafka_conn_id
        as_name(constant(kafka_conn_id, "conn_id"), "kafka_conn_id")
        IsolationLevel.of(constant(isolation_level, IsolationLevel.READ_COMMITTED))

    @property
    def conn_id(self) -> str:
        return self.kafka_conn_id


class KafkaGroupLagSensor(KafkaGroupSensor):
    """
    Waits until every named group has read all there is to read on all partitions of its topics.

    It never passes because something is unknown: a misspelt group, a partition in error or a commit past the log's end
    fails the task. Transaction markers and aborted records at a log's end don't count. A group whose consumers never
    commit (Spark, Flink) has no lag to wait on: use :class:`.pipeline_sensors.KafkaWindowCompleteSensor` instead. On a
    topic that is never idle, wait for a fixed target: :class:`KafkaOffsetsReachedSensor`.

    :param groups: a group id or several. (templated)
    :param topics: judge only these topics; by default all that a group has committed on or reads. (templated)
    :param max_lag: the most offsets that a group may be behind in total; 0 when neither limit is given.
    :param max_age: the oldest that the first unread record of a partition may be, a timedelta or seconds.
    :param no_commit: how a partition without a commit counts: with everything ``from_log_start`` (default), with
        nothing (``ignore``, as long as there is a commit elsewhere); or ``wait`` until there is one.
    :param unknown_group: ``fail`` (default) or ``wait`` while a group doesn't exist.
    :param stable_polls: for how many polls in a row all this must hold.

    The other arguments are those of :class:`KafkaGroupSensor`.

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


class KafkaOffsetsReachedSensor(KafkaGroupSensor):
    """
    Waits until a group's commits have passed a fixed target, which new records don't move.

    The target is a stored snapshot, a window's end, or the log end when this try of the task began (if Kafka doesn't
    answer then: when it first does). A partition without a commit counts as being at its log start.

    :param group: group id. (templated)
    :param target: what ``KafkaOffsetSnapshotOperator`` or ``KafkaResolveWindowOperator`` returned; by default
        ``log_end``, the log end when this try began. (templated)
    :param topics: with the default target: the topics whose log ends are meant; by default all topics that the group
        has committed on or reads. (templated)

    The other arguments are those of :class:`KafkaGroupSensor`.

    XCom: ``{"group": "...", "target": "the log end at 2026-11-21T06:00:00.000Z", "partitions": 6}``, and the ``ledger``
    of a stored target.
    """

    template_fields: Sequence[str] = ("group", "target", "topics", *KafkaGroupSensor.template_fields)

    def __init__(
        self,
        *,
        group: str,
        target: Any = LOG_END,
        topics: str | list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.target = target
        self.topics = topics
        as_name(constant(group, "group"), "group")
        self._refuse_both()
        if isinstance(target, str) and constant(target, LOG_END) != LOG_END:
            offsets_in(target, "target")
        if topics is not None:
            as_names(constant(topics, "topic"), "topics")

    def condition(self, context: Context) -> Condition:
        level = IsolationLevel.of(self.isolation_level)
        if self.target != LOG_END:
            self._refuse_both()
            return OffsetsReached(self.group, offsets_in(self.target, "target"), level)
        topics = None if self.topics is None else as_names(self.topics, "topics")
        self.kept_offsets = self.kept_offsets or log_ends(self.client, self.group, topics, level)
        return OffsetsReached(self.group, self.kept_offsets, level)

    def _refuse_both(self) -> None:
        if self.topics is not None and constant(self.target, LOG_END) != LOG_END:
            raise ConfigurationError("target= already names its topics: drop topics=.")
