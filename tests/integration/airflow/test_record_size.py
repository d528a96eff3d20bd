"""How large a record is, for the split plan: by what the windows before it had, else not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.proof.run_result import Tally
from airflow_kafka_offsets.submission.confs import record_size
from tests.integration.airflow.conftest import Resolve, at
from tests.integration.ledger.loads import publish


@pytest.fixture
def windows(ten: str, resolve: Resolve) -> list[dict[str, Any]]:
    """Three, one after the other."""
    return [resolve(ten, at(n), at(n + 3)) for n in (0, 3, 6)]


def publish_with(ledger: Ledger, window: dict[str, Any], bytes_per_record: float | None) -> None:
    """Publish a window, whose driver found its records so large."""
    ledger.read()
    found = ledger.window(window["window"])
    publish(ledger, found, read=Tally(found.offsets, bytes_per_record=bytes_per_record))


def size(ledger: Ledger, window: dict[str, Any]) -> float | None:
    ledger.read()
    return record_size(ledger, ledger.window(window["window"]))


def test_it_is_what_the_window_before_had_and_not_the_newest(ledger: Ledger, windows: list[dict[str, Any]]) -> None:
    """As in a backfill. Keys and values, as Spark got them."""
    before, backfilled, newest = windows
    assert size(ledger, backfilled) is None
    publish_with(ledger, newest, 90.0)
    assert size(ledger, backfilled) is None
    publish_with(ledger, before, 20.0)
    assert size(ledger, backfilled) == 20.0


def test_windows_without_records_are_passed_over(ledger: Ledger, windows: list[dict[str, Any]]) -> None:
    publish_with(ledger, windows[0], 20.0)
    publish_with(ledger, windows[1], None)
    assert size(ledger, windows[2]) == 20.0


def test_a_file_that_can_not_be_read_is_no_matter(
    ledger: Ledger, ledger_root: Path, windows: list[dict[str, Any]]
) -> None:
    publish_with(ledger, windows[0], 1234.5)
    (result,) = ledger_root.rglob("*.result.json")
    result.write_bytes(b"")
    assert size(ledger, windows[0]) is None
