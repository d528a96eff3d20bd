"""Stored positions: from what another task returned, or from a pipeline's ledger, to the offsets that are meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.hooks.ledger import ledger_at
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.references.window_ref import WindowRef


def positions_in(xcom: Any, argument: str) -> FixedOffsets:
    """The offsets of a stored snapshot, or of a window's end.

    :param xcom: what ``KafkaOffsetSnapshotOperator`` or ``KafkaResolveWindowOperator`` returned.
    :param argument: the argument's name, for the message.
    :raises ConfigurationError: when it is something else.
    :raises LedgerCorruptError: when the ledger doesn't have what it names.
    """
    if isinstance(xcom, Mapping) and {"ledger", "snapshot"} <= xcom.keys():
        ledger = ledger_at(xcom["ledger"])
        return FixedOffsets.of_snapshot(ledger.snapshots.read(xcom["snapshot"]), ledger.uri)
    if isinstance(xcom, Mapping) and "window" in xcom:
        ref = WindowRef.from_json(xcom)
        ledger = ref.ledger()
        return FixedOffsets.of_window_end(ref.read(ledger).manifest, ledger.uri)
    raise ConfigurationError(
        f"{argument}= takes what KafkaOffsetSnapshotOperator or KafkaResolveWindowOperator returned (its .output), "
        f"not {xcom!r}. Was that task skipped, or its XCom cleared?"
    )


def last_published_end(ledger: Ledger) -> FixedOffsets:
    """Where a pipeline's last published window ends; no offsets at all when none is published."""
    for window in ledger.latest_windows():
        published = ledger.window_folders.published(window.id)
        if published is not None:
            return FixedOffsets.of_window_end(ledger.pinned(window.id, published.revision).manifest, ledger.uri)
    return FixedOffsets("the log starts, as nothing is published", ledger=ledger.uri)
