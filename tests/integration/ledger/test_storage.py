"""Files on a local disk and on S3: created exclusively, whole or not at all, and never taken for others."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import ExclusiveCreateError
from airflow_kafka_offsets.ledger.storage import LedgerPath, create_exclusive, create_local, names, read, uri_for_spark

PathOf = Callable[[str], ObjectStoragePath]


class TestExclusiveCreation:
    def test_the_first_writer_wins_and_the_file_never_changes(self, path: PathOf) -> None:
        assert create_exclusive(path("one"), b"first")
        assert not create_exclusive(path("one"), b"second")
        assert read(path("one")) == b"first"

    def test_a_file_without_content_is_never_asked_for(self, path: PathOf) -> None:
        """s3fs touches an empty object, without the condition: it would empty a file that stands there."""
        with pytest.raises(ValueError, match="without content"):
            create_exclusive(path("one"), b"")

    def test_a_writer_that_finds_its_own_content_has_won(self, path: PathOf) -> None:
        """A request that got through unheard, and was sent again."""
        assert create_exclusive(path("one"), b"mine")
        assert create_exclusive(path("one"), b"mine")

    def test_of_many_racing_writers_exactly_one_wins(self, path: PathOf) -> None:
        ready = threading.Barrier(8)

        def write(number: int) -> bool:
            ready.wait()
            return create_exclusive(path("one"), str(number).encode())

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(write, range(8))) == 1

    def test_a_file_that_is_not_there_reads_as_none(self, path: PathOf) -> None:
        assert read(path("none")) is None
        assert names(path("nowhere")) == []

    def test_a_store_without_exclusive_creation_is_refused(self) -> None:
        class Elsewhere:
            protocol, path, name = "ftp", "/x", "x"

        with pytest.raises(ExclusiveCreateError, match="ftp"):
            create_exclusive(Elsewhere(), b"x")  # type: ignore[arg-type]


class TestALocalDisk:
    """What a power cut must not take: the file's content, and its name in the folder, in this order."""

    @pytest.mark.parametrize(
        "create", [create_local, lambda path, content: create_exclusive(ObjectStoragePath(path.as_uri()), content)]
    )
    def test_a_file_is_synced_before_it_has_its_name_and_its_folder_afterwards(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, create: Callable[..., object]
    ) -> None:
        path, synced, sync = tmp_path / "ledger" / "pipeline.json", [], os.fsync

        def noted(place: int) -> None:
            kind = "folder" if stat.S_ISDIR(os.fstat(place).st_mode) else "file"
            synced.append((kind, path.exists(), os.fstat(place).st_ino))
            sync(place)

        monkeypatch.setattr(os, "fsync", noted)
        create(path, b"{}")
        assert synced[-2:] == [("file", False, path.stat().st_ino), ("folder", True, path.parent.stat().st_ino)]


class TestUris:
    @pytest.mark.parametrize(
        ("protocol", "uri", "plain"),
        [
            ("file", "file:///ledgers/a", "file:///ledgers/a"),
            ("s3", "s3://conn@bucket/a", "s3://bucket/a"),
            ("gcs", "gcs://conn@bucket/a", "gs://bucket/a"),
            ("abfs", "abfs://conn@container/a", "abfss://container@account.dfs.core.windows.net/a"),
            ("abfss", "abfss://c@other.dfs.core.windows.net/a", "abfss://c@other.dfs.core.windows.net/a"),
            ("abfss", "abfss://conn@c@other.dfs.core.windows.net/a", "abfss://c@other.dfs.core.windows.net/a"),
        ],
    )
    def test_spark_is_given_a_place_as_hadoop_spells_it(self, protocol: str, uri: str, plain: str) -> None:
        """The account of a place on Azure is in its connection alone."""
        files = SimpleNamespace(account_name="account")
        assert uri_for_spark(LedgerPath(files, "a", protocol, uri)) == plain


def test_a_killed_local_writer_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file appears whole or not at all: a crash before the link leaves a draft, which nobody reads."""
    target = ObjectStoragePath((tmp_path / "one").as_uri())

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("os.link", crash)
        with pytest.raises(KeyboardInterrupt):
            create_exclusive(target, b"content")
    assert read(target) is None
    assert create_exclusive(target, b"other")


def test_a_folder_that_cannot_be_read_is_an_error_and_never_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a soft mount of NFS answers, or a folder of another user's to who isn't root. A log without its newest commit
    would be another one."""
    scandir = os.scandir

    def failing(path: Any = ".") -> Any:
        if os.fspath(path).rstrip("/").endswith("/log"):
            raise OSError(errno.EIO, "Input/output error")
        return scandir(path)

    (tmp_path / "log").mkdir()
    monkeypatch.setattr(os, "scandir", failing)
    with pytest.raises(OSError, match="Input/output error"):
        names(LedgerPath.of(ObjectStoragePath(tmp_path.as_uri())) / "log")


def test_drafts_are_no_files(tmp_path: Path) -> None:
    for name in ("b", "a", ".draft"):
        (tmp_path / name).touch()
    assert names(LedgerPath.of(ObjectStoragePath(tmp_path.as_uri()))) == ["a", "b"]
