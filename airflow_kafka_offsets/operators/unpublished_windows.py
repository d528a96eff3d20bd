"""Find the windows of a pipeline that are pinned and not published."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_kafka_offsets.arguments import check_count
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline, OfPipeline, as_pipeline
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.instants import given_instant
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast
from airflow_kafka_offsets.references.window_ref import WindowRef

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaUnpublishedWindowsOperator(OfPipeline, BaseOperator):
    """
    Returns the windows of a pipeline that are pinned and not published, or are to be loaded again, in order of time:
    the oldest ones, for one Spark run. Asks only the ledger.

    A window that another task is loading right now is among them. To load it twice at the same time costs time, and
    loses or doubles nothing.

    :param pipeline: the :class:`~airflow_kafka_offsets.kafka_pipeline.KafkaPipeline`. (templated)
    :param start: only windows that start then or later: ISO-8601 with a time zone. None for no bound. (templated)
    :param end: only windows that end then or earlier. (templated)
    :param most: at most so many.

    XCom: a list of what ``KafkaResolveWindowOperator`` returns; empty if there are none.
    """

    template_fields: Sequence[str] = ("pipeline", "start", "end")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        pipeline: KafkaPipeline,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        most: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = as_pipeline(pipeline)
        self.start = start
        self.end = end
        self.most = most

    @failing_fast()
    def execute(self, context: Context) -> list[dict[str, Any]]:
        check_count(self.most, "most", least=1)
        start_ms = given_instant(self.start) if self.start else None
        end_ms = given_instant(self.end) if self.end else None
        ledger = self.pipeline.existing_ledger()
        found = [
            window
            for window in ledger.state.windows.values()
            if window.loaded is None
            and (start_ms is None or window.start_ms >= start_ms)
            and (end_ms is None or window.end_ms <= end_ms)
        ]
        self.log.info("%s windows of %s aren't published", len(found), ledger.pipeline)
        return in_parallel(
            lambda window: WindowRef.of(self.pipeline, ledger.pinned(window), window.number).to_json(),
            found[: self.most],
        )
