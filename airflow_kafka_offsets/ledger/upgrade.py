"""Upgrade: brings a ledger of format 1 to format 2, by files beside the old ones. Nothing is changed or deleted.

Format 1 kept all snapshots in one folder, uncompressed, their index in another, and all windows in a third. Each file
is copied to its new place; the new ``pipeline.2.json`` comes last, so that a crash leaves a ledger of format 1, which
the next try goes on with.
"""

from __future__ import annotations

import re

from airflow_kafka_offsets.errors import LedgerError
from airflow_kafka_offsets.ledger.ledger import FORMAT, Ledger
from airflow_kafka_offsets.ledger.storage import (
    StoragePath,
    create_exclusive,
    in_parallel,
    names,
    read,
    read_json,
    to_json_bytes,
)
from airflow_kafka_offsets.offsets.snapshots import OffsetSnapshot
from airflow_kafka_offsets.offsets.window_names import month_of, revisions_of

_SNAPSHOT = re.compile(r"\d{8}\.json")


def upgrade(ledger: Ledger) -> tuple[int, int]:
    """Upgrade a ledger that no task writes to meanwhile; nothing happens when it is of the newest format.

    :returns: how many snapshots and windows there were to bring over.
    :raises LedgerError: when there is no ledger, or its format is newer than this version.
    """
    stored = ledger.read_pipeline()
    if stored is None or stored.get("format") not in (1, FORMAT):
        raise LedgerError(f"{ledger.uri} has format {(stored or {}).get('format')!r}: there is nothing to upgrade.")
    if stored["format"] == FORMAT:
        return 0, 0
    snapshots = sorted(filter(_SNAPSHOT.fullmatch, names(ledger.folder / "snapshots")))
    for each in snapshots:
        fields = read_json(ledger.folder / "snapshots" / each)
        assert fields is not None, "it was listed a moment ago"
        ledger.snapshots.restore(OffsetSnapshot.from_json(fields))
    windows = ledger.folder / "windows"
    moved = list(revisions_of(names(windows)))
    in_parallel(lambda window: _copy(windows / window, windows / month_of(window) / window), moved)
    create_exclusive(ledger.folder / f"pipeline.{FORMAT}.json", to_json_bytes(stored | {"format": FORMAT}))
    return len(snapshots), len(moved)


def _copy(source: StoragePath, target: StoragePath) -> None:
    for name in names(source):
        content = read(source / name) if "." in name else None
        if content is None:
            _copy(source / name, target / name)
        elif not create_exclusive(target / name, content):
            raise LedgerError(f"{target / name} exists already and differs from {source / name}.")
