"""Turn the run's interval into exact offsets, kept in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.hooks.ledger import ledger_root
from airflow_kafka_offsets.hooks.window_ref import WindowRef
from airflow_kafka_offsets.interval import run_interval
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.operators.base import KafkaPipelineOperator, failing_fast

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaResolveWindowOperator(KafkaPipelineOperator):
    """
    Pins the run's window: resolves its two instants to offsets, once, and writes the manifest.

    The window comes from ``start`` and ``end``, else from the run's partition date, else from its data interval. Both
    instants are shared with the neighbouring windows, so that windows tile in whatever order they run; a rerun returns
    the same manifest.

    :param start: explicit start, inclusive, ISO-8601 with a zone. (templated)
    :param end: explicit end, exclusive. (templated)

    The other arguments are those of :class:`~airflow_kafka_offsets.operators.base.KafkaPipelineOperator`.

    XCom: see :class:`~airflow_kafka_offsets.hooks.window_ref.WindowRef`.
    """

    template_fields: Sequence[str] = (*KafkaPipelineOperator.template_fields, "start", "end")

    def __init__(
        self, *, start: str | datetime | None = None, end: str | datetime | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        """Resolve and pin."""
        interval = run_interval(context, self.start, self.end)
        with self.resolver() as resolver:
            resolved = resolver.window(interval.start_ms, interval.end_ms)
        self._log(resolved.pinned)
        for remark in resolved.remarks:
            self.log.warning(remark)
        return WindowRef.of(ledger_root(self.ledger_root), resolved.pinned).to_json()

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
