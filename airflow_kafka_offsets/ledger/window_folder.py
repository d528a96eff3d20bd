"""A window's folder: its manifest, the attempts to load it, which one is published. The files are the state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger.storage import (
    StoragePath,
    create_exclusive,
    names,
    plain_uri,
    read,
    read_json,
    to_json_bytes,
)
from airflow_kafka_offsets.offsets.audit import RunResult, Verdict
from airflow_kafka_offsets.offsets.manifest import Manifest, digest
from airflow_kafka_offsets.offsets.publication import COMMITTED, Publication


class WindowState(StrEnum):
    """How far a window has come."""

    RESOLVED = "resolved"
    SUBMITTED = "submitted"
    COMMITTED = "committed"
    VERIFIED = "verified"


@dataclass(frozen=True, slots=True)
class PinnedManifest:
    """A stored manifest.

    :param uri: where it is stored, as Spark knows the place too.
    :param sha256: hex digest of its bytes.
    :param manifest: what it says.
    """

    uri: str
    sha256: str
    manifest: Manifest


@contextmanager
def _naming(path: StoragePath) -> Iterator[None]:
    """Say which file is not what it should be."""
    try:
        yield
    except LedgerCorruptError as error:
        raise LedgerCorruptError(f"{path}: {error}") from error


class WindowFolder:
    """One window in the ledger.

    :param folder: the window's folder.
    """

    def __init__(self, folder: StoragePath) -> None:
        self._folder = folder

    @property
    def id(self) -> str:
        """The window's name."""
        return self._folder.name

    def pin(self, manifest: Manifest) -> PinnedManifest:
        """Store the manifest, or return the one that is stored already.

        :raises LedgerConflictError: when the stored one was made from other snapshots.
        :raises LedgerCorruptError: when the stored one was changed.
        """
        content = manifest.to_bytes()
        if create_exclusive(self._manifest, content):
            create_exclusive(self._sha256, digest(content).encode())
        stored = self.pinned()
        if stored is None:
            raise LedgerCorruptError(f"{self._manifest} vanished while it was being stored.")
        snapshots = (stored.manifest.start_snapshot, stored.manifest.end_snapshot)
        if snapshots != (manifest.start_snapshot, manifest.end_snapshot):
            raise LedgerConflictError(
                f"{self._manifest} was made from snapshots {snapshots}, not from {manifest.start_snapshot} and "
                f"{manifest.end_snapshot}."
            )
        return stored

    @property
    def _manifest(self) -> StoragePath:
        return self._folder / "manifest.json"

    @property
    def _sha256(self) -> StoragePath:
        return self._folder / "manifest.sha256"

    def pinned(self) -> PinnedManifest | None:
        """The stored manifest, checked against the hash beside it; None when the window was never resolved.

        :raises LedgerCorruptError: when it was changed after it was stored, or a crash left its hash out: pinning the
            window again writes the hash, if the manifest is what it should be.
        """
        content = read(self._manifest)
        if content is None:
            return None
        recorded = read(self._sha256)
        if recorded is None:
            raise LedgerCorruptError(f"{self._sha256} is missing: resolve the window again, which writes it.")
        sha256 = recorded.decode()
        with _naming(self._manifest):
            return PinnedManifest(plain_uri(self._manifest), sha256, Manifest.from_bytes(content, sha256))

    def record_attempt(self, attempt: str, fields: dict[str, Any]) -> None:
        """Note an attempt before it is submitted.

        :raises LedgerConflictError: when the name is taken.
        """
        path = self._folder / "attempts" / f"{attempt}.json"
        if not create_exclusive(path, to_json_bytes({"format": 1, "attempt": attempt} | fields)):
            raise LedgerConflictError(f"{path} exists already: every attempt needs a name of its own.")

    def attempts(self) -> list[str]:
        """Names of all attempts, in order of submission."""
        return [name.removesuffix(".json") for name in names(self._folder / "attempts")]

    def result(self, attempt: str) -> RunResult | None:
        """What an attempt read and wrote; None when it never got that far.

        :raises LedgerCorruptError: when the file isn't what it should be.
        """
        path = self._folder / "results" / f"{attempt}.json"
        fields = read_json(path)
        with _naming(path):
            return None if fields is None else RunResult.from_json(fields)

    def publication(self) -> Publication | None:
        """Which attempt is published; None when none is.

        :raises LedgerCorruptError: when ``committed.json`` isn't what it should be.
        """
        path = self._folder / COMMITTED
        content = read(path)
        with _naming(path):
            return None if content is None else Publication.from_bytes(content)

    def record_verified(self, attempt: str, verdict: Verdict) -> None:
        """Note the verdict on the published attempt.

        :raises LedgerConflictError: when another verdict is recorded.
        """
        path = self._folder / "verified.json"
        if not create_exclusive(path, to_json_bytes({"format": 1, "attempt": attempt} | asdict(verdict))):
            raise LedgerConflictError(f"{path} records another verdict than {verdict}.")

    def state(self) -> WindowState:
        """How far the window has come."""
        present = set(names(self._folder))
        if "verified.json" in present:
            return WindowState.VERIFIED
        if COMMITTED in present:
            return WindowState.COMMITTED
        return WindowState.SUBMITTED if "attempts" in present else WindowState.RESOLVED
