"""Which stored snapshot a log's growth is measured from."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_offsets.pipelines.backlog import _snapshot_before
from tests.integration.ledger.loads import new_ledger, pin
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

MINUTE_MS = 60_000


@pytest.mark.parametrize(("hours", "expected"), [(0, None), (1.5, 1), (2.5, 2), (9, 2)])
def test_it_is_the_newest_one_of_then_though_an_older_one_was_stored_again_since(
    tmp_path: Path, hours: float, expected: int | None
) -> None:
    ledger = new_ledger(tmp_path)
    hourly = [
        snapshot({0: 10 * hour}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=T0 + hour * HOUR_MS + MINUTE_MS)
        for hour in range(3)
    ]
    pin(ledger, *hourly[:2])
    ledger.snapshots.append(hourly[2:])
    ledger.snapshots.forget(T0)
    (again,) = ledger.snapshots.append([snapshot({0: 5}, resolved_at_ms=T0 + 8 * HOUR_MS)])
    assert (again.number, again.resolved_at_ms) == (5, hourly[0].resolved_at_ms)
    found = _snapshot_before(ledger, T0 + int(hours * HOUR_MS))
    assert (None if found is None else found.as_of) == (None if expected is None else hourly[expected].as_of)
