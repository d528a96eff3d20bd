"""Wait until a consumer group has passed a fixed target (a drain barrier)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import as_name, as_names, constant
from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached, log_ends
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.references.snapshot_ref import offsets_in
from airflow_kafka_offsets.sensors.wait_sensor import KafkaGroupSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

LOG_END = "log_end"
"""The target for: where the logs end when a try begins, or when Kafka first says so."""


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

    The other arguments are those of :class:`~airflow_kafka_offsets.sensors.wait_sensor.KafkaGroupSensor`.

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
