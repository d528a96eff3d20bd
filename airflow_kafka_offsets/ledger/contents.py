"""Snapshots and manifests as files that are named by the hash of their content, so that nobody needs to trust them.

They are written before the commit that names them. Those of a commit that was never made are left over, and mean
nothing.
"""

from __future__ import annotations

import gzip
import json
from collections import OrderedDict
from dataclasses import replace

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.files import Files, manifest_file, snapshot_file
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot

_KEPT = 64
"""Snapshots kept in memory: neighbours, and the ends of windows that are pinned together."""
_RESTORE = "Restore the file as it was, from a backup or an earlier version of the object."


class StoredContents:
    """The snapshots and manifests of a pipeline's folder.

    :param files: the files of that folder.
    :param where: the folder, for messages.
    """

    def __init__(self, files: Files, where: str) -> None:
        self._files = files
        self._where = where
        self._known: OrderedDict[str, OffsetSnapshot] = OrderedDict()
        self._stored: set[str] = set()

    def snapshot(self, offsets: str) -> OffsetSnapshot:
        """The snapshot in a file.

        :raises LedgerCorruptError: when the file is missing or was changed.
        """
        if offsets not in self._known:
            name = snapshot_file(offsets)
            stored = self._read(name)
            try:
                content = gzip.decompress(stored)
            except (EOFError, OSError) as error:
                raise LedgerCorruptError(f"{self._where}/{name} is not compressed JSON: {error}. {_RESTORE}") from error
            self._check(name, content, offsets)
            self._keep(offsets, OffsetSnapshot.from_json(json.loads(content)))
        self._known.move_to_end(offsets)
        return self._known[offsets]

    def add_snapshot(self, snapshot: OffsetSnapshot) -> str:
        """Store a snapshot. Returns the hash that names its file."""
        plain = replace(snapshot, number=None)
        content = json.dumps(plain.to_json(), sort_keys=True, separators=(",", ":")).encode()
        offsets = digest(content)
        self._add(snapshot_file(offsets), gzip.compress(content, mtime=0))
        self._keep(offsets, plain)
        return offsets

    def manifest(self, window: str, manifest: str) -> Manifest:
        """A window's manifest.

        :raises LedgerCorruptError: when the file is missing or was changed.
        """
        name = manifest_file(window, manifest)
        content = self._read(name)
        self._check(name, content, manifest)
        return Manifest.from_bytes(content)

    def add_manifest(self, manifest: Manifest) -> str:
        """Store a manifest. Returns the hash that names its file."""
        content = manifest.to_bytes()
        self._add(manifest_file(manifest.window, digest(content)), content)
        return digest(content)

    def _add(self, name: str, content: bytes) -> None:
        """Store a file, once: a decision that is made anew adds the same ones again."""
        if name not in self._stored:
            if not self._files.create(name, content):
                raise LedgerCorruptError(f"{self._where}/{name} has another content than its name says. {_RESTORE}")
            self._stored.add(name)

    def _keep(self, offsets: str, snapshot: OffsetSnapshot) -> None:
        self._known[offsets] = snapshot
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)

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
