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
from tests.integration.ledger.loads import RUN, result_of

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
    found, told = attempt(), confs()
    pipeline = Path(told["manifest"].removeprefix("file://")).parents[2]
    ledger = Ledger(UPath(pipeline.parent), pipeline.name)
    window = ledger.window(found.window)
    made = window.attempt(found.number)
    assert made is not None
    found.record_result(result_of(ledger, window, made, **fields))


def fail(error: str, message: str, run: str = RUN) -> None:
    """Note why it failed."""
    put(failure_file(run), FailureNote(error, message).to_bytes())
