"""A ledger in memory: the store's operations, and files by the hash of their content."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count

from airflow_kafka_offsets.ledger.entries import Created
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from tests.unit.offsets.builders import LEDGER_ID

CREATED = Created(LEDGER_ID, "p", "cluster-1", str(IsolationLevel.READ_COMMITTED), ("t",))


@dataclass
class MemoryFiles:
    """Files as a store has them.

    :param files: content by name.
    :param operations: how many operations there were, by kind.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=dict)

    def names(self, folder: str) -> list[str]:
        self._count("names")
        inside = (name.removeprefix(f"{folder}/") for name in list(self.files) if name.startswith(f"{folder}/"))
        return sorted({name.partition("/")[0] for name in inside})

    def read(self, name: str) -> bytes | None:
        self._count("read")
        return self.files.get(name)

    def create(self, name: str, content: bytes) -> bool:
        self._count("create")
        return self.files.setdefault(name, content) == content

    def replace(self, name: str, content: bytes) -> None:
        self._count("replace")
        self.files[name] = content

    def _count(self, kind: str) -> None:
        self.operations[kind] = self.operations.get(kind, 0) + 1


@dataclass
class MemoryContents:
    """Snapshots and manifests by the hash of their content."""

    snapshots: dict[str, OffsetSnapshot] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)

    def snapshot(self, offsets: str) -> OffsetSnapshot:
        return self.snapshots[offsets]

    def add_snapshot(self, snapshot: OffsetSnapshot) -> str:
        name = sha256(repr(replace(snapshot, number=None).to_json()).encode()).hexdigest()
        self.snapshots[name] = replace(snapshot, number=None)
        return name

    def add_manifest(self, manifest: Manifest) -> str:
        self.manifests[manifest.sha256] = manifest
        return manifest.sha256


IDS = count(1)
