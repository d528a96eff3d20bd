"""Ledgers with manifests made by hand, for tests of what Spark does with them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from upath import UPath

from airflow_kafka_offsets.ledger import corrections, load_decisions
from airflow_kafka_offsets.ledger.entries import AnyEntry, Attempted, Created, Pinned, Snapshotted
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.manifest import Manifest

NO_SNAPSHOT = "0" * 64
"""Where a snapshot's offsets would be: these ledgers have none."""


def ledger_in(folder: Path) -> Ledger:
    """The ledger in a pipeline's folder, as another process would see it."""
    return Ledger(UPath(folder.parent), folder.name)


def pin(ledger: Ledger, manifest: Manifest) -> Window:
    """Have a ledger that has the manifest's identity pin its window. A window of other offsets is voided before."""
    sha256 = ledger.contents.add_manifest(manifest)

    def pinned(state: State) -> tuple[AnyEntry, ...]:
        made: list[AnyEntry] = []
        if state.created is None:
            told = manifest.cluster_id, str(manifest.isolation_level), tuple(sorted(manifest.topics))
            made.append(Created(manifest.ledger_id, manifest.pipeline, *told))
        found = state.windows.get(manifest.window)
        if found is not None and found.manifest == sha256:
            return ()
        if found is not None:
            made.extend(corrections.void(state, [manifest.window], force=True))
        for at_ms in (manifest.start_ms, manifest.end_ms):
            if at_ms not in state.snapshots:
                made.append(Snapshotted(at_ms, NO_SNAPSHOT))
        return (*made, Pinned(manifest.window, sha256, manifest.span))

    ledger.change(pinned)
    return ledger.window(manifest.window)


def begin(ledger: Ledger, window: Window, lost: Collection[LogRange] = ()) -> int:
    """Begin an attempt at a window that isn't loaded; its number."""
    wish = Attempted(window.name, {"by": "a test"}, tuple(lost))
    number = ledger.change(lambda state: load_decisions.begin(state, wish, window.manifest))
    assert number, "it is loaded already"
    return number


def reload(ledger: Ledger, window: str) -> None:
    """Say that a window is to be loaded again."""
    assert ledger.change(lambda state: load_decisions.reload(state, [window])), "it was never loaded"
