"""Outlets: the events of the assets that a task updates carry its window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.asset import AssetRef

from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.references.window_ref import WindowRef

if TYPE_CHECKING:
    from airflow.sdk import Context


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
