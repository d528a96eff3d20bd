"""A window's folder: its manifest, the attempts to load it, and which one is published. The files are the state."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError, SparkFailedError
from airflow_kafka_offsets.ledger.publications import Publications
from airflow_kafka_offsets.ledger.settlement import Settlement
from airflow_kafka_offsets.ledger.storage import (
    StoragePath,
    create_exclusive,
    in_parallel,
    names,
    names_below,
    parse_json,
    read,
    read_json,
    to_json_bytes,
    uri_for_spark,
)
from airflow_kafka_offsets.ledger.window_listing import WindowListing
from airflow_kafka_offsets.offsets.instants import compact_instant, iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.proof.audit import Verdict
from airflow_kafka_offsets.offsets.proof.driver_notes import MOST_BYTES, FailureNote, SparkApplication
from airflow_kafka_offsets.offsets.proof.publication import OF_LOAD, Publication
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, published_result
from airflow_kafka_offsets.offsets.windows.ledger_names import (
    APPLICATIONS,
    ATTEMPTS,
    FAILURES,
    LOSSES,
    PUBLICATIONS,
    RESULTS,
    VERDICTS,
    json_object,
)
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest

UNKNOWN_MS = sys.maxsize
"""Start time of an attempt whose note doesn't tell it: it counts as later than all others."""


@dataclass(frozen=True, slots=True)
class PinnedManifest:
    """A stored manifest.

    :param uri: where it is stored, in a form that Spark can use too.
    :param sha256: hex digest of its bytes.
    :param manifest: its content.
    :param settled: whether its hash was stored beside it when it was read; then it is permanent.
    """

    uri: str
    sha256: str
    manifest: Manifest
    settled: bool = field(default=False, compare=False)

    def of_ledger(self, ledger_id: str) -> Self:
        """This manifest, if it was pinned in the given ledger.

        :param ledger_id: the identity of the ledger that it is stored in.
        :raises LedgerConflictError: when it was pinned in another ledger, whose folders were copied here.
        """
        if self.manifest.ledger_id != ledger_id:
            raise LedgerConflictError(
                f"{self.uri} was pinned in ledger {self.manifest.ledger_id}, but is now in ledger "
                f"{ledger_id}. Move or restore a ledger only as a whole folder, including pipeline.json."
            )
        return self


@contextmanager
def _naming(path: StoragePath) -> Iterator[None]:
    try:
        yield
    except LedgerCorruptError as error:
        raise LedgerCorruptError(f"{path}: {error}") from error


