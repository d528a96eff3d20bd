"""Snapshots and manifests as files that are named by the hash of their content, so that nobody needs to trust them.

Decisions make them; they are stored, many at a time, before the commit that names them. Those of a commit that was
never made are left over, and mean nothing.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Generic, TypeVar

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.entries import AnyEntry, Pinned, RecordsCounted, Snapshotted
from airflow_kafka_offsets.ledger.files import Files, census_file, manifest_file, snapshot_file
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot

T = TypeVar("T")

_KEPT = 64
"""Snapshots, and manifests, kept in memory: neighbours, and the ends of windows that are pinned together."""
_MOST_BYTES = 64 * 1024 * 1024
"""Most bytes of files that wait for their commit: those of a backfill may be more than memory holds."""
_RESTORE = "Restore the file as it was, from a backup or an earlier version of the object."


class _Recent(Generic[T]):
    """What was read or added last, by hash. Several threads may use it."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> T | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: str, value: T) -> T:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > _KEPT:
                self._values.popitem(last=False)
        return value


class Contents:
    """The snapshots and manifests of a pipeline's folder.

    :param files: the files of that folder.
    :param where: the folder, for messages.
    """

    def __init__(self, files: Files, where: str) -> None:
        self._files = files
        self._where = where
        self._snapshots = _Recent[OffsetSnapshot]()
        self._manifests = _Recent[Manifest]()
        self._waiting: dict[str, bytes] = {}
        self._waiting_bytes = 0

    def snapshot(self, offsets: str) -> OffsetSnapshot:
        """The snapshot in a file.

        :raises LedgerCorruptError: when the file is missing or was changed.
        """
        found = self._snapshots.get(offsets)
        if found is None:
            found = OffsetSnapshot.from_json(json.loads(self._read(snapshot_file(offsets))))
        return self._snapshots.put(offsets, found)

    def add_snapshot(self, snapshot: OffsetSnapshot) -> str:
        """Add a snapshot. Returns the hash that names its file, which :meth:`store` writes."""
        content = json.dumps(snapshot.to_json(), sort_keys=True, separators=(",", ":")).encode()
        offsets = digest(content)
        if self._snapshots.get(offsets) is None:
            self._add(snapshot_file(offsets), gzip.compress(content, mtime=0))
            self._snapshots.put(offsets, snapshot)
        return offsets

    def manifest(self, window: Window) -> Manifest:
        """A window's manifest.

        :raises LedgerCorruptError: when the file is missing or was changed.
        """
        found = self._manifests.get(window.manifest)
        if found is None:
            found = Manifest.from_bytes(self._read(manifest_file(window.name, window.manifest)))
        return self._manifests.put(window.manifest, found)

    def add_manifest(self, manifest: Manifest) -> str:
        """Add a manifest. Returns the hash that names its file, which :meth:`store` writes."""
        content = manifest.to_bytes()
        sha256 = digest(content)
        if self._manifests.get(sha256) is None:
            self._add(manifest_file(manifest.window, sha256), content)
            self._manifests.put(sha256, manifest)
        return sha256

    def census(self, window: Window) -> Census | None:
        """Which offsets of a window have a record; None if that wasn't counted.

        :raises LedgerCorruptError: when the file is missing or was changed.
        """
        if window.census is None:
            return None
        return Census.from_bytes(self._read(census_file(window.name, window.census)))

    def add_census(self, window: str, census: Census) -> str:
        """Add a census. Returns the hash that names its file, which :meth:`store` writes."""
        content = census.to_bytes()
        sha256 = digest(content)
        self._add(census_file(window, sha256), gzip.compress(content, mtime=0))
        return sha256

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

    def _add(self, name: str, content: bytes) -> None:
        self._waiting_bytes += len(content) - len(self._waiting.get(name, b""))
        self._waiting[name] = content
        if self._waiting_bytes > _MOST_BYTES:
            self.store_files(list(self._waiting))

    def _create(self, name: str) -> None:
        if not self._files.create(name, self._waiting[name]):
            self._checked(name, self._files.read(name))  # another library may compress the same content in another way

    def _read(self, name: str) -> bytes:
        return self._checked(name, self._waiting.get(name) or self._files.read(name))

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
    """The file that an entry names; None if it names none."""
    match entry:
        case Snapshotted():
            return snapshot_file(entry.offsets)
        case Pinned():
            return manifest_file(entry.window, entry.manifest)
        case RecordsCounted():
            return census_file(entry.window, entry.census)
    return None
