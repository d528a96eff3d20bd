"""Snapshots and manifests as files that are named by the hash of their content, so that nobody needs to trust them.

Decisions make them; they are stored, many at a time, before the commit that names them. Those of a commit that was
never made are left over, and mean nothing.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.entries import AnyEntry, Pinned, RecordsCounted, Snapshotted
from airflow_kafka_offsets.ledger.files import Files, census_file, manifest_file, snapshot_file
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot

T = TypeVar("T")

_KEPT = 128
"""Snapshots and manifests kept in memory: neighbours, and the ends of windows that are pinned together."""
_MOST_BYTES = 64 * 1024 * 1024
"""Most bytes of files that wait for their commit: those of a backfill may be more than memory holds."""
_RESTORE = "Restore the file as it was, from a backup or an earlier version of the object."


class Contents:
    """The snapshots and manifests of a pipeline's folder. Several threads may read them.

    :param files: the files of that folder.
    :param where: the folder, for messages.
    """

    def __init__(self, files: Files, where: str) -> None:
        self._files = files
        self._where = where
        self._recent: dict[str, Any] = {}
        self._lock = Lock()
        self._waiting: dict[str, bytes] = {}
        self._waiting_bytes = 0

    def snapshot(self, offsets: str) -> OffsetSnapshot:
        """The snapshot in a file.

        :raises LedgerCorruptError: when the file is missing or was changed.
        """
        return self._get(snapshot_file(offsets), OffsetSnapshot)

    def snapshot_at(self, state: State, at_ms: int, number: int = sys.maxsize) -> OffsetSnapshot:
        """The snapshot at a time that has one, as the logs go on: without what restarts have taken since.

        :param number: as the ledger knew the logs after this commit; now by default.
        """
        return state.anew(self.snapshot(state.snapshots[at_ms].offsets), at_ms, number)

    def manifest(self, window: Window) -> Manifest:
        """A window's manifest. Raises as :meth:`snapshot`."""
        return self._get(manifest_file(window.name, window.manifest), Manifest)

    def census(self, window: Window) -> Census | None:
        """Which offsets of a window have a record; None if that wasn't counted. Raises as :meth:`snapshot`."""
        return None if window.census is None else self._get(census_file(window.name, window.census), Census)

    def add_snapshot(self, snapshot: OffsetSnapshot) -> str:
        """Add a snapshot. Returns the hash that names its file, which :meth:`store` writes."""
        return self._add(snapshot_file, snapshot)

    def add_manifest(self, manifest: Manifest) -> str:
        """Add a manifest, as :meth:`add_snapshot`."""
        return self._add(partial(manifest_file, manifest.window), manifest)

    def add_census(self, window: str, census: Census) -> str:
        """Add a census, as :meth:`add_snapshot`."""
        return self._add(partial(census_file, window), census)

    def store(self, entries: Iterable[AnyEntry]) -> None:
        """Write what entries name, if it isn't there yet. What no entry names isn't written, unless it is too large to
        be kept until then.

        :raises LedgerCorruptError: when a file of that name was changed.
        """
        self.store_files(set(filter(None, map(_file_of, entries))))

    def store_files(self, names: Iterable[str]) -> None:
        """Write files that were added, by their names."""
        waiting = [name for name in names if name in self._waiting]
        in_parallel(self._create, waiting)
        for name in waiting:
            self._waiting_bytes -= len(self._waiting.pop(name))

    def _get(self, name: str, kind: type[T]) -> T:
        found: T | None = self._recent.get(name)
        if found is None:
            content = self._checked(name, self._waiting.get(name) or self._files.read(name))
            found = plain_json.from_bytes(kind, content, f"a {kind.__name__}")
        self._keep(name, found)
        return found

    def _keep(self, name: str, value: object) -> None:
        with self._lock:
            self._recent.pop(name, None)
            self._recent[name] = value
            if len(self._recent) > _KEPT:
                del self._recent[next(iter(self._recent))]

    def _add(self, name_of: Callable[[str], str], value: object) -> str:
        content = plain_json.to_bytes(value)
        sha256 = digest(content)
        name = name_of(sha256)
        if name not in self._recent:
            stored = gzip.compress(content, mtime=0) if name.endswith(".gz") else content
            self._waiting_bytes += len(stored) - len(self._waiting.get(name, b""))
            self._waiting[name] = stored
            self._keep(name, value)
        if self._waiting_bytes > _MOST_BYTES:
            self.store_files(list(self._waiting))
        return sha256

    def _create(self, name: str) -> None:
        if not self._files.create(name, self._waiting[name]):
            self._checked(name, self._files.read(name))  # another library may compress the same content in another way

    def _checked(self, name: str, stored: bytes | None) -> bytes:
        """The content of a file, which has the hash in its name.

        :raises LedgerCorruptError: when it hasn't, or there is no file.
        """
        if stored is None:
            raise LedgerCorruptError(f"{self._where}/{name} is missing, though the ledger refers to it. {_RESTORE}")
        try:
            content = gzip.decompress(stored) if name.endswith(".gz") else stored
        except (EOFError, OSError, zlib.error) as error:
            raise LedgerCorruptError(f"{self._where}/{name} is not compressed JSON: {error}. {_RESTORE}") from error
        expected = name.rpartition("/")[2].partition(".")[0]
        if digest(content) != expected:
            raise LedgerCorruptError(
                f"{self._where}/{name} was changed: its sha256 is {digest(content)}, expected {expected}. {_RESTORE}"
            )
        return content


def _file_of(entry: AnyEntry) -> str | None:
    match entry:
        case Snapshotted():
            return snapshot_file(entry.offsets)
        case Pinned():
            return manifest_file(entry.window, entry.manifest)
        case RecordsCounted():
            return census_file(entry.window, entry.census)
    return None
