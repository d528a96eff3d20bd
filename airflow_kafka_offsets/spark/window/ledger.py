"""The ledger as a driver sees it: its identity, which attempt of a window counts, and what each attempt has counted.

A driver writes three files: a note about its attempt, a result and a failure. Only Airflow's side creates publications.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.offsets.proof.driver_notes import note_of
from airflow_kafka_offsets.offsets.proof.publication import (
    Publication,
    counting,
    publication_file,
    publication_numbers,
)
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, published_result
from airflow_kafka_offsets.offsets.windows.ledger_names import (
    APPLICATIONS,
    FAILURES,
    PIPELINE,
    PUBLICATIONS,
    RESULTS,
    WINDOWS,
    LedgerIdentity,
    json_object,
    live_revisions,
    pipeline_folder,
    revision_folder,
)
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.session.files import ConnectFiles, HadoopFiles, LedgerFiles
from airflow_kafka_offsets.spark.session.session import is_connect

_ENDING = ".json"


@dataclass(frozen=True, slots=True)
class PinnedFolder:
    """The folder of a window's revision, with its manifest, and what else the ledger has for that window."""

    files: LedgerFiles
    uri: str
    manifest: Manifest

    @classmethod
    def of(cls, spark: SparkSession, uri: str, manifest: Manifest) -> PinnedFolder:
        """The folder as a session reaches it."""
        if not is_connect(spark):
            return cls(HadoopFiles(spark), uri, manifest)
        window = f"{uri.rpartition('/')[0]}/{manifest.window}"
        read = [f"{window}/{PUBLICATIONS}/*.json", f"{window}*/{APPLICATIONS}/*.json", f"{window}*/{RESULTS}/*.json"]
        read.append(f"{pipeline_folder(uri)}/{PIPELINE}")
        return cls(ConnectFiles(spark, read, [f"{window}*/manifest.json", f"{window}.r*.forgotten"]), uri, manifest)

    @property
    def notes(self) -> AttemptNotes:
        """The notes of attempts at this revision."""
        return AttemptNotes(self.files, self.uri)

    def require_own_ledger(self) -> None:
        """Refuse a manifest that lies in a ledger other than the one it was pinned in."""
        pipeline_uri = pipeline_folder(self.uri)
        found = ledger_identity(self.files, pipeline_uri).ledger_id
        if found != self.manifest.ledger_id:
            raise LedgerConflictError(
                f"The manifest in {self.uri} was pinned in ledger {self.manifest.ledger_id}, but "
                f"{pipeline_uri} is ledger {found}. A ledger is moved or restored as a whole folder, "
                "pipeline.json included. Nothing is published."
            )

    def publication(self) -> Publication | None:
        """The window's publication that counts, of any revision; None when nothing is published."""
        month = self.uri.rpartition("/")[0]
        live = live_revisions(self.files.names(month)).get(self.manifest.window, ())
        return counting_publication(self.files, month, self.manifest.window, live)

    def published_result(self, published: Publication) -> RunResult:
        """The counts of a published attempt; a LedgerCorruptError if they are missing, or were changed since."""
        revision = revision_folder(self.manifest.window, published.revision)
        uri = f"{self.uri.rpartition('/')[0]}/{revision}/{RESULTS}/{published.attempt}.json"
        return published_result(published, self.files.read(uri), uri)

    def result_uri(self, attempt: str) -> str:
        """URI of the file that says what an attempt at this revision read and wrote, proved or not."""
        return f"{self.uri}/{RESULTS}/{attempt}.json"

    def write_result(self, result: RunResult) -> None:
        """Store an attempt's counts; a Spark Connect client stores nothing."""
        self.files.write(self.result_uri(result.attempt), json.dumps(result.to_json()).encode())


