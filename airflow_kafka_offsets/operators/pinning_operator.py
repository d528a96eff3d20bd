"""What the operators that pin a window have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import one_of
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.ledger import ledger_root
from airflow_kafka_offsets.ledger.holes import telling_leftovers
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.lineage.asset_events import TellsLineage, note_outlets
from airflow_kafka_offsets.lineage.seen_window import SeenWindow
from airflow_kafka_offsets.offsets.instants import given_instant
from airflow_kafka_offsets.operators.pipeline_operator import KafkaPipelineOperator, failing_fast
from airflow_kafka_offsets.pipelines.window_pinner import Policies, ResolvedWindow, WindowPinner
from airflow_kafka_offsets.references.window_ref import WindowRef

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_offsets.ledger.pinning import OverlapPolicy
    from airflow_kafka_offsets.offsets.windows.ranges import DataLossPolicy


class KafkaResolvingOperator(TellsLineage, KafkaPipelineOperator):
    """
    Base of the operators that pin a window and hand on a reference to it.

    :param on_data_loss: what to do when records of the window are gone already: ``fail`` (default), naming exact
        counts, or ``load_rest``, which pins the rest and writes the loss into the manifest.
    :param on_overlap: what to do when another window of the pipeline, pinned or published, has some of the window's
        offsets: ``fail`` (default), naming it, or ``allow``. Their common records are then loaded by both, and verify
        fails on both.
    :param new_topics_from: where a topic begins that is added to the pipeline: at an instant in ISO-8601 with a zone,
        or, by default, at its log start. (templated)

    The other arguments are those of :class:`~airflow_kafka_offsets.operators.pipeline_operator.KafkaPipelineOperator`.
    """

    template_fields: Sequence[str] = (*KafkaPipelineOperator.template_fields, "new_topics_from")

    def __init__(
        self,
        *,
        on_data_loss: DataLossPolicy = "fail",
        on_overlap: OverlapPolicy = "fail",
        new_topics_from: str | datetime | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.on_data_loss = on_data_loss
        self.on_overlap = on_overlap
        self.new_topics_from = new_topics_from

    @abstractmethod
    def resolve(self, pinner: WindowPinner, context: Context) -> ResolvedWindow:
        """Pin the run's window."""

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        """Resolve and pin."""
        with self.pinner() as pinner, telling_leftovers(self.ledger()):
            resolved = self.resolve(pinner, context)
        self._log(resolved.pinned)
        for warning in resolved.warnings:
            self.log.warning(warning)
        ref = WindowRef.of(ledger_root(self.ledger_root), resolved.pinned)
        note_outlets(self, context, ref, {})
        self.seen = SeenWindow(resolved.pinned, KafkaOffsetsHook(self.kafka_conn_id).settings().bootstrap_servers)
        return ref.to_json()

    def policies(self) -> Policies:
        """What to do about what a log may have in store."""
        one_of("on_data_loss", self.on_data_loss, "fail", "load_rest")
        one_of("on_overlap", self.on_overlap, "fail", "allow")
        return replace(
            super().policies(),
            on_data_loss=self.on_data_loss,
            on_overlap=self.on_overlap,
            new_topics_from_ms=given_instant(self.new_topics_from) if self.new_topics_from else None,
        )

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
