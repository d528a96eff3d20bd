"""Prove a window: read = written = log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_kafka_offsets.errors import LedgerCorruptError, UnprovenError
from airflow_kafka_offsets.hooks.window_ref import WindowRef
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.tiling import Tiling, check_tiling
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.audit import RunResult, judge
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.window_names import live_revisions, window_extent
from airflow_kafka_offsets.offsets.windows import seams
from airflow_kafka_offsets.operators.base import failing_fast
from airflow_kafka_offsets.operators.outlets import SeenWindow, TellsLineage, note_outlets

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaVerifyWindowOperator(TellsLineage, BaseOperator):
    """
    Checks the published attempt of a window against the manifest, and the manifest against its neighbours.

    Three claims: what was read fits the manifest, what was written is what was read, and the window meets the windows
    before and after it without gap or overlap. The verdict is recorded in the ledger.

    Offsets without a record pass where the load was told to ``allow_gaps``, and on compacted topics.

    :param window: what ``KafkaResolveWindowOperator`` returned. (templated)

    XCom: ``{"window", "attempt", "output", "offsets", "lost", "read", "written", "gaps", "outside_window", "verdict",
    "tiling"}``.
    """

    template_fields: Sequence[str] = ("window",)
    ui_color = "#e8f4e0"

    def __init__(self, *, window: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window = window

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        """Judge, record, and fail unless proved."""
        ref = WindowRef.from_json(self.window)
        ledger = ref.ledger()
        folder, pinned = ref.published(ledger)
        manifest = pinned.manifest
        result = _published_result(folder)
        verdict = judge(manifest, result)
        tiling = _tiling_around(ledger, manifest)
        self.seen = SeenWindow(pinned, output=result.output, verdict=verdict, tiling=tiling)
        if not verdict.proved or not tiling.tiles:
            raise UnprovenError(f"Window {ref.window} isn't proved: {'; '.join((str(verdict), *tiling.problems))}.")
        folder.record_verified(result.attempt, verdict)
        ledger.keep_day(folder.id)
        outside = result.read.outside_window if manifest.timed else None
        self.log.info(
            "Window %s: %s, %s rows; %s; rows with a timestamp outside it: %s",
            ref.window,
            verdict,
            result.rows_written,
            _describe(tiling),
            outside,
        )
        report = {
            "window": ref.window,
            "attempt": result.attempt,
            "output": result.output,
            "offsets": manifest.span,
            "lost": manifest.lost_offsets,
            "read": result.read.count,
            "written": result.rows_written,
            "gaps": verdict.gaps,
            "outside_window": outside,
            "verdict": str(verdict),
            "tiling": _describe(tiling),
        }
        note_outlets(self, context, WindowRef.of(ref.ledger_root, pinned), report)
        return report


def _describe(tiling: Tiling) -> str:
    """A window alone proves nothing of how it meets others."""
    return "tiles" if tiling.windows > 1 else "no neighbour yet"


def _published_result(folder: WindowFolder) -> RunResult:
    published = folder.publication()
    assert published is not None, "it was chosen for that"
    result = folder.result(published.attempt)
    if result is None:
        raise LedgerCorruptError(f"Window {folder.id} is published by {published.attempt}, whose result is missing.")
    return result


def _tiling_around(ledger: Ledger, manifest: Manifest) -> Tiling:
    """The window among the published ones that touch or cross it in time. One that isn't loaded yet is no gap."""
    near = [manifest]
    for window in live_revisions(ledger.window_folders.names()):
        start_ms, end_ms = window_extent(window)
        touches = start_ms <= manifest.end_ms and end_ms >= manifest.start_ms
        other = ledger.window_folders.published(window) if touches and window != manifest.window else None
        if other is not None:
            near.append(ledger.pinned(other.id, other.revision).manifest)
    return check_tiling(near, lambda earlier, later: seams([earlier.ranges, later.ranges]))
