"""Snapshots and manifests as files that are named by the hash of their content, so that nobody needs to trust them.

They are written before the commit that names them. Those of a commit that was never made are left over, and mean
nothing.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import Generic, TypeVar

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.files import Files, manifest_file, snapshot_file
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot

T = TypeVar("T")

_KEPT = 64
"""Snapshots, and manifests, kept in memory: neighbours, and the ends of windows that are pinned together."""
_RESTORE = "Restore the file as it was, from a backup or an earlier version of the object."


class _Recent(Generic[T]):
    """What was read or added last, by hash. Several threads may use it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> T | None:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def put(self, key: str, value: T) -> T:
        with self._lock:
            self._known[key] = value
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return value


class StoredContents:
    """The snapshots and manifests of a pipeline's folder.

    :param files: the files of that folder.
    :param where: the folder, for messages.
    """

    def __init__(self, files: Files, where: str) -> None:
        self._files = files
        self._where = where
        self._snapshots = _Recent[OffsetSnapshot]()
        self._manifests = _Recent[Manifest]()

    def snapshot(self, offsets: str) -> OffsetSnapshot:
        """The snapshot in a file.

        :raises LedgerCorruptError: when the file is missing or was changed.
        """
        return self._snapshots.get(offsets) or self._snapshots.put(offsets, self._read_snapshot(offsets))

    def add_snapshot(self, snapshot: OffsetSnapshot) -> str:
        """Store a snapshot. Returns the hash that names its file."""
        plain = replace(snapshot, number=None)
        content = json.dumps(plain.to_json(), sort_keys=True, separators=(",", ":")).encode()
        offsets = digest(content)
        if self._snapshots.get(offsets) is None:
            if not self._files.create(snapshot_file(offsets), gzip.compress(content, mtime=0)):
                self._read_snapshot(offsets)  # another library compresses it in another way
            self._snapshots.put(offsets, plain)
        return offsets

    def manifest(self, window: str, manifest: str) -> Manifest:
        """A window's manifest.

        :raises LedgerCorruptError: when the file is missing or was changed.
        """
        return self._manifests.get(manifest) or self._manifests.put(manifest, self._read_manifest(window, manifest))

    def add_manifest(self, manifest: Manifest) -> str:
        """Store a manifest. Returns the hash that names its file."""
        content = manifest.to_bytes()
        sha256 = digest(content)
        if self._manifests.get(sha256) is None:
            if not self._files.create(manifest_file(manifest.window, sha256), content):
                self._read_manifest(manifest.window, sha256)  # says what is wrong with it
            self._manifests.put(sha256, manifest)
        return sha256

    def _read_snapshot(self, offsets: str) -> OffsetSnapshot:
        name = snapshot_file(offsets)
        stored = self._read(name)  # outside: a store that fails isn't a damaged file
        try:
            content = gzip.decompress(stored)
        except (EOFError, OSError, zlib.error) as error:
            raise LedgerCorruptError(f"{self._where}/{name} is not compressed JSON: {error}. {_RESTORE}") from error
        self._check(name, content, offsets)
        return OffsetSnapshot.from_json(json.loads(content))

    def _read_manifest(self, window: str, manifest: str) -> Manifest:
        name = manifest_file(window, manifest)
        content = self._read(name)
        self._check(name, content, manifest)
        return Manifest.from_bytes(content)

    def _read(self, name: str) -> bytes:
        content = self._files.read(name)
        if content is None:
            raise LedgerCorruptError(f"{self._where}/{name} is missing, though the ledger refers to it. {_RESTORE}")
        return content

    def _check(self, name: str, content: bytes, expected: str) -> None:
        if digest(content) != expected:
            raise LedgerCorruptError(
                f"{self._where}/{name} was changed: its sha256 is {digest(content)}, expected {expected}. {_RESTORE}"
            )
