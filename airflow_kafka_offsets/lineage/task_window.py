"""What a task knows of its windows, and tells: to its link, to OpenLineage, and to the events of its outlet assets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.definitions.asset import AssetRef

from airflow_kafka_offsets.ledger.entries import Output
from airflow_kafka_offsets.ledger.ledger import PinnedManifest
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.proof.audit import Verdict
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.references import WindowRef, WindowRefs

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True, slots=True)
class TaskWindow:
    """What a task knows of one of its windows. Kept on the task, because OpenLineage asks in a fork without
    connections; short, as there may be a thousand.

    :param uri: URI of its manifest.
    :param sha256: the manifest's hash.
    :param pipeline: its pipeline's name.
    :param window: its own name.
    :param topics: those that it is of.
    :param bootstrap_servers: brokers of its topics; empty when the task doesn't ask Kafka.
    :param outputs: where its published rows are; empty until they are published.
    :param verdict: the verdict on the rows; None when they weren't checked.
    :param holes: the holes before the window, in words, if the task looked for them.
    """

    uri: str
    sha256: str
    pipeline: str
    window: str
    topics: tuple[str, ...]
    bootstrap_servers: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    verdict: Verdict | None = None
    holes: tuple[str, ...] = ()

    @classmethod
    def of(cls, pinned: PinnedManifest, **known: Any) -> Self:
        """What is known of a window with a manifest.

        :param known: the other fields.
        """
        manifest = pinned.manifest
        return cls(
            pinned.uri, pinned.sha256, manifest.pipeline, manifest.window, tuple(sorted(manifest.topics)), **known
        )


def note_outlets(task: BaseOperator, context: Context, refs: WindowRefs, totals: Sequence[Mapping[str, Any]]) -> None:
    """Add the window's reference and the task's totals to each outlet asset's event, as ``extra``. In a Dag that is
    scheduled on the asset, a task's ``window=`` takes it, and so reads the same offsets. Of a list of windows, they are
    the list ``windows`` in it.

    ``start`` and ``end`` are the window's instants, ISO-8601, the bounds for ``read_published``; with a list, those of
    all its windows too. Aliases are skipped, because they name no asset.

    :param totals: the task's totals of each window.
    """
    each = [dict(own) | _extent([ref]) | ref.to_json() for own, ref in zip(totals, refs.refs, strict=True)]
    extra: Any = {"windows": each} | _extent(refs.refs) if refs.is_list else each[0]
    for outlet in task.outlets:
        if isinstance(outlet, Asset | AssetRef):
            context["outlet_events"][outlet].extra |= extra


def _extent(refs: Sequence[WindowRef]) -> dict[str, str]:
    """From when to when windows go."""
    extents = [window_extent(ref.window) for ref in refs]
    start_ms, end_ms = min(start for start, _ in extents), max(end for _, end in extents)
    return {"start": iso_instant(start_ms), "end": iso_instant(end_ms)}
