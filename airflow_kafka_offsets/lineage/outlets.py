"""Outlets: assets that a task updates are told which window it has loaded."""

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
