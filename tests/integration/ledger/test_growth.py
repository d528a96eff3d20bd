"""Which stored snapshot a log's growth is measured from."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.pipelines.backlog import _snapshot_before
from tests.integration.ledger.loads import place
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

MINUTE_MS = 60_000


@pytest.mark.parametrize(("hours", "expected"), [(0, None), (1.5, 1), (2.5, 2), (9, 2)])
def test_it_is_the_newest_one_of_then_though_an_older_one_was_stored_since(
    local: Ledger, hours: float, expected: int | None
) -> None:
    hourly = [
        snapshot({0: 10 * hour}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=T0 + hour * HOUR_MS + MINUTE_MS)
        for hour in range(3)
    ]
    place(local, *hourly)
    place(local, snapshot({0: 15}, at_ms=T0 + 90 * MINUTE_MS, resolved_at_ms=T0 + 100 * HOUR_MS))
    found = _snapshot_before(local, T0 + int(hours * HOUR_MS))
    assert (None if found is None else found.as_of) == (None if expected is None else hourly[expected].as_of)
