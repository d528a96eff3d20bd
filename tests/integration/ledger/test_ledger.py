"""The ledger on a local disk and on S3: created once, changed by its log alone, and readable without being believed."""

from __future__ import annotations

import gzip
import random
import threading
from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger.files import commit_file, snapshot_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from tests.integration.ledger.loads import again, at_hour, place, resolve, window
from tests.unit.offsets.builders import T0

LEVEL = IsolationLevel.READ_COMMITTED


class TestPipeline:
    def test_creating_it_twice_is_fine(self, root: str) -> None:
        ledger = Ledger(ObjectStoragePath(root), "loads")
        assert not ledger.exists
        ledger.create(["t"], "cluster-1", LEVEL)
        again(ledger).create(["t"], "cluster-1", LEVEL)
        assert again(ledger).exists
        assert ledger.read().number == 1

    @pytest.mark.parametrize("content", [b"{}", b"\n", b'{"format": 2}', b"[]", b'{"format":'])
    def test_a_damaged_commit_is_to_be_restored(self, local: Ledger, content: bytes) -> None:
        local.files.replace(commit_file(1), content)
        with pytest.raises(LedgerCorruptError, match=r"00000001.json is damaged.*Restore it as it was"):
            _ = again(local).exists

    @pytest.mark.parametrize("name", ["", "a/b", "a:b", "..", ".hidden", "a" * 201])
    def test_a_name_that_cannot_name_a_folder_is_refused(self, root: str, name: str) -> None:
        with pytest.raises(ConfigurationError, match=r"pipeline's name.* up to 200 .*begins with"):
            Ledger(ObjectStoragePath(root), name)


class TestWindows:
    def test_one_is_pinned_once(self, ledger: Ledger) -> None:
        """S21: a retry gets the same manifest."""
        first = resolve(ledger, 0)
        number = ledger.state.number
        assert resolve(again(ledger), 0) == first
        assert ledger.read().number == number
        pinned = ledger.pinned(first)
        assert pinned.uri.endswith(f"windows/{first.name}/{first.manifest}.json")
        assert "@" not in pinned.uri, "Spark knows no Airflow connections"
        assert pinned.manifest.sha256 == pinned.sha256

    def test_one_that_was_never_resolved_is_named(self, ledger: Ledger) -> None:
        with pytest.raises(LedgerConflictError, match=f"no window {window(0)}: it was never resolved"):
            ledger.window(window(0))

    def test_reading_writes_nothing(self, local: Ledger, tmp_path: Path) -> None:
        made = resolve(local, 0)
        before = sorted(each for each in tmp_path.rglob("*"))
        reader = again(local)
        reader.pinned(reader.window(made.name))
        reader.offsets_at(made.end_ms)
        assert sorted(each for each in tmp_path.rglob("*")) == before


class TestContents:
    def test_a_snapshot_that_another_library_has_compressed_is_the_same_one(self, local: Ledger) -> None:
        """Workers may have different versions of zlib: the hash is of what is in the file."""
        place(local, at_hour(0))
        offsets = local.state.snapshots[T0].offsets
        stored = local.files.read(snapshot_file(offsets))
        assert stored is not None
        local.files.replace(snapshot_file(offsets), gzip.compress(gzip.decompress(stored), compresslevel=1))
        contents = again(local).contents
        assert contents.add_snapshot(at_hour(0)) == offsets
        contents.store_files([snapshot_file(offsets)])

    @pytest.mark.parametrize(
        "content", [b"", b"x", gzip.compress(b"{}", mtime=0)], ids=["nothing", "no gzip", "another"]
    )
    def test_one_that_was_damaged_is_neither_read_nor_taken_for_stored(self, local: Ledger, content: bytes) -> None:
        offsets = local.contents.add_snapshot(at_hour(0))
        local.files.replace(snapshot_file(offsets), content)
        for ask in (lambda: again(local).contents.snapshot(offsets), lambda: place(again(local), at_hour(0))):
            with pytest.raises(LedgerCorruptError, match="Restore the file as it was"):
                ask()

    def test_many_threads_may_read_more_than_memory_keeps(self, local: Ledger) -> None:
        hashes = [local.contents.add_snapshot(at_hour(hour)) for hour in range(100)]
        local.contents.store_files(map(snapshot_file, hashes))
        reader, failed = again(local), list[BaseException]()

        def read(seed: int) -> None:
            try:
                for offsets in random.Random(seed).sample(hashes, 100):
                    reader.contents.snapshot(offsets)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=read, args=[seed]) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
