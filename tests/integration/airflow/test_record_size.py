"""How large a record is, for the split plan: by what the windows before it had, else not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.proof.run_result import Tally
from airflow_kafka_offsets.submission.spark_arguments import record_size_conf
from tests.integration.airflow.conftest import Resolve, at
from tests.integration.ledger.loads import publish

CONF = "spark.kafkaOffsets.bytesPerRecord"


@pytest.fixture
def windows(ten: str, resolve: Resolve) -> list[dict[str, Any]]:
    """Three, one after the other."""
    return [resolve(ten, at(n), at(n + 3)) for n in (0, 3, 6)]


def publish_with(ledger: Ledger, window: dict[str, Any], bytes_per_record: float | None) -> None:
    """Publish a window, whose driver found its records so large."""
    ledger.read()
    found = ledger.window(window["window"])
    publish(ledger, found, read=Tally(found.offsets, bytes_per_record=bytes_per_record))


def conf(ledger: Ledger, window: dict[str, Any]) -> dict[str, str]:
    ledger.read()
    return record_size_conf(ledger, ledger.pinned(ledger.window(window["window"])).manifest)


def test_it_is_what_the_window_before_had_and_not_the_newest(ledger: Ledger, windows: list[dict[str, Any]]) -> None:
    """As in a backfill. Keys and values, as Spark got them."""
    before, backfilled, newest = windows
    assert conf(ledger, backfilled) == {}
    publish_with(ledger, newest, 90.0)
    assert conf(ledger, backfilled) == {}
    publish_with(ledger, before, 20.0)
    assert conf(ledger, backfilled) == {CONF: "20.0"}


def test_windows_without_records_are_passed_over(ledger: Ledger, windows: list[dict[str, Any]]) -> None:
    publish_with(ledger, windows[0], 20.0)
    publish_with(ledger, windows[1], None)
    assert conf(ledger, windows[2]) == {CONF: "20.0"}


def test_a_file_that_can_not_be_read_is_no_matter(
    ledger: Ledger, ledger_root: Path, windows: list[dict[str, Any]]
) -> None:
    publish_with(ledger, windows[0], 1234.5)
    (result,) = ledger_root.rglob("*.result.json")
    result.write_bytes(b"")
    assert conf(ledger, windows[0]) == {}
