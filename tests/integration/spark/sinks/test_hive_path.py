"""The plain Hive-style path: published rows for readers that know nothing of the ledger."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.publication import COMMITTED
from airflow_kafka_offsets.spark import Attempt, FileSink, read_published
from airflow_kafka_offsets.spark.hadoop import HadoopFiles
from airflow_kafka_offsets.spark.hive_path import HivePath
from tests.integration.spark.conftest import OpenWindow, window_folder
from tests.integration.spark.sinks.conftest import EXPECTED, OTHER, attempt_of, publish
from tests.integration.spark.sinks.faults import Died, dying
from tests.integration.spark.test_pinned_window import offsets

WINDOW = "window=w"


class TestLoad:
    def test_a_published_window_is_moved_whole_and_a_rerun_and_the_ledger_still_find_it(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, ledger: Path, tmp_path: Path
    ) -> None:
        sink = FileSink(f"file://{tmp_path}/table", hive_path=f"file://{tmp_path}/plain")
        publish(open_window(manifest), sink)
        assert publish(open_window(manifest, "try-2"), sink) == "try-1"

        assert not list((tmp_path / "table").rglob("*.parquet"))
        plain = spark.read.parquet(f"file://{tmp_path}/plain")
        assert offsets(plain.where(plain["window"] == manifest.window)) == EXPECTED
        assert offsets(read_published(spark, f"file://{ledger}")) == EXPECTED

        none = tuple(replace(each, end_offset=each.start_offset) for each in manifest.ranges)
        publish(open_window(replace(manifest, ranges=none, end_snapshot=9), "try-4"), sink)
        assert not list((tmp_path / "plain").rglob("*.parquet"))

    def test_a_sink_touches_no_folder_that_the_ledger_names_and_it_doesnt(
        self, open_window: OpenWindow, manifest: Manifest, ledger: Path, tmp_path: Path
    ) -> None:
        """Who may write to the ledger is trusted with data, and not with other paths."""
        sink = FileSink(f"file://{tmp_path}/table", hive_path=f"file://{tmp_path}/plain")
        publish(open_window(manifest), sink)
        for other in (FileSink(f"file://{tmp_path}/table"), FileSink(f"file://{tmp_path}/table", hive_path="/other")):
            with pytest.raises(LedgerConflictError, match=r"touches nothing outside its own folders. Pass"):
                publish(open_window(manifest, f"try-{id(other)}"), other)

        committed = window_folder(ledger, manifest) / COMMITTED
        published = json.loads(committed.read_text())
        (tmp_path / "precious").mkdir()
        for change in (
            {"output": f"file://{tmp_path}/precious"},
            {"moved_to": f"file://{tmp_path}/theirs/window={manifest.window}"},
        ):
            committed.write_text(json.dumps(published | change))
            with contextlib.suppress(LedgerConflictError):
                publish(open_window(manifest, f"try-{'-'.join(change)}"), sink)
            assert (tmp_path / "precious").exists()
            assert not (tmp_path / "theirs").exists()

    def test_two_ledgers_never_share_a_plain_path_whatever_their_windows(
        self, open_window: OpenWindow, manifest: Manifest, table: str, tmp_path: Path
    ) -> None:
        """Readers see the path as one table."""
        sink = FileSink(table, hive_path=f"file://{tmp_path}/plain")
        publish(open_window(manifest), sink)
        theirs = attempt_of(manifest, ledger_id=OTHER, window="20261121T060000000Z_20261121T070000000Z")
        with pytest.raises(LedgerConflictError, match=rf"is a path of ledger {manifest.ledger_id}") as refused:
            sink.write(open_window(manifest, "try-2").read(), theirs)

        content, _, owner = (
            str(refused.value).partition("hand the path over: write ")[2].partition(";")[0].partition(" to ")
        )
        Path(owner.removeprefix("file:")).write_text(content)
        sink.write(open_window(manifest, "try-3").read(), theirs)

    def test_a_recount_takes_no_path_back_that_was_handed_over(
        self, open_window: OpenWindow, manifest: Manifest, table: str, tmp_path: Path
    ) -> None:
        sink = FileSink(table, hive_path=f"file://{tmp_path}/plain")
        publish(open_window(manifest), sink)
        owner = tmp_path / "plain" / "_kafka_offsets_ledger.json"
        owner.unlink()
        with pytest.raises(LedgerConflictError, match="is a path of no ledger"):
            publish(open_window(manifest, "try-2"), sink)
        assert not owner.exists()

    def test_a_rerun_moves_what_a_crash_left_and_says_so_where_it_may_not(
        self, spark: SparkSession, open_window: OpenWindow, manifest: Manifest, table: str, tmp_path: Path
    ) -> None:
        class Crashing(FileSink):
            def published(self, *_: object) -> None:
                raise Died

        plain = f"file://{tmp_path}/plain"
        with pytest.raises(Died):
            publish(open_window(manifest), Crashing(table, hive_path=plain))
        for name, other in (("try-2", FileSink(table)), ("try-3", FileSink(table, hive_path=f"{plain}_2"))):
            with pytest.raises(LedgerConflictError, match=r"Pass the hive_path \(--hive-path\) that the window was"):
                publish(open_window(manifest, name), other)

        assert publish(open_window(manifest, "try-4"), FileSink(table, hive_path=plain)) == "try-1"
        assert offsets(spark.read.parquet(plain)) == EXPECTED

    def test_a_store_that_renames_file_by_file_is_refused_before_anything_is_read(
        self, open_window: OpenWindow, manifest: Manifest, table: str
    ) -> None:
        sink = FileSink(table, hive_path="http://127.0.0.1/plain")
        with pytest.raises(ConfigurationError, match=r"can't be renamed in one step from .* to http"):
            publish(open_window(manifest), sink)

    def test_another_pipelines_place_is_refused_before_anything_is_read(
        self, open_window: OpenWindow, manifest: Manifest, table: str, loads: Loads
    ) -> None:
        loads.written(1)
        loads.settle(1)
        theirs = attempt_of(manifest, window="w")
        with pytest.raises(LedgerConflictError, match=r"is a path of ledger 0e0e.* \(pipeline p\)"):
            FileSink(table, hive_path=f"file://{loads.root}").write(open_window(manifest).read(), theirs)

    @pytest.mark.parametrize("plain", ["file:///lake/table", "/lake/table/plain/", "file:/lake"])
    def test_a_plain_path_lies_apart_from_the_tables_folder(self, plain: str) -> None:
        with pytest.raises(ConfigurationError, match="must lie apart"):
            FileSink("file:///lake/table", hive_path=plain)
        FileSink("file:///lake/table", hive_path="/lake/table_plain")


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "plain"


def attempt(revision: int, ledger_id: str = OTHER) -> Attempt:
    return Attempt(f"try-{revision}", "p", ledger_id, "w", revision, "sha", 0, 1)


class Loads:
    """Rows that attempts have written: a file with the revision's number."""

    def __init__(self, files: HadoopFiles, root: Path) -> None:
        self.root = root
        self._path = HivePath(files, f"file://{root}")

    def written(self, revision: int) -> Path:
        folder = self.root.parent / f"attempt-{revision}"
        folder.mkdir()
        (folder / "part").write_text(str(revision))
        self._path.claim(attempt(revision))
        self._path.label(f"file://{folder}", attempt(revision))
        return folder

    def settle(self, revision: int, *, rows: bool = True, ledger_id: str = OTHER) -> None:
        folder = f"file://{self.root.parent}/attempt-{revision}"
        self._path.settle(folder if rows else None, attempt(revision, ledger_id))

    def standing(self) -> list[str]:
        """What readers see."""
        return [each.read_text() for each in (self.root / WINDOW).glob("part")]

    def left(self) -> list[Path]:
        """What was put aside and is still there."""
        return list((self.root / ".replaced").glob("*/*"))


