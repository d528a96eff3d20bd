"""``airflow kafka-offsets ledger …``: what a pipeline's ledger says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_kafka_offsets.cli.printing import Row, command, print_rows
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.hooks.ledger import open_ledger
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.tiling import check_tiling
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.audit import judge
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.manifest import Manifest


@command
def list_windows(args: Any) -> int:
    """A row a window."""
    ledger = _ledger(args)
    print_rows([_row(folder, ledger.pinned(folder.id).manifest) for folder in ledger.windows()], args.output)
    return 0


@command
def show_window(args: Any) -> int:
    """A row a partition."""
    ledger = _ledger(args)
    names = [folder.id for folder in ledger.windows()]
    if not names:
        raise ConfigurationError(f"{ledger.uri} has no window yet.")
    manifest = ledger.pinned(args.window or names[-1]).manifest
    print_rows(list(_ranges(manifest)), args.output)
    return 0


@command
def verify(args: Any) -> int:
    """Tiling over all windows, and counts of every published one; a row a claim."""
    ledger = _ledger(args)
    folders = ledger.windows()
    manifests = [ledger.pinned(folder.id).manifest for folder in folders]
    rows = [row for folder, manifest in zip(folders, manifests, strict=True) for row in _proof(folder, manifest)]
    tiling = check_tiling(manifests)
    found = "; ".join(tiling.problems) or f"{tiling.windows} windows tile, {tiling.span} offsets"
    rows.append({"claim": "tiling", "window": None, "holds": tiling.tiles, "found": found})
    print_rows(rows, args.output)
    return 0 if all(row["holds"] for row in rows) else 1


def _ledger(args: Any) -> Ledger:
    ledger = open_ledger(args.ledger, args.pipeline)
    if not ledger.exists():
        raise ConfigurationError(f"There is no ledger at {ledger.uri}.")
    return ledger


def _row(folder: WindowFolder, manifest: Manifest) -> Row:
    commit = folder.commit()
    return {
        "window": folder.id,
        "start": iso_instant(manifest.start_ms),
        "end": iso_instant(manifest.end_ms),
        "state": str(folder.state()),
        "offsets": manifest.span,
        "rows": None if commit is None else commit.rows,
        "attempts": len(folder.attempts()),
        "output": None if commit is None else commit.output,
    }


def _ranges(manifest: Manifest) -> Iterator[Row]:
    for each in manifest.ranges:
        yield {
            "topic": each.topic,
            "partition": each.partition,
            "start_offset": each.start_offset,
            "end_offset": each.end_offset,
            "offsets": each.span,
            "start_evidence": str(each.start_evidence),
            "end_evidence": str(each.end_evidence),
        }


def _proof(folder: WindowFolder, manifest: Manifest) -> Iterator[Row]:
    """Counts of a published window. Gaps are explained by the verdict that was recorded when it was verified."""
    commit = folder.commit()
    result = None if commit is None else folder.result(commit.attempt)
    if commit is None:
        return
    if result is None:
        yield {
            "claim": "counts",
            "window": folder.id,
            "holds": False,
            "found": f"the result of {commit.attempt} is missing",
        }
        return
    verdict = judge(manifest, result, allow_gaps=True)
    yield {"claim": "counts", "window": folder.id, "holds": verdict.proved, "found": f"{verdict}, {commit.rows} rows"}
