"""A process that pins a window while others do. It imports no Airflow, which takes seconds for each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from upath import UPath

from airflow_kafka_offsets.errors import WindowOverlapError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.snapshots import OffsetSnapshot
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

MINUTE_MS = HOUR_MS // 60


def at(ledger: Ledger, *minutes: float) -> list[OffsetSnapshot]:
    """Stored snapshots so many minutes after T0, with a record a minute before each of them."""
    wanted = [
        snapshot({0: 1000 + int(each)}, at_ms=T0 + int(each * MINUTE_MS), resolved_at_ms=T0 + 12 * HOUR_MS)
        for each in minutes
    ]
    return ledger.snapshots.append_all(wanted)


def race(folder: Path, minutes: tuple[int, int], ready: Callable[[], object], said: object) -> None:
    ledger = Ledger(UPath(folder), "loads")
    window = at(ledger, *minutes)
    ready()
    try:
        ledger.pin_window(*window)
        said.put((minutes, None))  # type: ignore[attr-defined]
    except WindowOverlapError as error:
        said.put((minutes, str(error)))  # type: ignore[attr-defined]
