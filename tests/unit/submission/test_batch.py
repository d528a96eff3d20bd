"""Why an attempt failed, of those who may say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_kafka_offsets.errors import SparkFailedError
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles, failure_file
from airflow_kafka_offsets.ledger.storage import LedgerPath, StoredFiles
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.submission import batch

DRIVERS = FailureNote("UnprovenError", "read 98 rows, wrote 49")
RECORDED = FailureNote("SparkFailedError", "The task was killed.")
OWN = SparkFailedError("spark-submit ended with status 143")


@pytest.mark.parametrize("failure", [None, OWN])
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("by_driver", [False, True])
def test_a_driver_knows_best_then_a_task_that_was_killed_then_this_try(
    tmp_path: Path, by_driver: bool, recorded: bool, failure: Exception | None
) -> None:
    """What is killed raises an error that tells only how its driver ended."""
    folder = LedgerPath(LocalFileSystem(), str(tmp_path), "file", tmp_path.as_uri())
    files = AttemptFiles(StoredFiles(folder), "w", 3)
    if recorded:
        files.record_failure(RECORDED)
    if by_driver:
        files.files.create(f"{files.folder}/{failure_file('0000000a')}", DRIVERS.to_bytes())
    expected = DRIVERS.as_error() if by_driver else RECORDED.as_error() if recorded else failure
    found = batch.noted(files, failure)
    assert (type(found), str(found)) == (type(expected), str(expected))
