"""Wait until there is something new to load."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import as_milliseconds, as_names
from airflow_kafka_offsets.conditions.condition import Condition
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.hooks.ledger import ledger_of
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.references.snapshot_ref import last_published_end, offsets_in
from airflow_kafka_offsets.sensors.wait_sensor import KafkaWaitSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaNewDataSensor(KafkaWaitSensor):
    """
    Waits until at least ``min_records`` records have arrived since a snapshot, or since the last published window; or,
    with ``max_age``, until the first of them is that old, whichever comes first.

    Records are counted in offsets: exactly on plain topics, an upper bound when transactions or compaction leave gaps.
    At least one of them is certainly a record. The last published window is found once for the whole task, retries
    included, and again after the task is cleared.

    :param topics: a topic or several. (templated)
    :param since: what ``KafkaOffsetSnapshotOperator`` or ``KafkaResolveWindowOperator`` returned. (templated)
    :param pipeline: instead of ``since``: the pipeline whose last published window to start from. Until it has one,
        what its first increment starts from, once that is resolved; before, everything in the logs is new. (templated)
    :param ledger_root: with ``pipeline``: the folder of all ledgers; by default the setting ``[kafka_offsets]
        ledger_root``. (templated)
    :param min_records: how many records, over all topics; 1 by default.
    :param max_age: age of the first new record, by its timestamp, from which on fewer than ``min_records`` are enough;
        a timedelta or seconds. By default, all of them are waited for.

    XCom: ``{"new": {"flights": 120}, "stale": {"clicks": "2026-11-21T06:00:00.000Z"}, "since": "..."}``. ``stale`` has
    the newest record's time for each topic without new data, None without a record; where it couldn't be asked,
    ``stale_unknown`` has Kafka's error instead. There is also the ``ledger`` of a stored start and, with ``max_age``,
    ``age_s``: the first new record's age, if it was looked at.
    """

    template_fields: Sequence[str] = ("topics", "since", "pipeline", "ledger_root", *KafkaWaitSensor.template_fields)
    keeps_offsets = True

    def __init__(
        self,
        *,
        topics: str | list[str],
        since: Any = None,
        pipeline: str | None = None,
        ledger_root: str | None = None,
        min_records: int = 1,
        max_age: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topics = topics
        self.since = since
        self.pipeline = pipeline
        self.ledger_root = ledger_root
        self.min_records = min_records
        self.max_age = max_age

    def condition(self, context: Context) -> Condition:
        return NewData(
            topics=as_names(self.topics, "topics"),
            since=self._since(context),
            min_records=self.min_records,
            max_age_ms=as_milliseconds(self.max_age, "max_age"),
            isolation_level=IsolationLevel.of(self.isolation_level),
        )

    def _since(self, context: Context) -> FixedOffsets:
        if (self.since is None) == (self.pipeline is None):
            raise ConfigurationError(
                "Exactly one of since= and pipeline= is required: pass since= (what a snapshot or resolve "
                "task returned: was it skipped?) or pipeline=."
            )
        if self.pipeline is None:
            return offsets_in(self.since, "since")
        ledger = ledger_of(self.ledger_root, self.pipeline)
        found_for = [ledger.uri]
        return self.kept_offsets(context, found_for) or self.keep_offsets(
            context, found_for, last_published_end(ledger)
        )
