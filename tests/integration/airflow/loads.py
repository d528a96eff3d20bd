"""Loads of windows without Spark: the files that a run leaves in the ledger which read and wrote some offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.references import WindowRef
from tests.integration.ledger.loads import begin, publish_result
from tests.unit.offsets.proof.results import run_result, tallies


def publish_counted(window: Mapping[str, Any], **fields: Any) -> None:
    """Publish a window with whatever a run has counted of it, proved or not.

    :param fields: fields of the result.
    """
    ref = WindowRef.from_json(window)
    ledger = ref.ledger()
    pinned = ref.window_in(ledger)
    manifest, attempt = ledger.pinned(pinned).manifest, begin(ledger, pinned)
    rows = fields.pop("written", tallies(manifest))
    publish_result(ledger, pinned, run_result(manifest, rows, attempt=attempt.number, **fields))
