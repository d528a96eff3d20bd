"""Snapshots in files that are named by the hash of their content."""

from __future__ import annotations

import threading

import pytest

from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.entries import Snapshotted
from airflow_kafka_offsets.ledger.files import snapshot_file
from tests.patience import PATIENCE_S
from tests.unit.ledger.memory import MemoryFiles
from tests.unit.offsets.builders import snapshot


class FailingFiles(MemoryFiles):
    """A store that fails when it is read."""

    def read(self, name: str) -> bytes | None:
        raise OSError("503 Slow Down")


def stored(files: MemoryFiles) -> str:
    """Store a snapshot. Returns the hash that names its file."""
    contents = Contents(files, "here")
    offsets = contents.add_snapshot(snapshot({0: 5}))
    contents.store_files([snapshot_file(offsets)])
    return offsets


def test_what_no_commit_names_is_not_written() -> None:
    contents = Contents(files := MemoryFiles(), "here")
    named, other = (contents.add_snapshot(snapshot({0: offset})) for offset in (5, 6))
    contents.store([Snapshotted(1, named)])
    assert (list(files.files), contents.snapshot(other)) == ([snapshot_file(named)], snapshot({0: 6}))


def test_those_of_a_commit_are_written_side_by_side() -> None:
    """So that a backfill of hundreds of windows doesn't take as many round trips in a row."""
    both = threading.Barrier(2)

    class Meeting(MemoryFiles):
        def create(self, name: str, content: bytes) -> bool:
            both.wait(PATIENCE_S)  # for another one
            return super().create(name, content)

    contents = Contents(files := Meeting(), "here")
    hashes = [contents.add_snapshot(snapshot({0: offset})) for offset in range(4)]
    contents.store(Snapshotted(1, each) for each in hashes)
    assert len(files.files) == 4


def test_more_than_memory_holds_is_written_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_kafka_offsets.ledger.contents._MOST_BYTES", 1_000)
    contents = Contents(files := MemoryFiles(), "here")
    hashes = [contents.add_snapshot(snapshot({0: offset})) for offset in range(100)]
    assert len(files.files) > 90
    assert [contents.snapshot(each) for each in hashes] == [snapshot({0: offset}) for offset in range(100)]


def test_a_store_that_fails_is_not_a_damaged_snapshot() -> None:
    offsets = stored(files := MemoryFiles())
    with pytest.raises(OSError, match="Slow Down"):
        Contents(FailingFiles(files.files), "here").snapshot(offsets)
