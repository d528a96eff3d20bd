"""Turn the run's interval into exact offsets, kept in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import ledger_root, open_ledger
from airflow_kafka_offsets.interval import run_interval
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.names import as_names
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.operators.base import failing_fast
from airflow_kafka_offsets.operators.window_ref import WindowRef
from airflow_kafka_offsets.resolver import Resolver

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaResolveWindowOperator(BaseOperator):
    """
    Pins the run's window: resolves its two instants to offsets, once, and writes the manifest.

    The window comes from ``start`` and ``end``, else from the run's partition date, else from its data interval. Both
    instants are shared with the neighbouring windows, so that windows tile in whatever order they run; a rerun returns
    the same manifest.

    :param pipeline: names the ledger's folder. (templated)
    :param topics: a topic or several. (templated)
    :param start: explicit start, inclusive, ISO-8601 with a zone. (templated)
    :param end: explicit end, exclusive. (templated)
    :param ledger_root: folder of all ledgers; the ``[kafka_offsets] ledger_root`` setting by default. (templated)
    :param isolation_level: which records count; the load must read with the same. (templated)
    :param kafka_conn_id: connection id, of type ``kafka`` or ``kafka_offsets``. (templated)

    XCom: see :class:`~airflow_kafka_offsets.operators.window_ref.WindowRef`.
    """

    template_fields: Sequence[str] = (
        "pipeline",
        "topics",
        "start",
        "end",
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
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        ledger_root: str | None = None,
        isolation_level: str = IsolationLevel.READ_COMMITTED,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.topics = topics
        self.start = start
        self.end = end
        self.ledger_root = ledger_root
        self.isolation_level = isolation_level
        self.kafka_conn_id = kafka_conn_id

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        """Resolve and pin."""
        interval = run_interval(context, self.start, self.end)
        ledger = open_ledger(self.ledger_root, self.pipeline)
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            level = IsolationLevel.of(self.isolation_level)
            resolver = Resolver(client, ledger, as_names(self.topics, "topics"), level)
            resolved = resolver.window(interval.start_ms, interval.end_ms)
        pinned = resolved.pinned
        self._log(pinned)
        for remark in resolved.remarks:
            self.log.warning(remark)
        return WindowRef.of(ledger_root(self.ledger_root), pinned).to_json()

    def _log(self, pinned: PinnedManifest) -> None:
        ranges = sorted(pinned.manifest.non_empty(), key=lambda each: -each.span)
        largest = ", ".join(
            f"{each.topic}-{each.partition} [{each.start_offset}, {each.end_offset})" for each in ranges[:3]
        )
        self.log.info(
            "Window %s: %s offsets in %s partitions%s. Manifest %s, sha256 %s",
            pinned.manifest.window,
            pinned.manifest.span,
            len(ranges),
            f", the largest {largest}" if largest else "",
            pinned.uri,
            pinned.sha256,
        )
