"""Future snapshots: those that a machine stored whose clock was ahead, and how they are taken back.

As long as one stands in the chain, no window up to its time can be resolved (:func:`.snapshot_index.refuse_ahead`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, shorten
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.snapshot_index import Entry
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent

_FORCE = (
    " --force. What is published of them is loaded again by windows of other names: delete the rows of these from "
    "tables and plain paths."
)


def forget_after(ledger: Ledger, after_ms: int) -> list[Entry]:
    """Let all snapshots count no more that stand after a time. Nothing is deleted.

    :param after_ms: Unix milliseconds.
    :returns: those that counted, in order of time.
    :raises ConfigurationError: naming windows that are made from one of them; nothing is forgotten then.
    :raises LedgerConflictError: naming windows that were made from one of them meanwhile.
    """
    entries = [each for each in ledger.snapshots.entries() if each.timestamp_ms > after_ms]
    numbers = {each.number for each in entries}
    made = list(_made_from(ledger, numbers, after_ms))
    if made:
        published = any(ledger.window_folders.published(each) is not None for each in made)
        raise ConfigurationError(
            f"Windows were made from snapshots after {iso_instant(after_ms)}: {shorten(made)}. Nothing was forgotten. "
            f"Forget them first: {_command(ledger, made)}{_FORCE if published else ''}"
        )
    # The latest first: an increment that counts never begins at one that doesn't.
    for each in reversed(entries):
        ledger.snapshots.forget_entry(each)
    meanwhile = list(_made_from(ledger, numbers, after_ms))
    if meanwhile:
        raise LedgerConflictError(
            f"The snapshots are forgotten, but windows were made from them meanwhile: {shorten(meanwhile)}. Forget "
            f"them too: {_command(ledger, meanwhile)}"
        )
    return entries


def _made_from(ledger: Ledger, numbers: Collection[int], after_ms: int) -> Iterator[str]:
    for folder in ledger.windows():
        if window_extent(folder.id)[1] > after_ms:
            pinned = (each.pinned() for each in ledger.window_folders.live(folder.id))
            if any(each is not None and not set(each.manifest.snapshots).isdisjoint(numbers) for each in pinned):
                yield folder.id


def _command(ledger: Ledger, windows: Collection[str]) -> str:
    return f"airflow kafka-offsets ledger forget {ledger.pipeline} {' '.join(windows)}"
