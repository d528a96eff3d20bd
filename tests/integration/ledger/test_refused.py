"""Rows that a later driver doesn't trust: they were proved, and aren't published any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import UnprovenError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.pipelines.publisher import counted_attempt, proved_attempts, publish_next
from tests.integration.ledger.loads import resolve, result_of


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    opened = Ledger(ObjectStoragePath(tmp_path.as_uri()), "loads")
    opened.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return opened


@pytest.fixture
def pinned(ledger: Ledger) -> PinnedManifest:
    """A window that two attempts have counted, the second one by the rows that the first one wrote."""
    made = resolve(ledger, 0)
    for attempt in ("a-1", "a-2"):
        ledger.window_folders.of(made).record_result(replace(result_of(made, attempt), written_by="a-1"))
    return made


@pytest.mark.parametrize("attempt", ["a-1", "a-2"])
def test_neither_they_nor_what_has_kept_them_is_published(ledger: Ledger, pinned: PinnedManifest, attempt: str) -> None:
    assert [each.result.attempt for each in proved_attempts(ledger, pinned)] == ["a-1", "a-2"]
    notes = Path(pinned.uri.removeprefix("file://")).parent / "applications"
    notes.mkdir()
    (notes / "a-1.json").write_text('{"application_id": "app-1", "ui": null, "writes": true, "refused": true}')

    assert proved_attempts(ledger, pinned) == []
    counted = counted_attempt(ledger, pinned, attempt)
    assert counted is not None
    with pytest.raises(UnprovenError, match=r"rows of attempt a-1 at window .* found them untrustworthy"):
        publish_next(ledger, counted)
    assert ledger.window_folders.publication(pinned.manifest.window) is None


def test_a_note_that_is_half_written_refuses_nothing(ledger: Ledger, pinned: PinnedManifest) -> None:
    notes = Path(pinned.uri.removeprefix("file://")).parent / "applications"
    notes.mkdir()
    (notes / "a-1.json").write_text('{"application_id": "app')
    assert len(proved_attempts(ledger, pinned)) == 2
