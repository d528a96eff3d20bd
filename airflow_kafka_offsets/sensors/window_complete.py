"""Wait until a window of time is complete in the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.conditions import Condition, InstantPassed
from airflow_kafka_offsets.interval import run_interval
from airflow_kafka_offsets.names import as_names
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.sensors.waiting import KafkaWaitSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaWindowCompleteSensor(KafkaWaitSensor):
    """
    Waits until the end of the run's interval has passed on every partition of the topics.

    A partition has passed it when a record at or after it stands in the log. On topics whose producers stamp records
    (CreateTime) late records may still come; they belong to the window in which they arrive.

    :param topics: a topic or several. (templated)
    :param start: explicit start, ISO-8601 with a zone; with ``end`` instead of the run's own interval. (templated)
    :param end: explicit end, exclusive. (templated)
    :param idle_after: a partition without a record after the end counts as idle, and as complete, once the end is this
        long ago (a timedelta, or seconds); by default it is waited for.
    :param isolation_level: which records count. (templated)

    XCom: ``{"instant": "...", "partitions_passed": 6, "assumed_idle": ["topic-3"]}``.
    """

    template_fields: Sequence[str] = ("topics", "start", "end", "isolation_level", "kafka_conn_id")
    ui_color = "#d7e8f7"

    def __init__(
        self,
        *,
        topics: str | list[str],
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        idle_after: timedelta | float | None = None,
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topics = topics
        self.start = start
        self.end = end
        self.idle_after = idle_after
        self.isolation_level = isolation_level

    def condition(self, context: Context) -> Condition:
        """The end of the interval has passed."""
        return InstantPassed(
            topics=as_names(self.topics, "topics"),
            instant_ms=run_interval(context, self.start, self.end).end_ms,
            idle_after_ms=None if self.idle_after is None else _milliseconds(self.idle_after),
            isolation_level=IsolationLevel.of(self.isolation_level),
        )


def _milliseconds(duration: timedelta | float) -> int:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return int(seconds * 1000)
