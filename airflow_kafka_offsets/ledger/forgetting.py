"""Forgetting: windows and snapshots that stop counting, by somebody's order or because they are resolved again.

Nothing is deleted. A forgotten window gets a file that says who asked for it. A forgotten snapshot gets an entry in the
log of snapshots, which doesn't say who asked.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.snapshot_index import Entry
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import live_revisions, window_extent
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind

_FORCE = (
    " --force. Windows with other names would load the same records again: delete the rows of the forgotten "
    "windows from tables and plain paths."
)


def forget_windows(ledger: Ledger, windows: Collection[str], why: str) -> list[int]:
    """Forget windows, so that they no longer count, and forget their instants that no other window shares, so that
    Kafka is asked again when these are next resolved. Nothing is deleted; the windows' file lists become empty.
    Calling it again finishes what a crash interrupted.

    :param why: who asked for it, stored with the windows.
    :returns: the forgotten instants, Unix milliseconds; shared instants stay, so that the other windows still tile.
    """
    # Forget the instants first: while a window still counts, its instants can be told from others'.
    counting = [window for window in windows if ledger.window_folders.live(window)]
    instants = forget_instants(ledger, between_instants(ledger, counting))
    for window in windows:
        ledger.window_folders.forget(window, why)
        ledger.file_lists.refresh(window)
    return instants


def between_instants(ledger: Ledger, windows: Collection[str]) -> list[str]:
    """The given windows that run from one instant to another. Snapshots of other kinds can't be resolved again, so
    that increments and other windows between them keep their ends."""
    others = {entry.timestamp_ms for entry in ledger.snapshots.entries() if entry.kind != AsOfKind.INSTANT}
    return [window for window in windows if others.isdisjoint(window_extent(window))]


def forget_instants(ledger: Ledger, windows: Collection[str]) -> list[int]:
    """Forget the instants of the given windows, except those that another window shares."""
    instants = {instant for window in windows for instant in window_extent(window)}
    others = live_revisions(ledger.window_folders.names()).keys() - set(windows)
    instants -= {instant for window in others for instant in window_extent(window)}
    known = sorted(ledger.snapshots.at_instants(instants))
    for instant in known:
        ledger.snapshots.forget(instant)
    return known


def forget_snapshots(ledger: Ledger, after_ms: int) -> list[Entry]:
    """Forget all snapshots after a time, so that they no longer count. Nothing is deleted.

    :param after_ms: Unix milliseconds.
    :returns: the snapshots that counted, in order of time.
    :raises ConfigurationError: naming windows that were made from one of them; nothing is forgotten then.
    :raises LedgerConflictError: naming windows that were made from one of them meanwhile.
    """
    entries = [entry for entry in ledger.snapshots.entries() if entry.timestamp_ms > after_ms]
    numbers = {entry.number for entry in entries}
    made = list(_made_from(ledger, numbers, after_ms))
    if made:
        published = any(ledger.window_folders.publication(window) is not None for window in made)
        raise ConfigurationError(
            f"Windows were made from snapshots after {iso_instant(after_ms)}: {shorten(made)}. Nothing was "
            f"forgotten. Forget them first: {_forget_command(ledger, made)}{_FORCE if published else ''}"
        )
    # Latest first, so that an increment that counts never starts at a forgotten snapshot.
    for entry in reversed(entries):
        ledger.snapshots.forget_entry(entry)
    meanwhile = list(_made_from(ledger, numbers, after_ms))
    if meanwhile:
        raise LedgerConflictError(
            "The snapshots are forgotten, but windows were made from them in the meantime: "
            f"{shorten(meanwhile)}. Forget them too: {_forget_command(ledger, meanwhile)}"
        )
    return entries


def _made_from(ledger: Ledger, numbers: Collection[int], after_ms: int) -> Iterator[str]:
    index = ledger.window_folders.index()
    for window in index.crossing(after_ms, sys.maxsize):
        revisions = (ledger.window_folders.folder(window, number).pinned() for number in index.live[window])
        if any(not set(stored.manifest.snapshots).isdisjoint(numbers) for stored in filter(None, revisions)):
            yield window


def _forget_command(ledger: Ledger, windows: Collection[str]) -> str:
    return f"kafka-offsets ledger forget {ledger.pipeline} {' '.join(windows)}"
