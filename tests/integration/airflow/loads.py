"""Loads of windows without Spark: the files that a run leaves in the ledger which read and wrote some offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_kafka_offsets.offsets.audit import PartitionTally, RunResult, Tally
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.publication import Publication
from tests.unit.spark.manifests import source_of


def publish_rows(window: Mapping[str, Any], topic: str, offsets: Sequence[int]) -> None:
    """Publish a window with these rows of partition 0, as a run does that was told to allow gaps."""
    folder = Path(window["manifest"].removeprefix("file://")).parent
    manifest = Manifest.from_bytes((folder / "manifest.json").read_bytes())
    written = tuple(
        PartitionTally(topic, 0, len(each), min(each), max(each), sum(each), 0) for each in [offsets] if each
    )
    read = Tally(len(offsets))
    result = RunResult(
        "a-1", manifest.sha256, "app-1", "file:/out", read, written, 1.0, True, source=source_of(manifest), unread=()
    )
    (folder / "results").mkdir()
    (folder / "results" / "a-1.json").write_text(json.dumps(result.to_json()))
    published = Publication("a-1", "file:/out", manifest.sha256, len(offsets))
    (folder / "committed.json").write_bytes(published.to_bytes())
