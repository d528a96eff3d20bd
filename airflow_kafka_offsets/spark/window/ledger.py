"""The ledger as a driver sees it: what its log adds up to, what that says of the driver's attempt, and its own files.

A driver commits nothing. It writes three files of its own: a note about itself, a result, and a failure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from uuid import uuid4

from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import CommitConflictError, KafkaOffsetsError, LedgerConflictError
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles, failure_file, note_file, result_file
from airflow_kafka_offsets.ledger.entries import Attempted, Output
from airflow_kafka_offsets.ledger.files import attempt_folder
from airflow_kafka_offsets.ledger.log import Log
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication, note_of
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, UsedSchemas
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.session.files import SessionFiles, files_of, hadoop_uri


@dataclass(frozen=True, slots=True)
class PipelineFiles:
    """The files of a pipeline's folder, as the ledger's log takes them: see :class:`.files.Files`."""

    files: SessionFiles
    folder: str

    def names(self, folder: str) -> list[str]:
        return self.files.names(f"{self.folder}/{folder}")

    def read(self, name: str) -> bytes | None:
        return self.files.read(f"{self.folder}/{name}")

    def create(self, name: str, content: bytes) -> bool:
        """Write a file that nobody else writes: a driver's own. A client of Spark Connect writes none."""
        self.files.write(f"{self.folder}/{name}", content)
        return True

    def replace(self, name: str, content: bytes) -> None:
        self.create(name, content)


