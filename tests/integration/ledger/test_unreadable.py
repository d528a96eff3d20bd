"""Folders that can't be read: an error, and never an empty folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import LedgerPath, names_below
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.pipelines.publisher import proved_attempts
from tests.integration.ledger.loads import load, publish, resolve


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    opened = Ledger(ObjectStoragePath(tmp_path.as_uri()), "loads")
    opened.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return opened


@pytest.fixture
def pinned(ledger: Ledger) -> PinnedManifest:
    return resolve(ledger, 0)


Fail = Callable[[str], None]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Have folders of a name answer as a soft mount of NFS does, or one of another user's to who isn't root."""

    def make(name: str) -> None:
        scandir = os.scandir

        def failing(path: Any = ".") -> Any:
            if os.fspath(path).rstrip("/").endswith(f"/{name}"):
                raise OSError(errno.EIO, "Input/output error")
            return scandir(path)

        monkeypatch.setattr(os, "scandir", failing)

    return make


@pytest.mark.parametrize("folder", ["results", "failures"])
def test_what_was_counted_is_unknown_then(ledger: Ledger, pinned: PinnedManifest, fail: Fail, folder: str) -> None:
    """An attempt that failed isn't publishable for want of its note, nor is one forgotten that was counted."""
    publish(ledger, pinned)
    place = Path(pinned.uri.removeprefix("file://")).parent / folder
    place.mkdir(exist_ok=True)
    assert [each.result.attempt for each in proved_attempts(ledger, pinned)] == ["a-1"]
    fail(folder)
    with pytest.raises(OSError, match="Input/output error"):
        proved_attempts(ledger, pinned)


def test_which_windows_are_published_is_unknown_then(ledger: Ledger, fail: Fail) -> None:
    """A window that isn't seen would be a hole."""
    window = load(ledger, 0).manifest.window
    assert ledger.window_folders.published_in(window[:6]) == {window}
    fail(window)
    with pytest.raises(OSError, match="Input/output error"):
        ledger.window_folders.published_in(window[:6])


def test_what_is_not_there_is_nothing_and_drafts_are_left_out(tmp_path: Path) -> None:
    folder = LedgerPath.of(ObjectStoragePath(tmp_path.as_uri()))
    assert names_below(folder / "missing") == []
    for name in ("b/c/d", "a", ".draft", "b/.hidden/e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert names_below(folder) == ["a", "b/c/d"]


@pytest.mark.parametrize("note", ["{}", '{"lost": [{"topic": "t"}]}', '{"lost": [3]}', '{"lost": 3}'])
def test_what_was_lost_is_unknown_where_its_note_is_none(ledger: Ledger, pinned: PinnedManifest, note: str) -> None:
    folder = ledger.window_folders.of(pinned)
    folder.record_loss([LogRange("t", 0, 0, 5)], 1_000)
    assert folder.lost_since() == {TopicPartition("t", 0): 5}
    place = Path(pinned.uri.removeprefix("file://")).parent / "losses"
    (place / "20261126T000000.000Z.json").write_text(note)
    with pytest.raises(LedgerCorruptError, match=r"20261126T000000\.000Z\.json isn't a record of lost offsets"):
        ledger.window_folders.of(pinned).lost_since()
