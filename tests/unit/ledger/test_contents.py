"""Snapshots in files that are named by the hash of their content."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.contents import StoredContents
from airflow_kafka_offsets.ledger.files import snapshot_file
from tests.unit.ledger.memory import MemoryFiles
from tests.unit.offsets.builders import snapshot


class FailingFiles(MemoryFiles):
    """A store that fails when it is read."""

    def read(self, name: str) -> bytes | None:
        raise OSError("503 Slow Down")


def test_a_store_that_fails_is_not_a_damaged_snapshot() -> None:
    offsets = StoredContents(files := MemoryFiles(), "here").add_snapshot(snapshot({0: 5}))
    with pytest.raises(OSError, match="Slow Down"):
        StoredContents(FailingFiles(files.files), "here").snapshot(offsets)


@pytest.mark.parametrize("harm", [lambda it: it[:-9], lambda it: b"{}", lambda it: it[:12] + b"\0\0" + it[14:]])
def test_a_snapshot_that_was_changed_is_refused_by_name(harm: object) -> None:
    offsets = StoredContents(files := MemoryFiles(), "here").add_snapshot(snapshot({0: 5}))
    name = snapshot_file(offsets)
    files.files[name] = harm(files.files[name])  # type: ignore[operator]
    with pytest.raises(LedgerCorruptError, match=rf"^here/{name} .*Restore the file"):
        StoredContents(files, "here").snapshot(offsets)
