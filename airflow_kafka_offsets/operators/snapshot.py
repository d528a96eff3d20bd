"""Store an offset snapshot: one offset per partition, as of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import as_name, constant
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.instants import given_instant
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, snapshot_warnings
from airflow_kafka_offsets.operators.pipeline_operator import KafkaPipelineOperator, failing_fast
from airflow_kafka_offsets.pipelines.resolver import Resolver
from airflow_kafka_offsets.references.snapshot_ref import SnapshotRef

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaOffsetSnapshotOperator(KafkaPipelineOperator):
    """
    Stores an offset snapshot in the pipeline's ledger.

    An instant is resolved once: another run for it returns the stored snapshot. ``latest``, ``earliest`` and a group's
    commits give a new snapshot each time. Windows can start and end at an instant or at ``latest``; the other two have
    no place in time, and are targets to wait for.

    :param at: ``latest`` (default), ``earliest``, or an instant in ISO-8601 with a time zone. (templated)
    :param group: snapshot this group's committed offsets instead. (templated)

    The other arguments are those of :class:`~airflow_kafka_offsets.operators.pipeline_operator.KafkaPipelineOperator`.

    XCom: see :class:`~airflow_kafka_offsets.references.snapshot_ref.SnapshotRef`.
    """

    template_fields: Sequence[str] = (*KafkaPipelineOperator.template_fields, "at", "group")

    def __init__(self, *, at: str | datetime = "latest", group: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at = at
        self.group = group
        _as_of(constant(at, "latest"), constant(group, "group"))

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        with self.pipeline.resolver(self.on_future_record) as resolver:
            ref = _stored(resolver, _as_of(self.at, self.group))
        snapshot = resolver.ledger.contents.snapshot(ref.snapshot)
        for remark in snapshot_warnings(snapshot):
            self.log.warning(remark)
        self.log.info("Snapshot as of %s: %s partitions (%s)", snapshot.as_of, ref.partitions, ref.snapshot)
        return ref.to_json()


def _as_of(at: str | datetime, group: str | None) -> AsOf:
    if group is None:
        return as_of(at)
    if at != AsOfKind.LATEST:
        raise ConfigurationError("A snapshot is taken as of a group's commits or as of an instant: drop group= or at=.")
    return AsOf(AsOfKind.GROUP, group=as_name(group, "group"))


def _stored(resolver: Resolver, moment: AsOf) -> SnapshotRef:
    if moment.kind in (AsOfKind.EARLIEST, AsOfKind.GROUP):
        return SnapshotRef.of(resolver.ledger, resolver.target(moment), None)
    stored = resolver.snapshot(moment)
    return SnapshotRef.of(resolver.ledger, stored.offsets, stored.at_ms)


def as_of(moment: str | datetime) -> AsOf:
    """``latest``, ``earliest`` or an instant, as the moment of a snapshot.

    :raises InstantError: when it is none of them.
    """
    if moment in (AsOfKind.LATEST, AsOfKind.EARLIEST):
        return AsOf(AsOfKind(str(moment)))
    return AsOf(AsOfKind.INSTANT, given_instant(moment))
