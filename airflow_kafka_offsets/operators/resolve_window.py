"""Resolve the run's interval to exact offsets, kept in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.operators.pipeline_operator import KafkaResolvingOperator
from airflow_kafka_offsets.pipelines.record_counts import count_records
from airflow_kafka_offsets.pipelines.resolver import ResolvedWindow, Resolver
from airflow_kafka_offsets.references.snapshot_ref import SnapshotRef
from airflow_kafka_offsets.runs.interval import RunInterval, check_interval, run_interval
from airflow_kafka_offsets.runs.pieces import pieces_of, zone_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaResolveWindowOperator(KafkaResolvingOperator):
    """
    Pins the run's window: resolves its two instants to offsets, once, and writes the manifest.

    The window comes from ``start`` and ``end``, else from the run's partition date, else from its data interval.
    Neighbouring windows share their instants, so that windows tile in any order of runs; a rerun returns the same
    manifest. Windows of a pipeline never cross in time.

    :param start: explicit start, inclusive, ISO-8601 with a time zone; or what ``KafkaOffsetSnapshotOperator`` returned
        (its ``.output``) for an instant or ``latest``, for a window between two snapshots of the pipeline. (templated)
    :param end: explicit end, exclusive; an instant or a snapshot, like ``start``. (templated)
    :param split: the length of windows to split the interval into, such as ``timedelta(hours=1)``; a day must have a
        whole number of them. They start at multiples of it since midnight, in the time zone of the Dag's schedule: a
        day on which clocks change has 23 or 25 hours. All are pinned by one commit. None (default) pins one window.

    :param count_records: also count which offsets have a record, and keep that in the ledger: then tables can be
        audited after Kafka has deleted the records. Reads all bytes of the window.

    The other arguments are those of :class:`~airflow_kafka_offsets.operators.pipeline_operator.KafkaPipelineOperator`.

    XCom: see :class:`~airflow_kafka_offsets.references.window_ref.WindowRef`; with ``split``, a list of them, in order
    of time.
    """

    template_fields: Sequence[str] = (*KafkaResolvingOperator.template_fields, "start", "end")

    def __init__(
        self,
        *,
        start: str | datetime | Mapping[str, Any] | None = None,
        end: str | datetime | Mapping[str, Any] | None = None,
        split: timedelta | None = None,
        count_records: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self.split = split
        self.count_records = count_records
        check_interval(start, end)

    def resolve(self, resolver: Resolver, context: Context) -> ResolvedWindow | list[ResolvedWindow]:
        """Pin the window between the run's two instants, or between the two snapshots; or the windows in between."""
        if isinstance(self.start, Mapping) or isinstance(self.end, Mapping):
            ledger = resolver.ledger
            interval = RunInterval(_place(ledger, "start", self.start), _place(ledger, "end", self.end))
        else:
            interval = run_interval(context, self.start, self.end)
        if self.split is None:
            (resolved,) = resolver.windows([(interval.start_ms, interval.end_ms)])
            self._count([resolved], resolver)
            return resolved
        pieces = resolver.windows(pieces_of(interval, self.split, zone_of(context.get("dag"))))
        self._count(pieces, resolver)
        return pieces

    def _count(self, windows: Sequence[ResolvedWindow], resolver: Resolver) -> None:
        if self.count_records:
            for each in windows:
                count_records(resolver.client, resolver.ledger, each.pinned)


def _place(ledger: Ledger, argument: str, snapshot: Any) -> int:
    """The place in time of a snapshot that another task stored."""
    ref = SnapshotRef.from_json(snapshot)
    if ref is not None and ref.ledger == ledger.uri and ref.at_ms is not None:
        ref.read(ledger)
        return ref.at_ms
    if ref is None:
        found = repr(snapshot)
    elif ref.at_ms is None:
        found = f"a snapshot as of {ref.as_of}, which has no place in time"
    else:
        found = f"a snapshot of {ref.ledger}"
    raise ConfigurationError(
        f"{argument}= is {found}. For a window between snapshots, start= and end= must both be what "
        f"KafkaOffsetSnapshotOperator returned, as of an instant or latest, for the pipeline at {ledger.uri}."
    )
