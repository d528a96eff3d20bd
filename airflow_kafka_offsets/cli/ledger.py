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
from airflow_kafka_offsets.offsets.publication import Publication


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
    if args.window and args.window not in names:
        raise ConfigurationError(f"{ledger.uri} has no window {args.window}; see ledger list.")
    manifest = ledger.pinned(args.window or names[-1]).manifest
    print_rows(list(_ranges(manifest)), args.output)
    return 0


@command
def verify(args: Any) -> int:
    """Counts of every published window, and tiling over all of them; a row a claim."""
    ledger = _ledger(args)
    published = [(folder, each) for folder in ledger.windows() if (each := folder.publication()) is not None]
    manifests = [ledger.pinned(folder.id).manifest for folder, _ in published]
    rows = [_proof(*each, manifest) for each, manifest in zip(published, manifests, strict=True)]
    tiling = check_tiling(manifests)
    found = "; ".join(tiling.problems) or f"{tiling.windows} published windows tile, {tiling.span} offsets"
    rows.append({"claim": "tiling", "window": None, "holds": tiling.tiles, "found": found})
    print_rows(rows, args.output)
    return 0 if all(row["holds"] for row in rows) else 1


def _ledger(args: Any) -> Ledger:
    ledger = open_ledger(args.ledger, args.pipeline)
    if not ledger.exists():
        raise ConfigurationError(f"There is no ledger at {ledger.uri}.")
    return ledger


def _row(folder: WindowFolder, manifest: Manifest) -> Row:
    published = folder.publication()
    return {
        "window": folder.id,
        "start": iso_instant(manifest.start_ms),
        "end": iso_instant(manifest.end_ms),
        "state": str(folder.state()),
        "offsets": manifest.span,
        "rows": None if published is None else published.rows,
        "attempts": len(folder.attempts()),
        "output": None if published is None else published.output,
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


def _proof(folder: WindowFolder, published: Publication, manifest: Manifest) -> Row:
    """Counts of a published window."""
    result = folder.result(published.attempt)
    if result is None:
        found = f"the result of {published.attempt} is missing"
        return {"claim": "counts", "window": folder.id, "holds": False, "found": found}
    verdict = judge(manifest, result)
    found = f"{verdict}, {published.rows} rows"
    return {"claim": "counts", "window": folder.id, "holds": verdict.proved, "found": found}
