"""``airflow kafka-offsets ledger publish``: what a driver has counted, and no task has published."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.cli.connections import kafka_client, stored_ledger
from airflow_kafka_offsets.cli.ledger import require_windows
from airflow_kafka_offsets.cli.printing import command, print_rows
from airflow_kafka_offsets.cli.tables import every_column
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError, LedgerError, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.pipelines.publisher import (
    CountedAttempt,
    counted_attempt,
    handed_over,
    proved_attempts,
    publish,
    take_over,
)


@command
def publish_window(args: Any) -> int:
    """One row: what counts of the window."""
    ledger = stored_ledger(args)
    require_windows(ledger, [args.window], [folder.id for folder in ledger.windows()])
    pinned = ledger.pinned(args.window)
    with kafka_client(args) as client:
        counted = _counted(client, ledger, pinned, args)
        found = publish(client, ledger, counted)
    row = {
        "window": args.window,
        "revision": found.revision,
        "published": found.attempt,
        "rows": found.rows,
        "output": found.output,
        "verdict": str(counted.verdict) if found.attempt == counted.result.attempt else None,
    }
    print_rows([row], args, every_column([row]), single=True)
    return 0


def _counted(client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest, args: Any) -> CountedAttempt:
    if args.result is not None:
        return take_over(client, ledger, pinned, _read(args.result))
    if args.attempt is not None:
        return _named(ledger, args.window, args.attempt)
    proved = proved_attempts(ledger, pinned)
    if not proved:
        raise _nothing_to_publish(ledger, pinned)
    return proved[-1]


def _nothing_to_publish(ledger: Ledger, pinned: PinnedManifest) -> LedgerError:
    window = f"window {pinned.manifest.window}, revision {pinned.manifest.revision}"
    counted = ledger.folder_of(pinned).listing().results
    if not counted:
        return LedgerError(f"Nothing has loaded {window}, yet: no attempt has counted it. Run its load first.")
    return LedgerError(
        f"Of {window}, no attempt has counted what proves it ({shorten(counted)}): load it, or name one with --attempt "
        "to see what it lacks."
    )


def _named(ledger: Ledger, window: str, attempt: str) -> CountedAttempt:
    """An attempt at any revision of a window that counts."""
    revisions = ledger.revisions(window)
    for each in revisions:
        found = counted_attempt(ledger, each, attempt)
        if found is not None:
            return found
    counted = [name for each in revisions for name in ledger.folder_of(each).listing().results]
    raise ConfigurationError(
        f"Attempt {attempt} has counted nothing of window {window}. Those that have: {shorten(counted) or 'none'}."
    )


def _read(place: str) -> RunResult:
    try:
        text = sys.stdin.read() if place == "-" else Path(place).read_text(encoding="utf-8")
        fields = json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--result {place} can't be read as JSON: {error}.") from error
    return handed_over(fields, f"--result {place}")
