"""Wait until there is something new to load."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import is_template
from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.new_data import EVERYTHING_NEW, NewData
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.references.snapshot_ref import last_published_end, offsets_in
from airflow_kafka_offsets.sensors.wait_sensor import KafkaPipelineSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


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

    The other arguments are those of :class:`~airflow_kafka_offsets.sensors.wait_sensor.KafkaPipelineSensor`.

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
