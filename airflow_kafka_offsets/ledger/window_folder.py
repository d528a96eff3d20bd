"""A window's folder: its manifest, the attempts to load it, which one is published. The files are the state."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError, SparkFailedError
from airflow_kafka_offsets.ledger.publications import Publications
from airflow_kafka_offsets.ledger.storage import (
    StoragePath,
    create_exclusive,
    in_parallel,
    names,
    names_below,
    parse_json,
    plain_uri,
    read,
    read_json,
    to_json_bytes,
)
from airflow_kafka_offsets.ledger.window_listing import VERDICTS, WindowListing
from airflow_kafka_offsets.offsets.instants import compact_instant, iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.proof.audit import Verdict
from airflow_kafka_offsets.offsets.proof.driver_notes import FAILURES, MOST_BYTES, FailureNote, SparkApplication
from airflow_kafka_offsets.offsets.proof.publication import OF_LOAD, PUBLICATIONS, Publication
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, published_counts
from airflow_kafka_offsets.offsets.windows.ledger_names import json_object
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest

_TAKEN_BACK = b"taken back"
"""How ``manifest.sha256`` begins instead of a hash, where the window was taken back before it was settled."""
UNKNOWN_MS = sys.maxsize
"""When an attempt began whose note doesn't tell: after all others, as far as they know."""


