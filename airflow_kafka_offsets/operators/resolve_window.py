"""Resolve the run's interval to exact offsets, kept in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from airflow_kafka_offsets.operators.pipeline_operator import KafkaResolvingOperator
from airflow_kafka_offsets.pipelines.window_pinner import ResolvedWindow, WindowPinner
from airflow_kafka_offsets.references.snapshot_ref import SnapshotRef
from airflow_kafka_offsets.runs.interval import run_interval

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaResolveWindowOperator(KafkaResolvingOperator):
    """
    Pins the run's window: resolves its two instants to offsets, once, and writes the manifest.

    The window comes from ``start`` and ``end``, else from the run's partition date, else from its data interval.
    Neighbouring windows share their instants, so that windows tile in any order of runs; a rerun returns the same
    manifest.

    :param start: explicit start, inclusive, ISO-8601 with a time zone; or what ``KafkaOffsetSnapshotOperator`` returned
        (its ``.output``), for a window between any two snapshots of the pipeline. (templated)
    :param end: explicit end, exclusive; an instant or a snapshot, like ``start``. (templated)
    :param re_resolve: resolve the two instants again, as the window's next revision. Instants shared with another
        window stay as they are. (templated: ``"{{ dag_run.conf.get('re_resolve', '') }}"``)

    The other arguments are those of :class:`~airflow_kafka_offsets.operators.pipeline_operator.KafkaResolvingOperator`.

    XCom: see :class:`~airflow_kafka_offsets.references.window_ref.WindowRef`.
    """

    template_fields: Sequence[str] = (*KafkaResolvingOperator.template_fields, "start", "end", "re_resolve")

    def __init__(
        self,
        *,
        start: str | datetime | Mapping[str, Any] | None = None,
        end: str | datetime | Mapping[str, Any] | None = None,
        re_resolve: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self.re_resolve = re_resolve

    def resolve(self, pinner: WindowPinner, context: Context) -> ResolvedWindow:
        """Pin the window between the run's two instants, or between the two snapshots."""
        again = str(self.re_resolve).lower() in ("true", "1", "yes")
        if isinstance(self.start, Mapping) or isinstance(self.end, Mapping):
            if again:
                raise ConfigurationError(
                    "re_resolve= works only for windows between two instants, not between snapshots."
                )
            return pinner.pin_between(
                _stored(pinner.ledger, "start", self.start), _stored(pinner.ledger, "end", self.end)
            )
        interval = run_interval(context, self.start, self.end)
        if again:
            (resolved,) = pinner.re_resolve((interval.start_ms, interval.end_ms))
            return resolved
        return pinner.pin(interval.start_ms, interval.end_ms)


def _stored(ledger: Ledger, argument: str, snapshot: Any) -> OffsetSnapshot:
    """The snapshot that another task stored."""
    ref = SnapshotRef.from_json(snapshot)
    if ref is not None and ref.ledger == ledger.uri:
        return ref.read(ledger)
    found = repr(snapshot) if ref is None else f"a snapshot of {ref.ledger}"
    raise ConfigurationError(
        f"{argument}= is {found}. For a window between snapshots, start= and end= must both be what "
        f"KafkaOffsetSnapshotOperator returned for the pipeline at {ledger.uri}."
    )
