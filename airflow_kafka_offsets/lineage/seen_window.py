"""The window as a task has seen it, and who is told: its links, its outlet assets, and OpenLineage, by
:mod:`~airflow_kafka_offsets.lineage.openlineage_facets`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.asset import AssetRef

from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.lineage.links import WindowLink
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.proof.audit import Verdict
from airflow_kafka_offsets.offsets.proof.publication import FurtherOutput
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.offsets.windows.tiling import Tiling
from airflow_kafka_offsets.references.window_ref import WindowRef

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context


@dataclass(frozen=True, slots=True)
class SeenWindow:
    """What a task knows of its window so far. It is kept because OpenLineage asks in a fork, without connections.

    :param pinned: the window.
    :param bootstrap_servers: brokers of its topics; empty where the task asks none.
    :param output: folder with its published rows; None before they are, and for an empty window.
    :param rows: how many they are.
    :param further: a job's other outputs.
    :param verdict: what was found of them; None where nobody judged.
    :param tiling: how the window meets its neighbours; None where nobody looked.
    """

    pinned: PinnedManifest
    bootstrap_servers: tuple[str, ...] = ()
    output: str | None = None
    rows: int | None = None
    further: tuple[FurtherOutput, ...] = ()
    verdict: Verdict | None = None
    tiling: Tiling | None = None


class TellsLineage:
    """Mixin of an operator that sets :attr:`seen`: the link to the window leads there, and OpenLineage, where it is
    installed, is told of it. Of a failed task it is told what had been seen by then."""

    operator_extra_links: Any = (WindowLink(),)
    seen: SeenWindow

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Topics with their ranges, output and proof. Only OpenLineage's listener calls this."""
        from airflow_kafka_offsets.lineage.openlineage_facets import lineage_of

        return lineage_of(getattr(self, "seen", None))


def note_outlets(task: BaseOperator, context: Context, ref: WindowRef, totals: dict[str, Any]) -> None:
    """Give the event of each outlet asset the window's reference and the task's totals as ``extra``: ``window=`` of a
    task in a Dag that is scheduled on the asset takes it, and so reads the same offsets.

    Its ``start`` and ``end`` are the window's instants, ISO-8601, which bound what ``read_published`` reads. An alias
    names no asset, so it gets none.
    """
    start_ms, end_ms = window_extent(ref.window)
    extent = {"start": iso_instant(start_ms), "end": iso_instant(end_ms)}
    for outlet in task.outlets:
        if isinstance(outlet, Asset | AssetRef):
            context["outlet_events"][outlet].extra |= totals | extent | ref.to_json()
