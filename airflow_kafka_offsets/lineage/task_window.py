"""What a task knows of its window, and tells: to its link, to OpenLineage, and to the events of its outlet assets."""

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
class TaskWindow:
    """What a task knows of its window. Kept on the task, because OpenLineage asks in a fork without connections.

    :param pinned: the window.
    :param bootstrap_servers: brokers of its topics; empty when the task doesn't ask Kafka.
    :param output: folder with its published rows; None until they are published, and for an empty window.
    :param rows: number of published rows.
    :param further: a job's other outputs.
    :param verdict: the verdict on the rows; None when they weren't checked.
    :param tiling: how the window meets its neighbours; None when that wasn't checked.
    """

    pinned: PinnedManifest
    bootstrap_servers: tuple[str, ...] = ()
    output: str | None = None
    rows: int | None = None
    further: tuple[FurtherOutput, ...] = ()
    verdict: Verdict | None = None
    tiling: Tiling | None = None


class TellsLineage:
    """Mixin for operators that set :attr:`seen`: the link leads to that window, and OpenLineage, if installed, receives
    it. A failed task reports what it had seen until it failed."""

    operator_extra_links: Any = (WindowLink(),)
    seen: TaskWindow

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """The topics with their ranges, the output and the proof. Only OpenLineage's listener calls this."""
        from airflow_kafka_offsets.lineage.openlineage_facets import lineage_of

        return lineage_of(getattr(self, "seen", None))


def note_outlets(task: BaseOperator, context: Context, ref: WindowRef, totals: dict[str, Any]) -> None:
    """Add the window's reference and the task's totals to each outlet asset's event, as ``extra``. In a Dag that is
    scheduled on the asset, a task's ``window=`` takes it, and so reads the same offsets.

    ``start`` and ``end`` are the window's instants, ISO-8601, the bounds for ``read_published``. Aliases are skipped,
    because they name no asset.
    """
    start_ms, end_ms = window_extent(ref.window)
    extent = {"start": iso_instant(start_ms), "end": iso_instant(end_ms)}
    for outlet in task.outlets:
        if isinstance(outlet, Asset | AssetRef):
            context["outlet_events"][outlet].extra |= totals | extent | ref.to_json()
