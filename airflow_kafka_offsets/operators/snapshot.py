"""Store where every partition stands, as of something."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import open_ledger
from airflow_kafka_offsets.names import as_names
from airflow_kafka_offsets.offsets.instants import given_instant, iso_instant
from airflow_kafka_offsets.offsets.remarks import snapshot_remarks
from airflow_kafka_offsets.offsets.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.operators.base import failing_fast
from airflow_kafka_offsets.resolver import Resolver

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaOffsetSnapshotOperator(BaseOperator):
    """
    Stores an offset snapshot in the pipeline's ledger.

    An instant is resolved once: run again, the task returns what is stored. ``latest``, ``earliest`` and a group's
    commits are new snapshots each time.

    :param pipeline: names the ledger's folder. (templated)
    :param topics: a topic or several. (templated)
    :param at: ``latest`` (default), ``earliest``, or an instant in ISO-8601 with a zone. (templated)
    :param group: snapshot this group's commits instead. (templated)
    :param ledger_root: folder of all ledgers; the ``[kafka_offsets] ledger_root`` setting by default. (templated)
    :param isolation_level: which records count. (templated)
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)

    XCom: ``{"version": 1, "ledger": "<uri>", "snapshot": 42, "as_of": "...", "resolved_at": "...", "partitions": 6}``.
    """

    template_fields: Sequence[str] = (
        "pipeline",
        "topics",
        "at",
        "group",
        "ledger_root",
        "isolation_level",
        "kafka_conn_id",
    )
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        pipeline: str,
        topics: str | list[str],
        at: str | datetime = "latest",
        group: str | None = None,
        ledger_root: str | None = None,
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.topics = topics
        self.at = at
        self.group = group
        self.ledger_root = ledger_root
        self.isolation_level = isolation_level
        self.kafka_conn_id = kafka_conn_id

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        """Resolve and store."""
        ledger = open_ledger(self.ledger_root, self.pipeline)
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            level = IsolationLevel.of(self.isolation_level)
            snapshot = Resolver(client, ledger, as_names(self.topics, "topics"), level).snapshot(self._as_of())
        for remark in snapshot_remarks(snapshot):
            self.log.warning(remark)
        self.log.info("Snapshot %s as of %s: %s partitions", snapshot.number, snapshot.as_of, len(snapshot.boundaries))
        return {
            "version": 1,
            "ledger": ledger.uri,
            "snapshot": snapshot.number,
            "as_of": str(snapshot.as_of),
            "resolved_at": iso_instant(snapshot.resolved_at_ms),
            "partitions": len(snapshot.boundaries),
        }

    def _as_of(self) -> AsOf:
        if self.group is not None:
            if self.at != AsOfKind.LATEST:
                raise ConfigurationError(
                    "A snapshot is as of a group's commits or as of an instant: drop group= or at=."
                )
            return AsOf(AsOfKind.GROUP, group=self.group)
        if self.at in (AsOfKind.LATEST, AsOfKind.EARLIEST):
            return AsOf(AsOfKind(str(self.at)))
        return AsOf(AsOfKind.INSTANT, given_instant(self.at))
