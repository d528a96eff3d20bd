"""A ledger in memory: the store's operations, and files by the hash of their content."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_kafka_offsets.ledger.entries import Created
from airflow_kafka_offsets.offsets.specs import IsolationLevel
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
