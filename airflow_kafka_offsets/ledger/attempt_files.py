"""The files of one attempt: what its drivers counted, and why it failed. The log decides which of them count.

A submitter may start several drivers of one attempt. Each is a run, and writes files of its own: a note that says
which Spark application it is, a result, whose hash a publication names, and a failure, if there is one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from airflow_kafka_offsets.errors import LedgerCorruptError, SparkFailedError
from airflow_kafka_offsets.ledger.entries import Published
from airflow_kafka_offsets.ledger.files import Files, attempt_folder
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote, SparkApplication
from airflow_kafka_offsets.offsets.proof.run_result import RESULT, RUN, RunResult
from airflow_kafka_offsets.offsets.windows.manifest import digest

log = logging.getLogger(__name__)

T = TypeVar("T")

ENDED = "ended.json"
"""Why the attempt failed, as Airflow's side says."""
_FILE = re.compile(rf"({RUN.pattern})\.(note|result|failure)\.json", re.ASCII)


def note_file(run: str) -> str:
    return f"{run}.note.json"


def result_file(run: str) -> str:
    return f"{run}.result.json"


def failure_file(run: str) -> str:
    return f"{run}.failure.json"


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

    def runs(self) -> dict[str, set[str]]:
        """What each driver has written: ``note``, ``result``, ``failure``, by run. One listing."""
        runs: dict[str, set[str]] = {}
        for match in filter(None, map(_FILE.fullmatch, sorted(self.files.names(self.folder)))):
            runs.setdefault(match[1], set()).add(match[2])
        return runs

    @property
    def is_noted(self) -> bool:
        """Whether a driver has noted what it counted, or why it failed. One listing."""
        return any({"result", "failure"} & kinds for kinds in self.runs().values())

    def applications(self) -> list[SparkApplication]:
        """The Spark applications of all drivers that have started, in the order of their runs. A note that is being
        written right now is left out."""
        return list(self._whole("note", lambda run, _: self.application(run)))

    def results(self) -> list[tuple[RunResult, str]]:
        """What the drivers have read and wrote, each with the hash of its file, in the order of their runs. A result
        that is damaged, or is being written right now, is left out; and so is that of a driver that failed at the
        window after it had proved it, as it may not have done all that it was to do."""

        def standing(run: str, wrote: set[str]) -> tuple[RunResult, str] | None:
            failure = self._note(failure_file(run)) if "failure" in wrote else None
            return None if failure is not None and failure.is_after_proof else self.result(run)

        return list(self._whole("result", standing))

    def application(self, run: str) -> SparkApplication | None:
        """A driver's Spark application; None before it has started.

        :raises LedgerCorruptError: when the note is damaged, or is being written right now.
        """
        return self._parsed(note_file(run), SparkApplication.from_bytes)

    def result(self, run: str) -> tuple[RunResult, str] | None:
        """What a driver read and wrote, and the hash of the file that says so; None when there is none.

        :raises LedgerCorruptError: when it is damaged, is being written right now, or is another driver's.
        """

        def parse(content: bytes) -> tuple[RunResult, str]:
            result = plain_json.from_bytes(RunResult, content, RESULT)
            if (result.attempt, result.run) != (self.number, run):
                raise LedgerCorruptError(f"It is the result of run {result.run} of attempt {result.attempt}.")
            return result, digest(content)

        return self._parsed(result_file(run), parse)

    def published(self, publication: Published) -> RunResult:
        """What the published driver of this attempt read and wrote.

        :raises LedgerCorruptError: when the file is missing, or was changed since.
        """
        result, sha256 = self.result(publication.run) or (None, None)
        if result is None or sha256 != publication.result:
            what = "missing" if result is None else f"changed (its sha256 is {sha256})"
            raise LedgerCorruptError(
                f"{self.folder}/{result_file(publication.run)} is {what}, though it is published (sha256 "
                f"{publication.result}). Restore the file as it was, from a backup or an earlier version of the object."
            )
        return result

    def record_result(self, result: RunResult) -> bool:
        """Store the result of a driver that can't reach the ledger. Returns whether it is the one that is stored."""
        return self.files.create(f"{self.folder}/{result_file(result.run)}", plain_json.to_bytes(result))

    def failure(self) -> FailureNote | None:
        """Why it failed: what the driver that failed last says, or else Airflow's side; None when nobody said. A reason
        that can't be read, as its driver died while it wrote it, is one that may pass.
        """
        notes = list(self._whole("failure", lambda run, _: self._note(failure_file(run))))
        return max(notes, key=lambda note: note.noted_ms or 0) if notes else self._note(ENDED)

    @property
    def has_ended(self) -> bool:
        """Whether Airflow's side has recorded that it failed, whatever its drivers have counted."""
        return self.files.read(f"{self.folder}/{ENDED}") is not None

    def record_failure(self, note: FailureNote) -> None:
        """Record on Airflow's side why it failed, once."""
        self.files.create(f"{self.folder}/{ENDED}", note.to_bytes())

    def _whole(self, kind: str, read: Callable[[str, set[str]], T | None]) -> Iterator[T]:
        """What is in the drivers' files of a kind, without those that can't be read: not every store creates files at
        once.

        :param read: is given a run, and what all it has written.
        """
        for run, wrote in self.runs().items():
            if kind not in wrote:
                continue
            try:
                content = read(run, wrote)
            except LedgerCorruptError as error:
                log.warning("%s The file is ignored.", error)
            else:
                if content is not None:
                    yield content

    def _note(self, name: str) -> FailureNote | None:
        try:
            return self._parsed(name, FailureNote.from_bytes)
        except LedgerCorruptError as error:
            unread = f"Attempt {self.number} failed, but its reason can't be read. {error}"
            return FailureNote(SparkFailedError.__name__, unread, is_after_proof=True)

    def _parsed(self, name: str, parse: Callable[[bytes], T]) -> T | None:
        content = self.files.read(f"{self.folder}/{name}")
        try:
            return None if content is None else parse(content)
        except LedgerCorruptError as error:
            raise LedgerCorruptError(f"{self.folder}/{name}: {error}") from error