@pytest.fixture
def loads(files: HadoopFiles, root: Path) -> Loads:
    return Loads(files, root)


def crashes(loads: Loads, start: Callable[[], None], work: Callable[[], None]) -> Iterator[int]:
    """Kill a piece of work before each change of the store; the rerun is the caller's."""
    for step in range(20):
        shutil.rmtree(loads.root.parent)
        loads.root.mkdir(parents=True)
        start()
        with contextlib.suppress(Died), dying(step):
            work()
            assert step > 1
            return
        yield step


class TestSettling:
    @pytest.mark.parametrize("rows", [True, False], ids=["rows", "no rows"])
    def test_a_new_revision_replaces_the_old_one_and_a_rerun_finishes_it_wherever_it_died(
        self, loads: Loads, rows: bool
    ) -> None:
        def start() -> None:
            loads.written(1)
            loads.settle(1)
            loads.written(2)

        for _ in crashes(loads, start, lambda: loads.settle(2, rows=rows)):
            loads.settle(2, rows=rows)
            assert loads.standing() == (["2"] if rows else [])
            assert loads.left() == []

    @pytest.mark.parametrize("rows", [True, False], ids=["rows", "no rows"])
    def test_an_older_revisions_rerun_takes_no_newer_ones_place(self, loads: Loads, rows: bool) -> None:
        loads.written(1)
        loads.written(2)
        loads.settle(2, rows=rows)
        loads.settle(1)

        assert loads.standing() == (["2"] if rows else [])

    def test_a_run_that_puts_aside_what_another_run_has_just_moved_brings_it_back(
        self, loads: Loads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two runs of a window move it at once: at each step of the one, the other does all of it."""
        rename = HadoopFiles.rename
        for step in range(3):
            shutil.rmtree(loads.root.parent)
            loads.root.mkdir(parents=True)
            loads.written(1)
            loads.settle(1)
            loads.written(2)
            left = iter(range(step))

            def overtaken(files: HadoopFiles, source: str, target: str, left: Iterator[int] = left) -> bool:
                if next(left, None) is None:
                    with monkeypatch.context() as alone:
                        alone.setattr(HadoopFiles, "rename", rename)
                        loads.settle(2)
                return rename(files, source, target)

            with monkeypatch.context() as patch:
                patch.setattr(HadoopFiles, "rename", overtaken)
                loads.settle(2)
            assert loads.standing() == ["2"]
            loads.settle(2)
            assert loads.left() == []

    def test_another_ledgers_rows_stay(self, loads: Loads) -> None:
        loads.written(1)
        loads.settle(1)
        with pytest.raises(LedgerConflictError, match="A path has one ledger"):
            loads.settle(2, ledger_id="5a" * 16)
        assert loads.standing() == ["1"]

    def test_what_a_copy_of_the_ledger_has_moved_there_stays(self, loads: Loads) -> None:
        loads.written(1)
        loads.settle(1)
        with pytest.raises(LedgerConflictError, match="there is a copy of the ledger"):
            loads._path.settle(None, replace(attempt(1), name="another"))
        assert loads.standing() == ["1"]

    def test_rows_of_a_ledger_that_the_path_was_taken_over_from_give_way(self, loads: Loads) -> None:
        loads.written(2)
        loads.settle(2)
        (loads.root / "_kafka_offsets_ledger.json").unlink()
        folder = loads.root.parent / "theirs"
        folder.mkdir()
        (folder / "part").write_text("new")
        ours = attempt(1, "5a" * 16)
        loads._path.claim(ours)
        loads._path.label(f"file://{folder}", ours)
        loads._path.settle(f"file://{folder}", ours)
        assert loads.standing() == ["new"]
        assert loads.left() == []

    def test_rows_that_are_nowhere_are_said(self, loads: Loads) -> None:
        loads._path.claim(attempt(1))
        with pytest.raises(LedgerCorruptError, match="are neither at"):
            loads.settle(1)

    def test_a_folder_that_no_load_has_moved_there_is_left_alone(self, loads: Loads) -> None:
        loads.written(1)
        (loads.root / WINDOW).mkdir(parents=True)
        (loads.root / WINDOW / "part").write_text("somebody's")

        with pytest.raises(LedgerConflictError, match="holds files that no load has moved there"):
            loads.settle(1)
        assert loads.standing() == ["somebody's"]


@pytest.mark.parametrize("store", ["file", "viewfs"])
def test_a_folder_is_never_moved_into_one_that_has_just_come_there(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path, store: str
) -> None:
    """As ``FileSystem.rename`` does. viewfs stands for hdfs: both go by Hadoop's ``FileContext``."""
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.tests.link./mount", f"file://{tmp_path}")
    root = {"file": f"file://{tmp_path}", "viewfs": "viewfs://tests/mount"}[store]
    for folder in ("ours", "taken"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / folder).touch()
    fs, ours = files._locate(f"{root}/ours")

    assert not files._rename(fs, ours, files._locate(f"{root}/taken")[1])
    assert [each.name for each in (tmp_path / "taken").iterdir()] == ["taken"]
    assert files.rename(f"{root}/ours", f"{root}/free/place")
    assert [each.name for each in (tmp_path / "free" / "place").iterdir()] == ["ours"]
