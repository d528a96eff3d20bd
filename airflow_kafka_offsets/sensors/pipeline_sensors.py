"""Sensors that wait for a pipeline's records: until a window of time is complete, or there is something new to load."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import is_template
from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.new_data import EVERYTHING_NEW, NewData
from airflow_kafka_offsets.conditions.window_complete import IdlePolicy, WindowComplete
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline, OfPipeline, as_pipeline
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.references import last_published_end, offsets_in
from airflow_kafka_offsets.runs.interval import check_interval, run_interval
from airflow_kafka_offsets.sensors.wait_sensor import KafkaWaitSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaPipelineSensor(OfPipeline, KafkaWaitSensor):
    """
    Base of the sensors that wait for a pipeline's records. Its other arguments are those of :class:`KafkaWaitSensor`.

    :param pipeline: the :class:`~airflow_kafka_offsets.kafka_pipeline.KafkaPipeline`, with its topics by name.
        (templated)
    """

    template_fields: Sequence[str] = ("pipeline",)

    def __init__(self, *, pipeline: KafkaPipeline, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = as_pipeline(pipeline)

    @property
    def conn_id(self) -> str:
        return self.pipeline.kafka_conn_id


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

    The other arguments are those of :class:`KafkaPipelineSensor`.

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


class KafkaNewDataSensor(KafkaPipelineSensor):
    """
    Waits until at least ``min_records`` records have arrived on the pipeline's topics since its last published window,
    or since a snapshot; or, with ``max_age``, until the first of them is that old, whichever comes first.

    Records are counted in offsets: exactly on plain topics, an upper bound when transactions or compaction leave gaps.
    At least one of them is certainly a record. The last published window is that of the latest check on the worker.
    Until there is one, new data starts where the pipeline begins, once
    its first increment is resolved; before that, everything in the logs is new.

    :param since: instead of the last published window: what ``KafkaOffsetSnapshotOperator`` or
        ``KafkaResolveWindowOperator`` returned. (templated)
    :param min_records: how many records, over all topics; 1 by default.
    :param max_age: age of the first new record, by its timestamp, from which on fewer than ``min_records`` are enough;
        a timedelta or seconds. By default, all of them are waited for.

    The other arguments are those of :class:`KafkaPipelineSensor`.

    XCom: ``{"new": {"flights": 120, "clicks": 0}, "since": "..."}``. There is also the ``ledger`` of a stored start
    and, with ``max_age``, ``age_s``: the first new record's age, if it was looked at.
    """

    template_fields: Sequence[str] = (*KafkaPipelineSensor.template_fields, "since")

    def __init__(
        self,
        *,
        since: Any = None,
        min_records: int = 1,
        max_age: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.since = since
        self.min_records = min_records
        self.max_age = max_age
        if isinstance(since, str) and not is_template(since):
            offsets_in(since, "since")
        self._new_data(EVERYTHING_NEW, IsolationLevel.READ_COMMITTED)

    def condition(self, context: Context) -> Condition:
        published = self.since is None
        since = last_published_end(self.pipeline.ledger()) if published else offsets_in(self.since, "since")
        return self._new_data(since, self.pipeline.level)

    def _new_data(self, since: FixedOffsets, level: IsolationLevel) -> NewData:
        topics, count = self.pipeline.names(), self.min_records
        return NewData.given(topics, since, max_age=self.max_age, min_records=count, isolation_level=level)
