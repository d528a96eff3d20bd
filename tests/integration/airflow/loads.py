"""Loads of windows without Spark: the files that a run leaves in the ledger which read and wrote some offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_kafka_offsets.offsets.windows.manifest import digest
from airflow_kafka_offsets.references.window_ref import WindowRef
from tests.integration.ledger.loads import publish_result
from tests.unit.offsets.proof.results import run_result, tally_of


def publish_rows(window: Mapping[str, Any], topic: str, offsets: Sequence[int]) -> None:
    """Publish a window with these rows of partition 0, as a run does that was told to allow gaps."""
    ref = WindowRef.from_json(window)
    ledger = ref.ledger()
    written = [tally_of(topic, 0, offsets)] if offsets else []
    pinned = ref.read(ledger)
    publish_result(ledger, pinned, run_result(pinned.manifest, written, allow_gaps=True, unread=()))


def change_counted(window: Mapping[str, Any], **fields: Any) -> None:
    """Change what the published attempt of a window counted, and have its publication say the same."""
    folder = Path(urlsplit(window["manifest"]).path).parent
    (published,) = (folder / "publications").glob("*.json")
    said = json.loads(published.read_text())
    counted = folder / "results" / f"{said['attempt']}.json"
    content = json.dumps(json.loads(counted.read_text()) | fields).encode()
    counted.write_bytes(content)
    same = {name: fields[name] for name in said.keys() & fields.keys()}
    published.write_text(json.dumps(said | same | {"result_sha256": digest(content)}))
