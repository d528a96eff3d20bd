"""Wait until a consumer group has passed a fixed target (a drain barrier)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import as_name, as_names, constant
from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.offsets_reached import LogEndsFound, OffsetsReached
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.references.snapshot_ref import offsets_in
from airflow_kafka_offsets.sensors.wait_sensor import KafkaGroupSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

LOG_END = "log_end"
"""The target for: where the logs end when the task begins, or when Kafka first says so."""


class KafkaOffsetsReachedSensor(KafkaGroupSensor):
    """
    Waits until a group's commits have passed a fixed target, which new records don't move.

    The target is a stored snapshot, a window's end, or the log end when this task began (if Kafka doesn't answer then:
    when it first does). That log end is found once and kept for the task's retries, until the task ends or is cleared.
    A partition without a commit counts as being at its log start.

    :param group: group id. (templated)
    :param target: what ``KafkaOffsetSnapshotOperator`` or ``KafkaResolveWindowOperator`` returned; by default
        ``log_end``, the log end when this task began. (templated)
    :param topics: with the default target: the topics whose log ends are meant; by default all topics that the group
        has committed on or reads. (templated)

    The other arguments are those of :class:`~airflow_kafka_offsets.sensors.wait_sensor.KafkaGroupSensor`.

    XCom: ``{"group": "...", "target": "the log end at 2026-11-21T06:00:00.000Z", "partitions": 6}``, and the ``ledger``
    of a stored target.
    """

    template_fields: Sequence[str] = ("group", "target", "topics", *KafkaGroupSensor.template_fields)
    keeps_offsets = True

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
        ends = self.kept_offsets(context, self._found_for)
        return (
            LogEndsFound(self.group, self._topics, level) if ends is None else OffsetsReached(self.group, ends, level)
        )

    def take_found(self, context: Context, found: Mapping[str, Any]) -> None:
        self.keep_offsets(context, self._found_for, FixedOffsets.from_json(found))

    def _refuse_both(self) -> None:
        if self.topics is not None and constant(self.target, LOG_END) != LOG_END:
            raise ConfigurationError("target= already names its topics: drop topics=.")

    @property
    def _topics(self) -> tuple[str, ...] | None:
        return None if self.topics is None else as_names(self.topics, "topics")

    @property
    def _found_for(self) -> list[Any]:
        topics = self._topics
        return [self.group, topics and list(topics), str(IsolationLevel.of(self.isolation_level))]
