"""Loads of windows without Spark: the files that a run leaves in the ledger which read and wrote some offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_offsets.hooks.window_ref import WindowRef
from tests.integration.ledger.loads import publish_result
from tests.unit.offsets.results import run_result, tally_of


def publish_rows(window: Mapping[str, Any], topic: str, offsets: Sequence[int]) -> None:
    """Publish a window with these rows of partition 0, as a run does that was told to allow gaps."""
    ref = WindowRef.from_json(window)
    ledger = ref.ledger()
    written = [tally_of(topic, 0, offsets)] if offsets else []
    pinned = ref.read(ledger)
    publish_result(ledger, pinned, run_result(pinned.manifest, written, allow_gaps=True, unread=()))