@dataclass(frozen=True, slots=True)
class AttemptNotes:
    """The notes of attempts at a window's revision, one for each attempt, in ``applications/``. A note is written
    before anything is read. It says which Spark application the attempt is, when it began, and whether it writes.

    Two attempts that list and write notes at the same moment may miss each other, so an attempt that meets one it
    doesn't know lists them again.
    """

    files: LedgerFiles
    folder: str

    def names(self) -> frozenset[str]:
        """Names of the attempts that have begun."""
        found = self.files.names(f"{self.folder}/{APPLICATIONS}")
        return frozenset(name.removesuffix(_ENDING) for name in found if name.endswith(_ENDING))

    def names_now(self) -> frozenset[str]:
        """The same, read again from the store."""
        self.files.look_again()
        return self.names()

    def read(self, attempt: str) -> dict[str, Any]:
        """An attempt's note; empty if it is half-written."""
        return json_object(self.files.read(self.uri(attempt)))

    def write(self, attempt: str, note: Mapping[str, Any]) -> None:
        """Write an attempt's note."""
        self.files.write(self.uri(attempt), json.dumps(note).encode())

    def add(self, attempt: str, **told: Any) -> None:
        """Add to an attempt's note: ``writes``, False if it leaves all outputs as they were; ``recounted``, whether it
        has found the published rows in them."""
        self.write(attempt, self.read(attempt) | told)

    @contextmanager
    def unwritten(self, attempt: str) -> Iterator[None]:
        """If the block fails, note that the attempt hasn't written, so that an earlier attempt's result can still be
        published."""
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the error itself is what counts
                self.add(attempt, writes=False)
            raise

    def writers(self) -> list[str]:
        """Names of the attempts that have begun, except those that only count what was published before."""
        return sorted(name for name in self.names() if self.read(name).get("writes") is not False)

    def uri(self, attempt: str) -> str:
        """URI of an attempt's note."""
        return f"{self.folder}/{APPLICATIONS}/{attempt}{_ENDING}"


def pipeline_files(spark: SparkSession, pipeline_uri: str) -> LedgerFiles:
    """A pipeline's files, to read what is published of all its windows."""
    if not is_connect(spark):
        return HadoopFiles(spark)
    windows = f"{pipeline_uri}/{WINDOWS}/*"
    read = [f"{windows}/*/{PUBLICATIONS}/*.json", f"{windows}/*.r*/{APPLICATIONS}/*.json"]
    return ConnectFiles(spark, read, [f"{windows}/*/manifest.json", f"{windows}/*.forgotten"])


def ledger_identity(files: LedgerFiles, pipeline_uri: str) -> LedgerIdentity:
    """The identity of the ledger in a pipeline's folder; a LedgerCorruptError if no ``pipeline.json`` gives it."""
    uri = f"{pipeline_uri}/{PIPELINE}"
    return LedgerIdentity.of_pipeline(json_object(files.read(uri)), uri)


def counting_publication(files: LedgerFiles, month: str, window: str, live: Collection[int]) -> Publication | None:
    """A window's publication that counts; None when nothing is published. A LedgerCorruptError if a file is malformed.

    :param month: the folder of the window's month.
    :param live: numbers of the revisions that count.
    """
    folder = f"{month}/{revision_folder(window, 1)}/{PUBLICATIONS}"
    for number in reversed(publication_numbers(files.names(folder))):
        uri = f"{folder}/{publication_file(number)}"
        content = files.read(uri)
        if content is None:
            raise LedgerCorruptError(
                f"The publication {uri} vanished while it was read: publications must not be deleted. Restore it."
            )
        found = counting([Publication.from_bytes(content)], live)
        if found is not None:
            return found
    return None


@contextmanager
def failures_noted(spark: SparkSession, folder: str, attempt: str) -> Iterator[None]:
    """Note an error of this package that ends the block, beside the window, for the waiting task, and re-raise it. The
    application's own errors aren't noted, because they may contain anything. Under Spark Connect nothing is noted: the
    client doesn't reach the ledger."""
    try:
        yield
    except KafkaOffsetsError as error:
        with suppress(Exception):  # the error itself is what counts
            HadoopFiles(spark).write(f"{folder}/{FAILURES}/{attempt}.json", note_of(error).to_bytes())
        raise
