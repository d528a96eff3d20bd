"""Move a consumer group's commits to an instant, a window's end, or an end of the logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_kafka_offsets.arguments import as_name, as_names, constant
from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast
from airflow_kafka_offsets.pipelines.resetter import Resetter, Target
from airflow_kafka_offsets.references.snapshot_ref import offsets_in

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaResetOffsetsOperator(BaseOperator):
    """
    Moves a consumer group: commits where it is to go on reading.

    Each commit carries the offset's own leader epoch (KIP-320), if leaders can tell it. A group with active members is
    refused, and so is everything if one partition is in error. A partition whose records at a window's end are deleted,
    or that was added after the window, goes to its log start.

    :param group: group id. (templated)
    :param to: ``earliest``, ``latest``, an instant in ISO-8601 with a time zone (the first record at or after it), or
        what ``KafkaResolveWindowOperator`` or ``KafkaOffsetSnapshotOperator`` returned: a window's end, or a snapshot.
        (templated)
    :param topics: all partitions of these topics; by default the topics of the window, else those that the group has
        commits on. (templated)
    :param backwards: move commits back too. By default, those that are further already stay.
    :param new_group: create the group if it doesn't exist.
    :param isolation_level: which log end ``latest`` means: ``read_committed`` (default) or ``read_uncommitted``.
    :param kafka_conn_id: Airflow connection. (templated)

    XCom: ``{"group": "...", "committed": 5, "kept": 1}``; both numbers count partitions.
    """

    template_fields: Sequence[str] = ("group", "to", "topics", "kafka_conn_id")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        group: str,
        to: Any,
        topics: str | list[str] | None = None,
        backwards: bool = False,
        new_group: bool = False,
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.to = to
        self.topics = topics
        self.backwards = backwards
        self.new_group = new_group
        self.isolation_level = isolation_level
        self.kafka_conn_id = kafka_conn_id
        as_name(constant(group, "group"), "group")
        if isinstance(to, str | datetime):
            _spec(constant(to, "latest"))
        if topics is not None:
            as_names(constant(topics, "topic"), "topics")
        IsolationLevel.of(isolation_level)

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        target, group = self._target(), as_name(self.group, "group")
        topics = None if self.topics is None else as_names(self.topics, "topics")
        level = IsolationLevel.of(self.isolation_level)
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            resetter = Resetter(client, group, topics, level, self.backwards)
            plan = resetter.plan(target)
            resetter.execute(plan, new_group=self.new_group)
        committed = len(plan.commits())
        remarks = [f"{step.topic}-{step.partition}: {step.remark}" for step in plan if step.remark]
        told = f"; {shorten(remarks)}" if remarks else ""
        self.log.info("Group %s: committed %s of %s partitions%s", group, committed, len(plan), told)
        return {"group": group, "committed": committed, "kept": len(plan) - committed}

    def _target(self) -> Target:
        return _spec(self.to) if isinstance(self.to, str | datetime) else offsets_in(self.to, "to")


def _spec(to: str | datetime) -> OffsetSpec:
    return OffsetSpec.parse(to) if isinstance(to, str) else OffsetSpec.at(to)
