"""A revision that is being pinned and may be taken back: nothing is decided for good by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import LedgerConflictError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from tests.integration.ledger.loads import publish_result, resolve, result_of


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    opened = Ledger(ObjectStoragePath(tmp_path.as_uri()), "loads")
    opened.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return opened


def test_keeps_no_older_one_from_being_published(ledger: Ledger) -> None:
    """In a table, where the rows of a newer one would take the others' place."""
    pinned = resolve(ledger, 0)
    result = replace(result_of(pinned, "a-1"), sink="delta", apart=False, output="lake.t", files=())
    newer = ledger.window_folders.pin_next(replace(pinned.manifest, end_snapshot=9))
    assert ledger.settled(pinned.manifest.window) == pinned
    assert publish_result(ledger, pinned, result).attempt == "a-1"

    assert ledger.window_folders.of(newer).settlement.settle(newer.sha256)
    later = replace(result, attempt="a-2", started_ms=result.started_ms + 1)
    with pytest.raises(LedgerConflictError, match=r"Revision 2 of window .* has been resolved since"):
        publish_result(ledger, pinned, later)
