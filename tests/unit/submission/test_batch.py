"""Why an attempt failed, of those who may say so; and which Spark application a load is shown while it runs: the one
that its driver has noted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_kafka_offsets.errors import SparkFailedError
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles, failure_file, note_file
from airflow_kafka_offsets.ledger.storage import LedgerPath, StoredFiles
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote, SparkApplication
from airflow_kafka_offsets.submission import batch
from tests.patience import GRACE_S, PATIENCE_S
from tests.unit.ledger.memory import MemoryFiles

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


LOG = logging.getLogger("task")
ATTEMPT, RUN, UI = 7, "0000000a", "http://127.0.0.1:4040"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG.name)
    for name in ("_LOOK_S", "_PATIENT_S"):
        monkeypatch.setattr(batch, name, 0.01)


@pytest.fixture
def attempt() -> AttemptFiles:
    return AttemptFiles(MemoryFiles(), "w", ATTEMPT)


@pytest.fixture
def note(attempt: AttemptFiles) -> Callable[..., None]:
    """Write what a driver notes."""

    def put(ui: str | None) -> None:
        content = SparkApplication("app-1", ui).to_bytes()
        attempt.files.replace(f"{attempt.folder}/{note_file(RUN)}", content)

    return put


@contextmanager
def loading(attempt: AttemptFiles, found: list[SparkApplication] | None = None) -> Iterator[None]:
    """A load of half a second at most, with a thread that is not to outlive it by much."""
    started = time.monotonic()
    with batch.found_application([attempt], LOG, (found if found is not None else []).append):
        yield
    assert time.monotonic() - started < GRACE_S


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("ui", [UI, None])
def test_it_is_logged_and_handed_on(
    attempt: AttemptFiles, note: Callable[..., None], caplog: pytest.LogCaptureFixture, ui: str | None
) -> None:
    note(ui)
    found: list[SparkApplication] = []
    with loading(attempt, found):
        until(lambda: bool(found))
    assert found == [SparkApplication("app-1", ui)]
    assert caplog.messages == ["Spark application app-1 is running" + (f"; its UI is {UI}" if ui else "")]


def test_a_load_that_ends_before_its_driver_began_leaves_no_word(
    attempt: AttemptFiles, caplog: pytest.LogCaptureFixture
) -> None:
    attempt.files.replace(f"{attempt.folder}/{note_file(RUN)}", b'{"application_id": ')
    found: list[SparkApplication] = []
    with loading(attempt, found):
        time.sleep(0.1)
    assert found == []
    assert not [each for each in caplog.messages if "Spark application" in each]


def test_a_store_that_fails_for_a_while_is_asked_again(
    attempt: AttemptFiles,
    note: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answers = AttemptFiles.applications, [OSError("slow down")]

    def flaky(self: AttemptFiles) -> list[SparkApplication]:
        if answers:
            raise answers.pop()
        return asked(self)

    monkeypatch.setattr(AttemptFiles, "applications", flaky)
    note(UI)
    found: list[SparkApplication] = []
    with loading(attempt, found):
        until(lambda: bool(found))
    assert caplog.messages[0] == "No link to Spark's UI yet: OSError('slow down')"


def test_a_load_that_has_ended_gets_no_links_of_a_late_answer(
    attempt: AttemptFiles, note: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, looked, left = AttemptFiles.applications, threading.Event(), threading.Event()

    def slow(self: AttemptFiles) -> list[SparkApplication]:
        looked.set()
        left.wait(PATIENCE_S)
        time.sleep(0.1)
        return asked(self)

    monkeypatch.setattr(AttemptFiles, "applications", slow)
    note(UI)
    found: list[SparkApplication] = []
    with loading(attempt, found):
        looked.wait(PATIENCE_S)
        left.set()
    assert found == []
