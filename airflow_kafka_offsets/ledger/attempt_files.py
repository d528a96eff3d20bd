"""The files of one attempt: what its driver says of it, and why it failed. None of them decides anything.

::

    windows/<window>/<attempt>/note.json      which Spark application it is
    windows/<window>/<attempt>/result.json    what it read and wrote; a publication names its hash
    windows/<window>/<attempt>/failure.json   why it failed, as its driver says
    windows/<window>/<attempt>/ended.json     why it failed, as Airflow's side says
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.files import Files, attempt_folder
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote, SparkApplication
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.ledger_names import json_of
from airflow_kafka_offsets.offsets.windows.manifest import digest

NOTE, RESULT, FAILURE, ENDED = "note.json", "result.json", "failure.json", "ended.json"


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """The files of an attempt at a window.

    :param files: the files of the pipeline's folder.
    :param window: the window's name.
    :param number: the attempt's number.
    """

    files: Files
    window: str
    number: int

    @property
    def folder(self) -> str:
        return attempt_folder(self.window, self.number)

    def application(self, key: str | None = None) -> SparkApplication | None:
        """Its Spark application; None before its driver has started.

        :param key: the key that the driver signs with; without it, the address of its UI can't be trusted.
        :raises LedgerCorruptError: when the note is damaged, or is being written right now.
        """
        content = self._read(NOTE)
        with self._naming(NOTE):
            return None if content is None else SparkApplication.from_json(json_of(content), str(self.number), key)

    def result(self) -> tuple[RunResult, str] | None:
        """What it read and wrote, and the hash of the file that says so; None when there is none.

        :raises LedgerCorruptError: when it is damaged, is being written right now, or is another attempt's.
        """
        content = self._read(RESULT)
        if content is None:
            return None
        with self._naming(RESULT):
            found = RunResult.from_json(json_of(content))
            if found.attempt != self.number:
                raise LedgerCorruptError(f"It is the result of attempt {found.attempt}.")
        return found, digest(content)

    def record_result(self, result: RunResult) -> bool:
        """Store the result of a driver that can't reach the ledger. Returns whether it is the one that is stored."""
        return self.files.create(f"{self.folder}/{RESULT}", result.to_bytes())

    def failure(self) -> FailureNote | None:
        """Why it failed, as its driver says, or else Airflow's side; None when nobody said.

        :raises LedgerCorruptError: when the file is damaged.
        """
        for name in (FAILURE, ENDED):
            content = self._read(name)
            if content is not None:
                with self._naming(name):
                    return FailureNote.from_bytes(content)
        return None

    def record_failure(self, note: FailureNote) -> None:
        """Record on Airflow's side why it failed, once."""
        self.files.create(f"{self.folder}/{ENDED}", note.to_bytes())

    def _read(self, name: str) -> bytes | None:
        return self.files.read(f"{self.folder}/{name}")

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        try:
            yield
        except LedgerCorruptError as error:
            raise LedgerCorruptError(f"{self.folder}/{name}: {error}") from error
