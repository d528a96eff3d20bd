"""Forecast which records retention will delete before they are loaded, and when."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator

from airflow_kafka_offsets.arguments import as_milliseconds, check_choice
from airflow_kafka_offsets.errors import OffsetsError, shorten
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.metrics import tell
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline, OfPipeline, as_pipeline
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import duration_text, now_ms
from airflow_kafka_offsets.offsets.measures import Measure
from airflow_kafka_offsets.offsets.windows.policies import UnknownPolicy
from airflow_kafka_offsets.offsets.windows.retention import WindowForecast
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast
from airflow_kafka_offsets.pipelines.backlog import REST, Backlog, last_end

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaRetentionWatchOperator(OfPipeline, BaseOperator):
    """
    Forecasts which records Kafka's retention by time will delete before they are loaded. Of topics that limit the size
    of their logs too (``retention.bytes``), it only warns that they do.

    Covers the windows that are pinned but not published, the holes between windows, from the first one that is known
    on, and the backlog from the last window's end (without windows: from the first increment's start, or the newest
    snapshot) to the end of the log. The topics are those that the ledger records for the pipeline.

    :param pipeline: the :class:`~airflow_kafka_offsets.kafka_pipeline.KafkaPipeline`; it need not name its topics.
        (templated)
    :param fail_within: fail the task when records are already deleted, or may be within this time; a timedelta or
        seconds. None never fails it.
    :param on_unknown: with ``fail_within``, what to do when nobody can tell when some records are deleted, and somebody
        has to do something about that, such as grant an ACL or install a codec: ``fail`` (default), or ``warn``.

    XCom: ``{"windows": [{"window", "loses_at", "topic", "partition", "offsets", "lost", "unknown"}, ...]}``, windows
    that have lost records first, then by next loss. ``loses_at`` (ISO-8601, None when no limit is known to apply),
    ``topic`` and ``partition`` describe the next loss; ``offsets`` and ``lost`` are totals of the window, and
    ``unknown`` counts its partitions that may lose records at an unknown time.
    """

    template_fields: Sequence[str] = ("pipeline",)
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        pipeline: KafkaPipeline,
        fail_within: timedelta | float | None = None,
        on_unknown: UnknownPolicy = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = as_pipeline(pipeline)
        self.fail_within = fail_within
        self.on_unknown = on_unknown
        as_milliseconds(fail_within, "fail_within")
        check_choice("on_unknown", on_unknown, *get_args(UnknownPolicy))

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        fail_within_ms = as_milliseconds(self.fail_within, "fail_within")
        ledger = self.pipeline.existing_ledger()
        forecasts = sorted(self._forecasts(ledger), key=lambda forecast: forecast.urgency)
        for forecast in forecasts:
            level = logging.WARNING if any(forecast.unforeseen()) else logging.INFO
            self.log.log(level, "Not loaded: %s", forecast)
        tell(_measures(self.pipeline.name, forecasts))
        if fail_within_ms is not None:
            _refuse_loss(forecasts, fail_within_ms)
            if self.on_unknown == "fail":
                _refuse_unknown(forecasts)
        return {"windows": [forecast.to_json() for forecast in forecasts]}

    def _forecasts(self, ledger: Ledger) -> list[WindowForecast]:
        end = last_end(ledger)
        if end is None:
            self.log.warning("%s has no window, and no snapshot to start one at: nothing to watch", ledger.uri)
            return []
        with KafkaOffsetsHook(self.pipeline.kafka_conn_id).get_conn() as client:
            backlog = Backlog(client, ledger, end)
            for topic, size_bytes in sorted(backlog.size_limits().items()):
                self.log.warning(
                    "Topic %s keeps at most %s bytes per partition (retention.bytes): Kafka may delete records earlier "
                    "than is told here",
                    topic,
                    size_bytes,
                )
            return backlog.forecasts()


def _measures(pipeline: str, forecasts: Sequence[WindowForecast]) -> Iterator[Measure]:
    """How many windows aren't loaded, and how long until retention deletes some records that aren't. The offsets after
    the last window are in no window yet: a live topic always has some."""
    tags = {"pipeline": pipeline}
    yield Measure("windows_behind", sum(forecast.window != REST for forecast in forecasts), tags)
    known = [forecast.ranges[0].loses_at_ms for forecast in forecasts]
    if any(forecast.lost for forecast in forecasts):
        yield Measure("retention_headroom", 0, tags)
    elif losses := [loses_at_ms for loses_at_ms in known if loses_at_ms is not None]:
        yield Measure("retention_headroom", max(0, min(losses) - now_ms()) / 1000, tags)


def _refuse_loss(forecasts: Sequence[WindowForecast], within_ms: int) -> None:
    losing = [forecast for forecast in forecasts if forecast.loses_by(now_ms() + within_ms)]
    if losing:
        first = shorten(f"{forecast.window} on {forecast.ranges[0]}" for forecast in losing)
        raise AirflowFailException(
            f"{len(losing)} of {len(forecasts)} windows that aren't loaded have lost records, or may lose "
            f"some within {duration_text(within_ms / 1000)}: {first}. Load them now, or raise retention.ms of the "
            "topic until they are loaded."
        )


def _refuse_unknown(forecasts: Sequence[WindowForecast]) -> None:
    """Refuse what can't be foreseen: a watch that can't see would never alert.

    :raises OffsetsError: when Kafka's errors, which may pass, are all that is in the way.
    """
    found = [(forecast.window, *each) for forecast in forecasts for each in forecast.unforeseen()]
    if not found:
        return
    errors = [(partition, unknown.error) for _, partition, unknown in found if unknown.error is not None]
    if len(errors) == len(found) and all(error.may_pass for _, error in errors):
        raise OffsetsError("Foreseeing when retention deletes records that aren't loaded", errors)
    windows = dict.fromkeys(window for window, _, _ in found)
    first = shorten(dict.fromkeys(f"{partition} ({unknown})" for _, partition, unknown in found))
    raise AirflowFailException(
        f"Nobody can tell when retention deletes records of {len(windows)} of {len(forecasts)} windows that aren't "
        f"loaded: {first}. Give this task what it needs to tell, or set on_unknown='warn'."
    )
