"""What a task knows of its window, and tells: to its link, to OpenLineage, and to the events of its outlet assets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.asset import AssetRef

from airflow_kafka_offsets.ledger.entries import Output
from airflow_kafka_offsets.ledger.ledger import PinnedManifest
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.proof.audit import Verdict
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.references.window_ref import WindowRef

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True, slots=True)
class TaskWindow:
    """What a task knows of its window. Kept on the task, because OpenLineage asks in a fork without connections.

    :param pinned: the window.
    :param bootstrap_servers: brokers of its topics; empty when the task doesn't ask Kafka.
    :param outputs: where its published rows are; empty until they are published.
    :param verdict: the verdict on the rows; None when they weren't checked.
    :param holes: the holes before the window, in words, if the task looked for them.
    """

    pinned: PinnedManifest
    bootstrap_servers: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    verdict: Verdict | None = None
    holes: tuple[str, ...] = ()


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
