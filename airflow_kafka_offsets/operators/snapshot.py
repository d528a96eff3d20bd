"""Store an offset snapshot: one offset per partition, as of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.arguments import as_name
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.leftovers import telling_leftovers
from airflow_kafka_offsets.offsets.instants import given_instant
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, snapshot_warnings
from airflow_kafka_offsets.operators.pipeline_operator import KafkaPipelineOperator, failing_fast
from airflow_kafka_offsets.references.snapshot_ref import SnapshotRef

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaOffsetSnapshotOperator(KafkaPipelineOperator):
    """
    Stores an offset snapshot in the pipeline's ledger.

    An instant is resolved once: another run for it returns the stored snapshot. ``latest``, ``earliest`` and a group's
    commits give a new snapshot each time.

    :param at: ``latest`` (default), ``earliest``, or an instant in ISO-8601 with a time zone. (templated)
    :param group: snapshot this group's committed offsets instead. (templated)

    The other arguments are those of :class:`~airflow_kafka_offsets.operators.pipeline_operator.KafkaPipelineOperator`.

    XCom: ``{"version": 1, "ledger": "<uri>", "ledger_id": "...", "snapshot": 42, "as_of": "...", "resolved_at": "...",
    "partitions": 6}``.
    """

    template_fields: Sequence[str] = (*KafkaPipelineOperator.template_fields, "at", "group")

    def __init__(self, *, at: str | datetime = "latest", group: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at = at
        self.group = group

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        with self.maker() as maker, telling_leftovers(maker.ledger):
            snapshot = maker.snapshot(self._as_of())
        for remark in snapshot_warnings(snapshot):
            self.log.warning(remark)
        self.log.info("Snapshot %s as of %s: %s partitions", snapshot.number, snapshot.as_of, len(snapshot.boundaries))
        return SnapshotRef.of(maker.ledger, snapshot).to_json()

    def _as_of(self) -> AsOf:
        if self.group is None:
            return as_of(self.at)
        if self.at != AsOfKind.LATEST:
            raise ConfigurationError(
                "A snapshot is taken as of a group's commits or as of an instant: drop group= or at=."
            )
        return AsOf(AsOfKind.GROUP, group=as_name(self.group, "group"))


def as_of(moment: str | datetime) -> AsOf:
    """``latest``, ``earliest`` or an instant, as the moment of a snapshot.

    :raises InstantError: when it is none of them.
    """
    if moment in (AsOfKind.LATEST, AsOfKind.EARLIEST):
        return AsOf(AsOfKind(str(moment)))
    return AsOf(AsOfKind.INSTANT, given_instant(moment))
