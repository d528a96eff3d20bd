"""What a task leaves of its window for others: the events of its outlet assets, and what lineage is made of.

An event carries the reference to the window and the task's totals: ``window=`` of a task in a Dag that is scheduled on
the asset takes it, and so reads the same offsets. Airflow itself gives the events of a run its partition key.
OpenLineage is told by :mod:`~airflow_kafka_offsets.lineage.openlineage_facets`, the only module that imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.asset import AssetRef

from airflow_kafka_offsets.lineage.links import WindowLink
from airflow_kafka_offsets.lineage.seen_window import SeenWindow
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.references.window_ref import WindowRef

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context


def note_outlets(task: BaseOperator, context: Context, ref: WindowRef, totals: dict[str, Any]) -> None:
    """Give the event of each outlet asset the window's reference and the task's totals as ``extra``.

    Its ``start`` and ``end`` are the window's instants, ISO-8601, which bound what ``read_published`` reads. An alias
    names no asset, so it gets none.
    """
    start_ms, end_ms = window_extent(ref.window)
    extent = {"start": iso_instant(start_ms), "end": iso_instant(end_ms)}
    for outlet in task.outlets:
        if isinstance(outlet, Asset | AssetRef):
            context["outlet_events"][outlet].extra |= totals | extent | ref.to_json()


class TellsLineage:
    """Mixin of an operator that sets :attr:`seen`: the link to the window leads there, and OpenLineage, where it is
    installed, is told of it.

    Of a failed task it is told what had been seen by then.
    """

    operator_extra_links: Any = (WindowLink(),)
    seen: SeenWindow

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Topics with their ranges, output and proof. Only OpenLineage's listener calls this."""
        from airflow_kafka_offsets.lineage.openlineage_facets import lineage_of

        return lineage_of(getattr(self, "seen", None))
