"""Loads of windows without Spark: the files that a run leaves in the ledger which read and wrote some offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_offsets.references.window_ref import WindowRef
from tests.integration.ledger.loads import begin, publish_result
from tests.unit.offsets.proof.results import run_result, tallies, tally_of


def publish_rows(window: Mapping[str, Any], topic: str, offsets: Sequence[int]) -> None:
    """Publish a window with these rows of partition 0, as a run does that was told to allow gaps."""
    written = [tally_of(topic, 0, offsets)] if offsets else []
    _publish(window, written, allow_gaps=True, unread=())


def publish_counted(window: Mapping[str, Any], **fields: Any) -> None:
    """Publish a window with whatever a run has counted of it, proved or not.

    :param fields: fields of the result.
    """
    _publish(window, None, **fields)


def _publish(window: Mapping[str, Any], written: Any, **fields: Any) -> None:
    ref = WindowRef.from_json(window)
    ledger = ref.ledger()
    pinned = ref.window_in(ledger)
    manifest, attempt = ledger.pinned(pinned).manifest, begin(ledger, pinned)
    rows = tallies(manifest) if written is None else written
    publish_result(ledger, pinned, run_result(manifest, fields.pop("written", rows), attempt=attempt.number, **fields))