class WindowFolder:
    """One revision of a window in the ledger.

    :param folder: the revision's folder.
    :param window: the window's name.
    :param revision: the revision's number, from 1.
    :param publications: the window's publications, of all revisions.
    :param settlement: whether the revision counts.
    """

    def __init__(
        self, folder: StoragePath, window: str, revision: int, publications: Publications, settlement: Settlement
    ) -> None:
        self._folder = folder
        self.id = window
        self.revision = revision
        self.publications = publications
        self.settlement = settlement

    def listing(self) -> WindowListing:
        """A listing of its files.

        :raises LedgerCorruptError: when a publication is damaged.
        """
        files, start = tuple(names_below(self._folder)), f"{PUBLICATIONS}/"
        # The first revision's folder contains the publications.
        inside = [file.removeprefix(start) for file in files if file.startswith(start)] if self.revision == 1 else None
        return WindowListing(files, self.revision, tuple(self.publications.all(inside)))

    def pin(self, manifest: Manifest) -> PinnedManifest | None:
        """Store the manifest, or return the one that is already stored. It must be settled afterwards. None when the
        stored one was taken back.

        :raises LedgerCorruptError: when the stored one was changed.
        """
        stored = self.pin_new(manifest.revised(self.revision)) or self.pinned()
        if stored is None and not self.is_taken_back:
            raise LedgerCorruptError(f"{self._manifest} vanished while it was being stored.")
        return stored

    def pin_new(self, manifest: Manifest) -> PinnedManifest | None:
        """Store the manifest, which must be settled afterwards; None when another one is stored."""
        content = manifest.to_bytes()
        if not create_exclusive(self._manifest, content):
            return None
        return PinnedManifest(self.manifest_uri, digest(content), manifest)

    @property
    def is_pinned(self) -> bool:
        """Whether there is a manifest that wasn't taken back. Doesn't check its content."""
        return read(self._manifest) is not None and not self.is_taken_back

    @property
    def is_settled(self) -> bool:
        """Whether it counts: no other window shares its offsets, or the user allowed it."""
        return self.settlement.recorded().settled

    @property
    def is_taken_back(self) -> bool:
        """Whether it was taken back before it was settled."""
        return self.settlement.recorded().taken_back

    @property
    def manifest_uri(self) -> str:
        """URI of its manifest, in a form that Spark can use too."""
        return uri_for_spark(self._manifest)

    @property
    def _manifest(self) -> StoragePath:
        return self._folder / "manifest.json"

    def pinned(self) -> PinnedManifest | None:
        """The stored manifest, checked against the hash beside it; None when the window was never resolved, or was
        taken back. While it is being pinned, or after a crash, it has no hash: it is complete and keeps overlapping
        windows out, but counts only when it is settled.

        :raises LedgerCorruptError: when it was changed after it was stored.
        """
        content = read(self._manifest)
        if content is None:
            return None
        recorded = self.settlement.recorded()
        if recorded.taken_back:
            return None
        sha256 = recorded.sha256 or digest(content)
        with _naming(self._manifest):
            manifest = Manifest.from_bytes(content, sha256)
        return PinnedManifest(self.manifest_uri, sha256, manifest, recorded.settled)

    def record_attempt(self, attempt: str, fields: dict[str, Any]) -> None:
        """Record an attempt before it is submitted.

        :raises LedgerConflictError: when the name is taken.
        """
        path = self._folder / ATTEMPTS / f"{attempt}.json"
        if not create_exclusive(path, to_json_bytes({"format": 1, "attempt": attempt} | fields)):
            raise LedgerConflictError(f"{path} already exists: every attempt needs a name of its own.")

    def application(self, attempt: str, key: str | None = None) -> SparkApplication | None:
        """The Spark application of an attempt, from its note; None before its driver has started.

        :param key: the key that the driver signs with; without it, the address of its UI can't be trusted.
        :raises LedgerCorruptError: when the note is damaged, or is being written right now.
        """
        path = self._note_path(attempt)
        fields = read_json(path)
        with _naming(path):
            return None if fields is None else SparkApplication.from_json(fields, attempt, key)

    def writers(self) -> dict[str, int]:
        """Start times of the attempts whose drivers write rows, Unix milliseconds; :data:`UNKNOWN_MS` if the note is
        incomplete."""
        folder = self._folder / APPLICATIONS
        files = [name for name in names(folder) if name.endswith(".json")]
        notes = in_parallel(lambda name: json_object(read(folder / name)), files)
        return {
            file.removesuffix(".json"): int(note.get("started_ms", UNKNOWN_MS))
            for file, note in zip(files, notes, strict=True)
            if note.get("writes") is not False
        }

    def begun_before(self, attempt: str) -> frozenset[str]:
        """The attempts whose notes an attempt's driver found when it started, including incomplete notes."""
        return frozenset(map(str, self._note(attempt).get("after", ())))

    def _note(self, attempt: str) -> dict[str, Any]:
        """The note that an attempt's driver made when it started; empty when it is incomplete or missing."""
        return json_object(read(self._note_path(attempt)))

    def _note_path(self, attempt: str) -> StoragePath:
        return self._folder / APPLICATIONS / f"{attempt}.json"

    def result(self, attempt: str) -> RunResult | None:
        """An attempt's result; None when there is none.

        :raises LedgerCorruptError: when the file is damaged, or is being written right now.
        """
        found = self.counted(attempt)
        return None if found is None else found[0]

    def counted(self, attempt: str) -> tuple[RunResult, str] | None:
        """An attempt's result, and its file's hash; None when there is none.

        :raises LedgerCorruptError: as :meth:`result`; and when it is another attempt's.
        """
        path = self._folder / RESULTS / f"{attempt}.json"
        content = read(path)
        if content is None:
            return None
        with _naming(path):
            found = RunResult.from_json(parse_json(path, content))
        if found.attempt != attempt:
            raise LedgerCorruptError(f"{path} is the result of attempt {found.attempt}.")
        return found, digest(content)

    def record_result(self, result: RunResult) -> None:
        """Store the result of a driver that can't reach the ledger, unless the attempt already has one."""
        create_exclusive(self._folder / RESULTS / f"{result.attempt}.json", to_json_bytes(result.to_json()))

    def failure(self, attempt: str) -> FailureNote | None:
        """Why an attempt failed, as noted by its driver or by Airflow; None when nothing was noted.

        :raises LedgerCorruptError: when the file is damaged.
        """
        path = self._folder / FAILURES / f"{attempt}.json"
        content = read(path, limit_bytes=MOST_BYTES)
        with _naming(path):
            return None if content is None else FailureNote.from_bytes(content)

    def record_failure(self, attempt: str, note: FailureNote) -> None:
        """Record why an attempt failed, unless its driver has."""
        create_exclusive(self._folder / FAILURES / f"{attempt}.json", note.to_bytes())

    def record_loss(self, lost: Iterable[LogRange], found_ms: int) -> None:
        """Record which of the window's records are deleted, and when that was found."""
        ranges = [loss._asdict() for loss in lost]
        fields = {"format": 1, "found_at": iso_instant(found_ms), "lost": ranges}
        create_exclusive(self._folder / LOSSES / f"{compact_instant(found_ms)}.json", to_json_bytes(fields))

    def losses(self) -> list[LogRange]:
        """All recorded losses.

        :raises LedgerCorruptError: naming a file that vanished meanwhile, or is damaged.
        """
        return [lost for name in self.listing().losses for lost in self._loss(name)]

    def _loss(self, name: str) -> list[LogRange]:
        path = self._folder / LOSSES / f"{name}.json"
        fields = read_json(path)
        if fields is None:
            raise LedgerCorruptError(f"{path} vanished while it was read.")
        try:
            return [
                LogRange(str(lost["topic"]), *(int(lost[key]) for key in ("partition", "start_offset", "end_offset")))
                for lost in fields["lost"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"{path} isn't a record of lost offsets: {error!r}.") from error

    def lost_since(self) -> dict[TopicPartition, int]:
        """Number of offsets lost since it was pinned, by partition. Each record counts from the range's start."""
        found: dict[TopicPartition, int] = {}
        for loss in self.losses():
            partition = TopicPartition.of(loss)
            found[partition] = max(loss.span, found.get(partition, 0))
        return found

    def attempt(self, attempt: str) -> dict[str, Any]:
        """The recorded facts of an attempt, and of its prepared load: ``started_at``, and the Airflow task; empty when
        nothing was recorded."""
        load, mark, _ = attempt.rpartition(OF_LOAD)
        of_load = read_json(self._folder / ATTEMPTS / f"{load}.json") if mark else None
        # The own record of an attempt that was handed over says nothing more than that.
        return (of_load or {}) | (read_json(self._folder / ATTEMPTS / f"{attempt}.json") or {})

    def failure_of_load(self, load: str) -> FailureNote | None:
        """The newest failure among a prepared load's drivers, once all that started have failed or counted. None while
        one may be running, and when none has failed."""
        found = self.listing()
        known = {*found.attempts, *found.results, *found.failures}
        of_load = {name for name in known if name.startswith(f"{load}{OF_LOAD}")}
        failed = of_load.intersection(found.failures)
        if not failed or not all(map(self._has_counted, of_load - failed)):
            return None
        # Names end at random, so they don't tell the order. Notes of an earlier version have no time; an incomplete
        # note is new.
        return max(map(self._failure_to_tell, sorted(failed)), key=lambda note: note.noted_ms or 0)

    def _has_counted(self, attempt: str) -> bool:
        """Whether an attempt has a complete result; an incomplete one may still be being written."""
        try:
            return self.result(attempt) is not None
        except LedgerCorruptError:
            return False

    def _failure_to_tell(self, attempt: str) -> FailureNote:
        """Why a failed attempt failed. If its note can't be read, the failure counts as one that a retry may fix."""
        try:
            note = self.failure(attempt)
            why = "The file is gone."
        except LedgerCorruptError as error:
            note, why = None, str(error)
        return note or FailureNote(
            SparkFailedError.__name__, f"Attempt {attempt} failed, but its reason can't be read. {why}", sys.maxsize
        )

    def loading(self) -> str | None:
        """The newest attempt that may be running, in words; None when there is none."""
        unended = self.listing().unended
        if not unended:
            return None
        noted = self.attempt(unended[-1])
        run = noted.get("airflow") or {}
        since = f", submitted at {noted['started_at']}" if "started_at" in noted else ""
        by = f" by run {run['run_id']} of Dag {run['dag_id']}" if {"run_id", "dag_id"} <= run.keys() else ""
        return f"attempt {unended[-1]}{since}{by}"

    def publication(self) -> Publication | None:
        """The newest publication of this revision; None when there is none. Another revision's may count instead.

        :raises LedgerCorruptError: when one is damaged.
        """
        return self.publications.counting([self.revision])

    def published_result(self, published: Publication) -> RunResult:
        """The result of a published attempt.

        :param published: a publication of this revision.
        :raises LedgerCorruptError: when the result is missing, or was changed since.
        """
        path = self._folder / RESULTS / f"{published.attempt}.json"
        return published_result(published, read(path), str(path))

    def record_verified(self, attempt: str, verdict: Verdict) -> bool:
        """Record the verdict on the published attempt, unless one is recorded: its words may be another version's, and
        the log may have been compacted since its gaps were explained.

        :returns: whether none was recorded before.
        :raises LedgerConflictError: when the recorded one is about another attempt, or found another number of gaps.
        """
        path = self._folder / VERDICTS / f"{attempt}.json"
        fields = {"format": 1, "attempt": attempt} | asdict(verdict)
        if verdict.explained is None:
            del fields["explained"]
        stored = read_json(path)
        if stored is None and create_exclusive(path, to_json_bytes(fields)):
            return True
        if _facts(fields) != _facts(stored or read_json(path)):
            raise LedgerConflictError(f"{path} records a different verdict than {verdict}.")
        return False


def _facts(verdict: dict[str, Any] | None) -> tuple[Any, ...]:
    """What a recorded verdict says in fields that mean the same in every version."""
    return tuple((verdict or {}).get(name) for name in ("attempt", "gaps"))
