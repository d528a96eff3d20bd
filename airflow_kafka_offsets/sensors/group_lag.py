"""Wait until consumer groups have caught up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow_kafka_offsets.conditions import Condition, GroupsCaughtUp
from airflow_kafka_offsets.names import as_names
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.sensors.waiting import KafkaWaitSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaGroupLagSensor(KafkaWaitSensor):
    """
    Waits until every named group is at most ``max_lag`` offsets behind on all partitions of its topics.

    It never passes for want of knowledge: a misspelt group, a partition in error or a commit past the log's end fails
    the task, and a partition without a commit counts from the log start. A group whose consumers never commit (Spark,
    Flink) has no lag to wait on: use :class:`KafkaWindowCompleteSensor` for those.

    :param groups: a group id or several. (templated)
    :param topics: judge these topics alone; all that a group has committed on by default. (templated)
    :param max_lag: the most offsets that a group may be behind in total, 0 by default.
    :param unknown_group: ``fail`` (default) or ``wait`` while a group doesn't exist.
    :param isolation_level: ``read_committed`` (default) measures to the last stable offset, ``read_uncommitted`` to the
        high watermark. (templated)

    XCom: ``{"groups": {"<group>": <total lag>}, "max_lag": 0}``.
    """

    template_fields: Sequence[str] = ("groups", "topics", "isolation_level", "kafka_conn_id")
    ui_color = "#d7e8f7"

    def __init__(
        self,
        *,
        groups: str | list[str],
        topics: str | list[str] | None = None,
        max_lag: int = 0,
        unknown_group: Literal["fail", "wait"] = "fail",
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.groups = groups
        self.topics = topics
        self.max_lag = max_lag
        self.unknown_group = unknown_group
        self.isolation_level = isolation_level

    def condition(self, context: Context) -> Condition:
        """Groups caught up."""
        return GroupsCaughtUp(
            groups=as_names(self.groups, "groups"),
            topics=None if self.topics is None else as_names(self.topics, "topics"),
            max_lag=self.max_lag,
            unknown_group=self.unknown_group,
            isolation_level=IsolationLevel.of(self.isolation_level),
        )
