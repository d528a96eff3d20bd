"""A window's folder: its manifest, the attempts to load it, which one is published. The files are the state."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger.storage import (
    StoragePath,
    create_exclusive,
    names,
    read,
    read_json,
    to_json_bytes,
)
from airflow_kafka_offsets.offsets.audit import RunResult, Verdict
from airflow_kafka_offsets.offsets.manifest import Manifest, digest


class WindowState(StrEnum):
    """How far a window has come."""

    RESOLVED = "resolved"
    SUBMITTED = "submitted"
    COMMITTED = "committed"
    VERIFIED = "verified"


@dataclass(frozen=True, slots=True)
class PinnedManifest:
    """A stored manifest.

    :param uri: where it is stored.
    :param sha256: hex digest of its bytes.
    :param manifest: what it says.
    """

    uri: str
    sha256: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Commit:
    """Which attempt is published (``committed.json``).

    :param attempt: its name.
    :param manifest_sha256: the manifest that it read.
    :param rows: rows in its output.
    :param output: where they are; None for an empty window.
    """

    attempt: str
    manifest_sha256: str
    rows: int
    output: str | None

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Read ``committed.json``."""
        return cls(**{name: fields[name] for name in cls.__slots__})


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
        create_exclusive(self._manifest, manifest.to_bytes())
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

    def pinned(self) -> PinnedManifest | None:
        """The stored manifest, checked against the hash beside it; None when the window was never resolved.

        :raises LedgerCorruptError: when it was changed after it was stored.
        """
        content = read(self._manifest)
        if content is None:
            return None
        recorded = self._folder / "manifest.sha256"
        create_exclusive(recorded, digest(content).encode())  # a crash may have left it out
        sha256 = (read(recorded) or b"").decode()
        return PinnedManifest(str(self._manifest), sha256, Manifest.from_bytes(content, sha256))

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
        """What an attempt read and wrote; None when it never got that far."""
        fields = read_json(self._folder / "results" / f"{attempt}.json")
        return None if fields is None else RunResult.from_json(fields)

    def commit(self) -> Commit | None:
        """Which attempt is published; None when none is."""
        fields = read_json(self._folder / "committed.json")
        return None if fields is None else Commit.from_json(fields)

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
        if "committed.json" in present:
            return WindowState.COMMITTED
        return WindowState.SUBMITTED if "attempts" in present else WindowState.RESOLVED