class SharedLog:
    """A log that several windows of a driver read, one thread at a time."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = Lock()

    def read(self) -> State:
        """The state now."""
        with self._lock:
            return self._log.read()


def log_of(spark: SparkSession, pipeline_uri: str, at_least: int = 0) -> Log:
    """A pipeline's log, to read it.

    :param pipeline_uri: the pipeline's folder.
    :param at_least: the number of a commit that exists, if one is known; it saves a listing.
    """
    folder = hadoop_uri(pipeline_uri)
    return Log(PipelineFiles(files_of(spark), folder), folder, at_least)


class RunLedger:
    """The ledger as one driver of an attempt sees it.

    :param manifest_uri: where the window's manifest is: ``<pipeline's folder>/windows/<window>/<sha256>.json``.
    :param number: the attempt's number.
    :param at_least: as in :func:`log_of`.
    :param logs: the logs that the driver reads already, by the URI of their pipeline; this one's is added.
    """

    def __init__(
        self,
        spark: SparkSession,
        manifest_uri: str,
        number: int,
        at_least: int = 0,
        logs: dict[str, SharedLog] | None = None,
    ) -> None:
        self.pipeline_uri, _, self.window, _ = hadoop_uri(manifest_uri).rsplit("/", 3)
        self.number = number
        self.run = uuid4().hex[:8]
        self._files = PipelineFiles(files_of(spark), self.pipeline_uri)
        log = SharedLog(Log(self._files, self.pipeline_uri, at_least))
        self._log = log if logs is None else logs.setdefault(self.pipeline_uri, log)
        self._own = AttemptFiles(self._files, self.window, number)
        self._has_proved = False

    def attempt(self, manifest: Manifest) -> tuple[Window, Attempted]:
        """The window and this attempt at it, as the log has them now.

        :raises LedgerConflictError: the manifest is another ledger's, the window isn't there any more, or was resolved
            anew, or this attempt can't be published any more.
        """
        state = self._log.read()
        ledger_id = state.begun.ledger_id
        if ledger_id != manifest.ledger_id:
            raise LedgerConflictError(
                f"The manifest of window {manifest.window} was pinned in ledger {manifest.ledger_id}, but "
                f"{self.pipeline_uri} is ledger {ledger_id}. A ledger is moved or restored as a whole folder. Nothing "
                "is published."
            )
        window = state.window(manifest.window)
        if window.manifest != manifest.sha256:
            raise LedgerConflictError(
                f"Window {window.name} was resolved anew, to other offsets (manifest {window.manifest}, and "
                f"{manifest.sha256} before). Nothing is published. Clear the task that resolves it."
            )
        return window, _counting(window, self.number, manifest.pipeline)

    def refuse_overtaken(self, window: Window) -> None:
        """Refuse to replace rows when a later attempt has begun, whose rows would be those that count.

        :raises CommitConflictError: naming it.
        """
        newest = window.attempts[-1]
        if newest.number > self.number:
            raise CommitConflictError(
                f"Attempt {self.number} at window {window.name} replaces no rows: attempt {newest.number} began later. "
                "It may still be running or may have died. Nothing of this one is published. Run the task again."
            )

    def proved_result(self, window: Window, manifest: Manifest, lost: Collection[LogRange]) -> RunResult | None:
        """What another driver of this attempt read and wrote, if that is published, or proved and may be; None if none
        has come so far.

        :raises LedgerCorruptError: when the published result is missing, or was changed since.
        """
        if window.loaded is not None:
            return self._own.published(window.loaded)
        results = (result for result, _ in self._own.results())
        return next((result for result in results if judge(manifest, result, lost).proved), None)

    def schemas_before(self, window: Window) -> tuple[UsedSchemas, ...]:
        """The registered schemas that decoded the rows that readers have of the window; none if there are none.

        :raises LedgerCorruptError: when that result is missing, or was changed since.
        """
        published = window.publication
        if published is None:
            return ()
        return AttemptFiles(self._files, self.window, published.attempt).published(published).schemas

    def columns_of(self, places: Mapping[str, tuple[str, str]]) -> dict[str, str | None]:
        """The columns that outputs of files had by the last result that was published of another window with rows in
        them; those without one are left out.

        :param places: kind and folder of the whole table, by the output's name.
        """
        left, found = dict(places), dict[str, str | None]()
        others = (window for window in self._log.read().published if window.name != self.window)
        for window in sorted(others, key=lambda each: each.publication.number if each.publication else 0, reverse=True):
            if not left:
                break
            published = window.publication
            assert published is not None, "it is published"
            told = {each.name for each in published.outputs if each.rows and _is_of(each, left.get(each.name))}
            if told:
                result = AttemptFiles(self._files, window.name, published.attempt).published(published)
                found |= {each.name: each.columns for each in result.outputs if each.name in told}
                left = {name: place for name, place in left.items() if name not in told}
        return found

    def has_rows_left(self) -> bool:
        """Whether outputs may have rows under the window's name that aren't its own: see :attr:`.State.rows_left`."""
        return self.window in self._log.read().rows_left

    def knows(self, number: int, run: str) -> bool:
        """Whether a driver of an attempt at this window has noted in this ledger that it began."""
        return self._files.read(f"{attempt_folder(self.window, number)}/{note_file(run)}") is not None

    def note(self, application: SparkApplication) -> None:
        """Note which Spark application this driver is; before it replaces anything."""
        content = application.to_bytes()
        self._files.create(f"{self._own.folder}/{note_file(self.run)}", content)

    def record(self, result: RunResult, *, proved: bool) -> None:
        """Store what this driver read and wrote, proved or not."""
        self._own.record_result(result)
        self._has_proved = proved

    @property
    def result_uri(self) -> str:
        """Where that is."""
        return f"{self.pipeline_uri}/{self._own.folder}/{result_file(self.run)}"

    @contextmanager
    def failures_noted(self) -> Iterator[None]:
        """Note an error of this package that ends the block, for the waiting task, and re-raise it. The application's
        own errors aren't noted, because they may contain anything."""
        try:
            yield
        except KafkaOffsetsError as error:
            self.note_failure(error)
            raise

    def note_failure(self, error: Exception) -> None:
        """Note why this driver couldn't load the window."""
        with suppress(Exception):  # the error itself is what counts
            note = note_of(error, is_after_proof=self._has_proved)
            self._files.create(f"{self._own.folder}/{failure_file(self.run)}", note.to_bytes())


def _is_of(output: Output, place: tuple[str, str] | None) -> bool:
    """Whether an output of a window is a part of a table of files."""
    return place is not None and output.sink == place[0] and str(output.output).startswith(f"{place[1]}/")


def _counting(window: Window, number: int, pipeline: str) -> Attempted:
    """An attempt, if it can still be published, or is."""
    attempt, published = window.attempt(number), window.loaded
    if attempt is not None and (attempt in window.open_attempts or (published and published.attempt == number)):
        return attempt
    refused = f"Attempt {number} at window {window.name} reads and writes nothing"
    if published is not None:
        why = (
            f"attempt {published.attempt} is published. To load it again, run kafka-offsets ledger reload {pipeline} "
            f"{window.name}, then the task"
        )
    elif attempt is None and number > window.reloaded:
        begin = f"kafka-offsets ledger begin {pipeline} {window.name}"
        why = f"the ledger's log has no such attempt at it. Begin one: {begin}"
    else:
        raise CommitConflictError(f"{refused}: it is to be loaded again since. Run the task again.")
    raise LedgerConflictError(f"{refused}: {why}.")
