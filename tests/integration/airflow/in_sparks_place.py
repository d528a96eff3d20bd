"""What a program in spark-submit's place does as a driver would: it has its confs among its arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from upath import UPath

from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles, failure_file, note_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.spark.session.conf import batch_from_bytes
from tests.integration.ledger.results import RUN, result_of

PREFIX = "spark.kafkaOffsets."


def confs() -> dict[str, str]:
    """What this driver was told, without the prefix."""
    return dict(word.removeprefix(PREFIX).split("=", 1) for word in sys.argv if word.startswith(PREFIX))


def attempt() -> AttemptFiles:
    """The files of this driver's attempt."""
    told = confs()
    pipeline, window = Path(told["manifest"].removeprefix("file://")).parents[2], told["manifest"].split("/")[-2]
    return Ledger(UPath(pipeline.parent), pipeline.name).attempt(window, int(told["attempt"]))


def put(name: str, content: bytes) -> None:
    """Write a file of this driver's."""
    found = attempt()
    found.files.replace(f"{found.folder}/{name}", content)


def note(run: str = RUN, **fields: Any) -> None:
    """Note which Spark application it is."""
    put(note_file(run), json.dumps({"application_id": "app-2", "ui": None} | fields).encode())


def count(**fields: Any) -> None:
    """Read and write each offset once that wasn't lost.

    :param fields: what differs in the result.
    """
    told = confs()
    _count(told["manifest"], int(told["attempt"]), **fields)


def _count(manifest: str, number: int, **fields: Any) -> None:
    pipeline = Path(manifest.removeprefix("file://")).parents[2]
    ledger = Ledger(UPath(pipeline.parent), pipeline.name)
    window = ledger.window(manifest.split("/")[-2])
    made = window.attempt(number)
    assert made is not None
    ledger.attempt(window.name, number).record_result(result_of(ledger, window, made, **fields))


def batch() -> list[tuple[str, int]]:
    """The manifests that this driver is to load, each with the number of its attempt."""
    told = confs()
    content = Path(told["batch"].removeprefix("file://")).read_bytes()
    return [(each.manifest_uri, each.attempt) for each in batch_from_bytes(content, told["batchSha256"], told["batch"])]


def count_batch(*poisoned: str, **fields: Any) -> None:
    """Do the same for each window; but those of these topics fail, and so does the application in the end."""
    failed = False
    for manifest, number in batch():
        pipeline, _, window, _ = manifest.rsplit("/", 3)
        place = Path(pipeline.removeprefix("file://"))
        ledger = Ledger(UPath(place.parent), place.name)
        if set(poisoned) & set(ledger.pinned(ledger.window(window)).manifest.topics):
            files, failed = ledger.attempt(window, number), True
            note = FailureNote("ExtremeTimestampError", "a record of the year 300,000").to_bytes()
            files.files.replace(f"{files.folder}/{failure_file(RUN)}", note)
        else:
            _count(manifest, number, **fields)
    if failed:
        raise SystemExit(1)


def fail(error: str, message: str, run: str = RUN) -> None:
    """Note why it failed."""
    put(failure_file(run), FailureNote(error, message).to_bytes())
