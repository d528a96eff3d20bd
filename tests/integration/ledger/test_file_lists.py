"""Lists of the published windows' files, for engines that know nothing of the ledger."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.ledger.file_lists import FileLists
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import read
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.window_names import window_extent
from tests.integration.ledger.loads import publish_result, resolve, result_of

FILES = ("part-00000.parquet", "part-00001.parquet")


@pytest.fixture
def ledger(root: str) -> Ledger:
    opened = Ledger(ObjectStoragePath(root), "loads")
    opened.open(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return opened


def publish(ledger: Ledger, pinned: PinnedManifest, output: str, attempt: str = "a-1", **fields: object) -> None:
    result = replace(result_of(pinned, attempt), **{"output": output, "files": FILES} | fields)  # type: ignore[arg-type]
    publish_result(ledger, pinned, result)


def listed(ledger: Ledger, pinned: PinnedManifest) -> list[str] | None:
    content = read(ledger.folder / "files" / f"window={pinned.manifest.window}" / "files.txt")
    return None if content is None else content.decode().splitlines()


def test_a_window_has_a_list_once_it_is_published(ledger: Ledger) -> None:
    pinned = resolve(ledger, 0)
    lists = FileLists(ledger)
    lists.refresh(pinned.manifest.window)
    assert listed(ledger, pinned) is None
    publish(ledger, pinned, "file:/out/w/attempt=a-1")
    lists.refresh(pinned.manifest.window)
    assert listed(ledger, pinned) == [f"file:///out/w/attempt=a-1/{each}" for each in FILES]


def test_paths_on_s3_are_spelled_as_other_engines_do(ledger: Ledger) -> None:
    pinned = resolve(ledger, 0)
    publish(ledger, pinned, "s3a://lake/flights/w/attempt=a-1")
    assert FileLists(ledger).files(pinned.manifest.window)[0] == f"s3://lake/flights/w/attempt=a-1/{FILES[0]}"


def test_with_strict_time_rows_outside_are_left_out(ledger: Ledger) -> None:
    pinned = resolve(ledger, 0)
    files = ("outside_window=false/part-0.parquet", "outside_window=true/part-0.parquet")
    publish(ledger, pinned, "file:/out", strict_time=True, outside_written=0, files=files)
    assert FileLists(ledger).files(pinned.manifest.window) == ["file:///out/outside_window=false/part-0.parquet"]


def test_a_newer_revision_replaces_the_list_and_a_forgotten_window_has_an_empty_one(ledger: Ledger) -> None:
    pinned, lists = resolve(ledger, 0), FileLists(ledger)
    publish(ledger, pinned, "file:/out/1")
    newer = ledger.window_folders.pin_again(replace(pinned.manifest, start_snapshot=7))
    publish(ledger, newer, "file:/out/2", "a-2")
    lists.refresh(pinned.manifest.window)
    assert listed(ledger, pinned) == [f"file:///out/2/{each}" for each in FILES]
    ledger.forget([pinned.manifest.window], "test")
    lists.refresh(pinned.manifest.window)
    assert listed(ledger, pinned) == []


def test_whoever_writes_it_last_writes_what_counts(ledger: Ledger) -> None:
    """One that looked before a newer revision was published, and wrote after the other one's list was there."""
    pinned, window = resolve(ledger, 0), resolve(ledger, 0).manifest.window
    revisions = [pinned]
    for number in range(2, 6):
        revisions.append(ledger.window_folders.pin_again(replace(pinned.manifest, start_snapshot=number + 5)))
    ready = threading.Barrier(len(revisions))

    def refresh(number: int) -> None:
        ready.wait()
        FileLists(ledger).refresh(window)

    for number, each in enumerate(revisions):
        publish(ledger, each, f"file:/out/{number}", f"a-{number}")
    with ThreadPoolExecutor(len(revisions)) as threads:
        list(threads.map(refresh, range(len(revisions))))
    assert listed(ledger, pinned) == [f"file:///out/4/{each}" for each in FILES]


def test_windows_are_asked_for_by_time(ledger: Ledger) -> None:
    windows = [resolve(ledger, hour) for hour in range(3)]
    for number, each in enumerate(windows):
        publish(ledger, each, f"file:/out/{number}")
    middle = windows[1].manifest.window
    assert list(FileLists(ledger).between(*window_extent(middle))) == [middle]
    assert len(FileLists(ledger).between(None, None)) == 3


def test_duckdb_reads_the_files_of_a_list(ledger: Ledger, tmp_path: Path) -> None:
    pinned = resolve(ledger, 0)
    for number, each in enumerate((*FILES, "of-an-attempt-that-counts-for-nothing.parquet")):
        rows = pyarrow.table({"offset": range(number * 5, number * 5 + 5)})
        pyarrow.parquet.write_table(rows, tmp_path / each)
    publish(ledger, pinned, tmp_path.as_uri())
    files = FileLists(ledger).between(None, None)[pinned.manifest.window]
    count = duckdb.sql(f'SELECT count(*), max("offset") FROM read_parquet({files!r})').fetchall()
    assert count == [(10, 9)]
