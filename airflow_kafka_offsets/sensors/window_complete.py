"""Wait until a window of time is complete in the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.window_complete import IdlePolicy, WindowComplete
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.runs.interval import check_interval, run_interval
from airflow_kafka_offsets.sensors.wait_sensor import KafkaPipelineSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaWindowCompleteSensor(KafkaPipelineSensor):
    """
    Waits until the end of the run's interval has passed on every partition of the pipeline's topics.

    A partition has passed it when its log has a record at or after it. On topics whose producers set the timestamps
    (CreateTime), late records may still come; they belong to the window in which they arrive. On LogAppendTime topics,
    a minute past the end, by the clock of the machine that checks, is evidence too.

    :param start: explicit start, ISO-8601 with a zone; with ``end`` instead of the run's own interval. (templated)
    :param end: explicit end, exclusive. (templated)
    :param allowed_lateness: how late records may be (a timedelta, or seconds): a record at or after the end plus this
        is waited for.
    :param idle: how a partition without such a record counts. ``wait`` (default): it is waited for. ``assume_after``:
        it counts as complete once the end (with lateness) is ``idle_after`` ago. ``require_heartbeat``: the same, but
        only if another partition of its topic has a record that late. ``fail``: the task fails then.
    :param idle_after: for the last three, a timedelta or seconds.

    The other arguments are those of :class:`~airflow_kafka_offsets.sensors.wait_sensor.KafkaPipelineSensor`.

    XCom: ``{"instant": "...", "partitions_passed": 6, "assumed_idle": ["topic-3"]}``.
    """

    template_fields: Sequence[str] = (*KafkaPipelineSensor.template_fields, "start", "end")

    def __init__(
        self,
        *,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        allowed_lateness: timedelta | float = 0,
        idle: IdlePolicy = "wait",
        idle_after: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self.allowed_lateness = allowed_lateness
        self.idle = idle
        self.idle_after = idle_after
        check_interval(start, end)
        self._complete(0, IsolationLevel.READ_COMMITTED)

    def condition(self, context: Context) -> Condition:
        return self._complete(run_interval(context, self.start, self.end).end_ms, self.pipeline.level)

    def _complete(self, instant_ms: int, level: IsolationLevel) -> WindowComplete:
        topics, lateness = self.pipeline.names(), self.allowed_lateness
        return WindowComplete.given(
            topics, instant_ms, lateness, self.idle_after, idle=self.idle, isolation_level=level
        )
