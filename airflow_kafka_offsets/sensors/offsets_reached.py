"""Wait until a consumer group has passed a fixed target (a drain barrier)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import as_names
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import partitions_of
from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.references.snapshot_ref import offsets_in
from airflow_kafka_offsets.sensors.wait_sensor import KafkaWaitSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

LOG_END = "log_end"
"""The target for: where the logs end when the task begins."""


class KafkaOffsetsReachedSensor(KafkaWaitSensor):
    """
    Waits until a group's commits have passed a fixed target, which new records don't move.

    The target is a stored snapshot, a window's end, or the log end when this task began. That log end is found once and
    kept for the task's retries, until the task ends or is cleared. A partition without a commit counts as being at its
    log start.

    :param group: group id. (templated)
    :param target: what ``KafkaOffsetSnapshotOperator`` or ``KafkaResolveWindowOperator`` returned; by default
        ``log_end``, the log end when this task began. (templated)
    :param topics: with the default target: the topics whose log ends are meant; by default all topics that the group
        has committed on or reads. (templated)

    XCom: ``{"group": "...", "target": "the log end at 2026-11-21T06:00:00.000Z", "partitions": 6}``, and the ``ledger``
    of a stored target.
    """

    template_fields: Sequence[str] = ("group", "target", "topics", *KafkaWaitSensor.template_fields)
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

    def condition(self, context: Context, client: OffsetsClient) -> Condition:
        level = IsolationLevel.of(self.isolation_level)
        if self.target != LOG_END:
            if self.topics is not None:
                raise ConfigurationError("target= already names its topics: drop topics=.")
            return OffsetsReached(self.group, offsets_in(self.target, "target"), level)
        topics = None if self.topics is None else as_names(self.topics, "topics")
        arguments = [self.group, topics and list(topics), str(level)]
        target = self.kept_offsets(context, arguments, lambda: self._ends(client, topics, level))
        return OffsetsReached(self.group, target, level)

    def _ends(self, client: OffsetsClient, topics: Iterable[str] | None, level: IsolationLevel) -> FixedOffsets:
        metadata = client.topics(self._touched(client, level) if topics is None else topics).raise_for_errors()
        extents = client.log_extents(partitions_of(metadata))
        source = f"the log end at {iso_instant(now_ms())}"
        return FixedOffsets.of_ends(source, extents, level, metadata.cluster_id, metadata.topic_ids)

    def _touched(self, client: OffsetsClient, level: IsolationLevel) -> list[str]:
        (lag,) = client.group_lags([self.group], isolation_level=level).raise_for_errors()
        if lag.no_such_group:
            raise ConfigurationError(
                f"Group {self.group} doesn't exist (GROUP_ID_NOT_FOUND), so what it reads is unknown. Is it "
                "misspelt, or not started yet?"
            )
        return lag.partitions.topics()