@dataclass(frozen=True, slots=True)
class PinnedManifest:
    """A stored manifest.

    :param uri: where it is stored, as Spark knows the place too.
    :param sha256: hex digest of its bytes.
    :param manifest: what it says.
    :param settled: whether its hash stood beside it when it was read; it stays then.
    """

    uri: str
    sha256: str
    manifest: Manifest
    settled: bool = field(default=False, compare=False)

    def of_ledger(self, ledger_id: str) -> Self:
        """The same, when it was pinned in a ledger.

        :param ledger_id: the identity of the ledger that it lies in.
        :raises LedgerConflictError: when it was pinned in another one, whose folders were copied here.
        """
        if self.manifest.ledger_id != ledger_id:
            raise LedgerConflictError(
                f"{self.uri} was pinned in ledger {self.manifest.ledger_id}, but lies in ledger "
                f"{ledger_id}. A ledger is moved or restored as a whole folder, pipeline.json included."
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

    :param folder: its folder.
    :param window: the window's name.
    :param revision: the revision's number, from 1 on.
    :param publications: what was published of the window, in any revision.
    """

    def __init__(self, folder: StoragePath, window: str, revision: int, publications: Publications) -> None:
        self._folder = folder
        self.id = window
        self.revision = revision
        self.publications = publications

    def listing(self) -> WindowListing:
        """What its files say.

        :raises LedgerCorruptError: when a publication isn't what it should be.
        """
        files, start = tuple(names_below(self._folder)), f"{PUBLICATIONS}/"
        # The first revision's folder has the publications in it.
        inside = [file.removeprefix(start) for file in files if file.startswith(start)] if self.revision == 1 else None
        return WindowListing(files, self.revision, tuple(self.publications.all(inside)))

    def pin(self, manifest: Manifest) -> PinnedManifest:
        """Store the manifest, or return the one that is stored already. It is to be settled then.

        :raises LedgerCorruptError: when the stored one was changed.
        """
        stored = self.pin_new(manifest.revised(self.revision)) or self.pinned()
        if stored is None:
            raise LedgerCorruptError(f"{self._manifest} vanished while it was being stored.")
        return stored

    def pin_new(self, manifest: Manifest) -> PinnedManifest | None:
        """Store the manifest, which is to be settled then; None when another one is stored."""
        content = manifest.to_bytes()
        if not create_exclusive(self._manifest, content):
            return None
        return PinnedManifest(self.manifest_uri, digest(content), manifest)

    @property
    def is_pinned(self) -> bool:
        """Whether there is a manifest that wasn't taken back, whatever it says."""
        return read(self._manifest) is not None and not self.is_taken_back

    @property
    def is_settled(self) -> bool:
        """Whether its hash was written: no other window shares its offsets, or somebody asked for it all the same."""
        recorded = read(self._sha256)
        return recorded is not None and not recorded.startswith(_TAKEN_BACK)

    @property
    def is_taken_back(self) -> bool:
        """Whether it was taken back before it was settled."""
        return (read(self._sha256) or b"").startswith(_TAKEN_BACK)

    def settle(self, sha256: str) -> bool:
        """Write the hash of the stored manifest, where it has none.

        :returns: False where it was taken back before.
        """
        return create_exclusive(self._sha256, sha256.encode()) or not self.is_taken_back

    def take_back(self, why: str) -> bool:
        """Write in place of the hash that there will be none, so that of settling and taking back one wins.

        :returns: False where it is settled.
        """
        create_exclusive(self._sha256, _TAKEN_BACK + f": {why}".encode())
        return self.is_taken_back

    @property
    def manifest_uri(self) -> str:
        """Where its manifest is, as Spark knows the place too."""
        return plain_uri(self._manifest)

    @property
    def _manifest(self) -> StoragePath:
        return self._folder / "manifest.json"

    @property
    def _sha256(self) -> StoragePath:
        return self._folder / "manifest.sha256"

    def pinned(self) -> PinnedManifest | None:
        """The stored manifest, checked against the hash beside it; None when the window was never resolved, or was
        taken back. One that is being pinned at this moment, or was when a crash came, has no hash yet: it was created
        whole, keeps overlapping ones out, and counts once it is settled.

        :raises LedgerCorruptError: when it was changed after it was stored.
        """
        content = read(self._manifest)
        if content is None:
            return None
        recorded = read(self._sha256)
        if recorded is not None and recorded.startswith(_TAKEN_BACK):
            return None
        sha256 = digest(content) if recorded is None else recorded.decode()
        with _naming(self._manifest):
            manifest = Manifest.from_bytes(content, sha256)
        return PinnedManifest(self.manifest_uri, sha256, manifest, settled=recorded is not None)

    def record_attempt(self, attempt: str, fields: dict[str, Any]) -> None:
        """Note an attempt before it is submitted.

        :raises LedgerConflictError: when the name is taken.
        """
        path = self._folder / "attempts" / f"{attempt}.json"
        if not create_exclusive(path, to_json_bytes({"format": 1, "attempt": attempt} | fields)):
            raise LedgerConflictError(f"{path} exists already: every attempt needs a name of its own.")

    def application(self, attempt: str, key: str | None = None) -> SparkApplication | None:
        """The Spark application that an attempt is; None before its driver has begun.

        :param key: what the driver signs with; without it nobody vouches for the address of its UI.
        :raises LedgerCorruptError: when the file isn't what it should be, or is being written at this moment.
        """
        path = self._folder / "applications" / f"{attempt}.json"
        fields = read_json(path)
        with _naming(path):
            return None if fields is None else SparkApplication.from_json(fields, attempt, key)

    def writers(self) -> dict[str, int]:
        """When each attempt began whose driver was to write rows, Unix milliseconds; :data:`UNKNOWN_MS` where that is
        half written."""
        folder = self._folder / "applications"
        files = [name for name in names(folder) if name.endswith(".json")]
        notes = in_parallel(lambda name: json_object(read(folder / name)), files)
        return {
            file.removesuffix(".json"): int(note.get("started_ms", UNKNOWN_MS))
            for file, note in zip(files, notes, strict=True)
            if note.get("writes") is not False
        }

    def begun_before(self, attempt: str) -> frozenset[str]:
        """The attempts whose notes an attempt's driver found when it began, half written ones too."""
        return frozenset(map(str, self._note(attempt).get("after", ())))

    def is_refused(self, attempt: str) -> bool:
        """Whether a driver has noted since that what an attempt has written isn't to be taken over."""
        return bool(self._note(attempt).get("refused"))

    def _note(self, attempt: str) -> dict[str, Any]:
        """What an attempt's driver noted when it began; empty where that is half written, or there is none."""
        return json_object(read(self._folder / "applications" / f"{attempt}.json"))

    def result(self, attempt: str) -> RunResult | None:
        """What an attempt read and wrote; None when it never got that far.

        :raises LedgerCorruptError: when the file isn't what it should be, or is being written at this moment.
        """
        found = self.counted(attempt)
        return None if found is None else found[0]

    def counted(self, attempt: str) -> tuple[RunResult, str] | None:
        """The same, and the file's hash.

        :raises LedgerCorruptError: as :meth:`result`; and when it is another attempt's.
        """
        path = self._folder / "results" / f"{attempt}.json"
        content = read(path)
        if content is None:
            return None
        with _naming(path):
            found = RunResult.from_json(parse_json(path, content))
        if found.attempt != attempt:
            raise LedgerCorruptError(f"{path} is the result of attempt {found.attempt}.")
        return found, digest(content)

    def record_result(self, result: RunResult) -> None:
        """Keep what a driver counted that doesn't reach the ledger, where the attempt has no result yet."""
        create_exclusive(self._folder / "results" / f"{result.attempt}.json", to_json_bytes(result.to_json()))

    def failure(self, attempt: str) -> FailureNote | None:
        """Why an attempt failed, as its driver noted it; None when it noted nothing.

        :raises LedgerCorruptError: when the file isn't what it should be.
        """
        path = self._folder / FAILURES / f"{attempt}.json"
        content = read(path, limit_bytes=MOST_BYTES)
        with _naming(path):
            return None if content is None else FailureNote.from_bytes(content)

    def record_failure(self, attempt: str, note: FailureNote) -> None:
        """Note why an attempt failed, where its driver hasn't."""
        create_exclusive(self._folder / FAILURES / f"{attempt}.json", note.to_bytes())

    def record_loss(self, lost: Iterable[LogRange], found_ms: int) -> None:
        """Note that records of the window are gone: which, and when that was found."""
        ranges = [loss._asdict() for loss in lost]
        fields = {"format": 1, "found_at": iso_instant(found_ms), "lost": ranges}
        create_exclusive(self._folder / "losses" / f"{compact_instant(found_ms)}.json", to_json_bytes(fields))

    def losses(self) -> list[LogRange]:
        """All losses that were noted.

        :raises LedgerCorruptError: naming a note that vanished meanwhile, or isn't one.
        """
        return [lost for name in self.listing().losses for lost in self._loss(name)]

    def _loss(self, name: str) -> list[LogRange]:
        path = self._folder / "losses" / f"{name}.json"
        fields = read_json(path)
        if fields is None:
            raise LedgerCorruptError(f"{path} vanished while it was read.")
        try:
            return [
                LogRange(str(lost["topic"]), *(int(lost[key]) for key in ("partition", "start_offset", "end_offset")))
                for lost in fields["lost"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerCorruptError(f"{path} is not a note of lost records: {error!r}.") from error

    def lost_since(self) -> dict[TopicPartition, int]:
        """How many offsets were lost since it was pinned, by partition. Each note counts from the range's start."""
        found: dict[TopicPartition, int] = {}
        for loss in self.losses():
            partition = TopicPartition.of(loss)
            found[partition] = max(loss.span, found.get(partition, 0))
        return found

    def attempt(self, attempt: str) -> dict[str, Any]:
        """What was noted of an attempt, or of the prepared load that it is of: ``started_at``, and which Airflow task
        it was; empty when nothing was."""
        load, apart, _ = attempt.rpartition(OF_LOAD)
        of_load = read_json(self._folder / "attempts" / f"{load}.json") if apart else None
        # Of one that was handed over, its own note says no more than that.
        return (of_load or {}) | (read_json(self._folder / "attempts" / f"{attempt}.json") or {})

    def failure_of_load(self, load: str) -> FailureNote | None:
        """The newest failure of a prepared load's drivers, once all that have begun have ended: have failed, or
        counted. None while one may be running, and where none has failed."""
        found = self.listing()
        known = {*found.attempts, *found.results, *found.failures}
        of_load = {name for name in known if name.startswith(f"{load}{OF_LOAD}")}
        failed = of_load.intersection(found.failures)
        if not failed or not all(map(self._has_counted, of_load - failed)):
            return None
        # Names end at random. A note of an earlier version doesn't tell its time, and one that is half written is new.
        return max(map(self._failure_to_tell, sorted(failed)), key=lambda note: note.noted_ms or 0)

    def _has_counted(self, attempt: str) -> bool:
        """Whether an attempt has a whole result: half written, it may be on its way."""
        try:
            return self.result(attempt) is not None
        except LedgerCorruptError:
            return False

    def _failure_to_tell(self, attempt: str) -> FailureNote:
        """Why an attempt failed that did. It may pass where the note can't be read: it says nothing else."""
        try:
            note = self.failure(attempt)
            why = "The file is gone."
        except LedgerCorruptError as error:
            note, why = None, str(error)
        return note or FailureNote(
            SparkFailedError.__name__, f"Attempt {attempt} failed, and why can't be read. {why}", sys.maxsize
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
        """The newest publication of this revision; None when none was published. Another revision's may count.

        :raises LedgerCorruptError: when one isn't what it should be.
        """
        return self.publications.counting([self.revision])

    def published_result(self, published: Publication) -> RunResult:
        """What a published attempt counted.

        :param published: a publication of this revision.
        :raises LedgerCorruptError: when the counts are missing, or were changed since.
        """
        path = self._folder / "results" / f"{published.attempt}.json"
        return published_counts(published, read(path), str(path))

    def record_verified(self, attempt: str, verdict: Verdict) -> None:
        """Note the verdict on the published attempt. What explains its gaps stays as it was noted first: a log that was
        looked at later may have been compacted since.

        :raises LedgerConflictError: when another verdict is recorded.
        """
        path = self._folder / VERDICTS / f"{attempt}.json"
        fields = {"format": 1, "attempt": attempt} | asdict(verdict)
        if verdict.explained is None:
            del fields["explained"]
        if not create_exclusive(path, to_json_bytes(fields)) and _unexplained(fields) != _unexplained(read_json(path)):
            raise LedgerConflictError(f"{path} records a verdict other than {verdict}.")


def _unexplained(verdict: dict[str, Any] | None) -> bytes:
    """A recorded verdict without what explains its gaps."""
    return to_json_bytes({name: value for name, value in (verdict or {}).items() if name != "explained"})
