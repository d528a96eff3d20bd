"""Lists of the published windows' files, for engines that know nothing of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import IntervalError, LedgerConflictError
from airflow_kafka_offsets.ledger import file_lists
from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.storage import StoragePath, read
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from tests.integration.ledger.loads import FILES, publish_result, resolve, result_of, windows_of


@pytest.fixture
def ledger(root: str) -> Ledger:
    opened = Ledger(ObjectStoragePath(root), "loads")
    opened.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return opened


def publish(ledger: Ledger, pinned: PinnedManifest, output: str, attempt: str = "a-1", **fields: object) -> None:
    result = replace(result_of(pinned, attempt), **{"output": output} | fields)  # type: ignore[arg-type]
    ledger.window_folders.of(pinned).record_attempt(attempt, {})
    publish_result(ledger, pinned, result)


def listed(ledger: Ledger, pinned: PinnedManifest) -> list[str] | None:
    content = read(ledger.folder / "files" / f"window={pinned.manifest.window}" / "files.txt")
    return None if content is None else content.decode().splitlines()


def test_a_window_has_a_list_once_it_is_published(ledger: Ledger) -> None:
    pinned = resolve(ledger, 0)
    lists = ledger.file_lists
    lists.refresh(pinned.manifest.window)
    assert listed(ledger, pinned) is None
    publish(ledger, pinned, "file:/out/w/attempt=a-1")
    lists.refresh(pinned.manifest.window)
    assert listed(ledger, pinned) == [f"file:///out/w/attempt=a-1/{each}" for each in FILES]


def test_paths_on_s3_are_spelled_as_other_engines_do(ledger: Ledger) -> None:
    pinned = resolve(ledger, 0)
    publish(ledger, pinned, "s3a://lake/flights/w/attempt=a-1")
    assert ledger.file_lists.files(pinned.manifest.window)[0] == f"s3://lake/flights/w/attempt=a-1/{FILES[0]}"


def test_with_strict_time_rows_outside_are_left_out(ledger: Ledger) -> None:
    pinned = resolve(ledger, 0)
    files = ("outside_window=false/part-0.parquet", "outside_window=true/part-0.parquet")
    publish(ledger, pinned, "file:/out", strict_time=True, outside_written=0, files=files)
    assert ledger.file_lists.files(pinned.manifest.window) == ["file:///out/outside_window=false/part-0.parquet"]


def test_a_newer_revision_replaces_the_list_and_a_forgotten_window_has_an_empty_one(ledger: Ledger) -> None:
    pinned, lists = resolve(ledger, 0), ledger.file_lists
    publish(ledger, pinned, "file:/out/1")
    newer = ledger.window_folders.pin_again(replace(pinned.manifest, start_snapshot=7))
    publish(ledger, newer, "file:/out/2", "a-2")
    lists.refresh(pinned.manifest.window)
    assert listed(ledger, pinned) == [f"file:///out/2/{each}" for each in FILES]
    forget_windows(ledger, [pinned.manifest.window], "test")
    assert listed(ledger, pinned) == []


def test_whoever_writes_it_last_writes_what_counts(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """One looks at what counts, a newer revision is published and its list made, and then the first one writes."""
    pinned = resolve(ledger, 0)
    newer = ledger.window_folders.pin_again(replace(pinned.manifest, start_snapshot=7))
    replace_file = file_lists.replace_file

    def late(path: StoragePath, content: bytes) -> None:
        monkeypatch.setattr(file_lists, "replace_file", replace_file)
        publish(ledger, newer, "file:/out/2", "a-2")
        replace_file(path, content)

    monkeypatch.setattr(file_lists, "replace_file", late)
    publish(ledger, pinned, "file:/out/1")
    assert listed(ledger, pinned) == [f"file:///out/2/{each}" for each in FILES]


@pytest.fixture
def never_made(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """Within it, whoever is to make a list dies before."""

    def die(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    @contextmanager
    def block() -> Iterator[None]:
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(file_lists, "replace_file", die)
            yield
            pytest.fail("a list was to be made")

    return block


def test_a_list_that_a_crash_left_as_it_was_is_found_and_made_by_ledger_verify(
    ledger: Ledger, never_made: Callable[[], AbstractContextManager[None]]
) -> None:
    """Of a window that was published, of one that was forgotten, and of one that was forgotten and resolved anew."""
    windows = [resolve(ledger, hour) for hour in range(3)]
    with never_made():
        publish(ledger, windows[0], "file:/out/0")
    for each in windows[1:]:
        publish(ledger, each, "file:/out")
        with never_made():
            forget_windows(ledger, [each.manifest.window], "test")
    ledger.window_folders.pin_again(windows[2].manifest)

    claims = [each for each in verify(ledger) if not each.holds]
    lacking = {each.window for each in claims if each.claim == "files"}
    assert lacking == {each.manifest.window for each in windows}
    assert {each.claim for each in claims} == {"files", "hole"}, "the forgotten window is in no other"
    assert [listed(ledger, each) for each in windows] == [[f"file:///out/0/{each}" for each in FILES], [], []]
    assert {each.claim for each in verify(ledger) if not each.holds} == {"hole"}


def test_windows_that_are_forgotten_once_more_have_their_lists_emptied(
    ledger: Ledger, never_made: Callable[[], AbstractContextManager[None]]
) -> None:
    """The command died in between: one window is forgotten and has its list, the other one counts."""
    windows = [resolve(ledger, hour) for hour in range(2)]
    for each in windows:
        publish(ledger, each, "file:/out")
    names = [each.manifest.window for each in windows]
    with never_made():
        forget_windows(ledger, names, "test")
    assert [listed(ledger, each) for each in windows] == [[f"file:///out/{each}" for each in FILES]] * 2
    assert [each.id for each in windows_of(ledger)] == names[1:]
    forget_windows(ledger, names, "test")
    assert [listed(ledger, each) for each in windows] == [[], []]
    assert windows_of(ledger) == []


def test_windows_are_asked_for_by_time(ledger: Ledger) -> None:
    windows = [resolve(ledger, hour) for hour in range(3)]
    for number, each in enumerate(windows):
        publish(ledger, each, f"file:/out/{number}")
    middle = windows[1].manifest.window
    assert list(ledger.file_lists.between(*window_extent(middle))) == [middle]
    assert len(ledger.file_lists.between(None, None)) == 3


def test_windows_that_a_bound_cuts_and_those_that_share_offsets_are_refused_as_spark_refuses_them(
    ledger: Ledger,
) -> None:
    first, second = (resolve(ledger, hour) for hour in range(2))
    lists, names = ledger.file_lists, [first.manifest.window, second.manifest.window]
    (start_ms, middle_ms), (_, end_ms) = map(window_extent, names)
    both = pin_window(ledger, *map(ledger.snapshots.read, (1, 3)), on_overlap="allow")
    for each in (first, second):
        publish(ledger, each, "file:/out")
    assert list(lists.between(start_ms, end_ms)) == names
    with pytest.raises(IntervalError, match="cut through"):
        lists.between(start_ms, end_ms - 1)
    assert list(lists.between(start_ms, middle_ms)) == names[:1]
    publish(ledger, both, "file:/out")
    with pytest.raises(LedgerConflictError, match="share offsets, whose rows would be returned twice"):
        lists.between(None, None)


def test_duckdb_reads_the_files_of_a_list(ledger: Ledger, tmp_path: Path) -> None:
    pinned = resolve(ledger, 0)
    for number, each in enumerate((*FILES, "of-an-attempt-that-counts-for-nothing.parquet")):
        rows = pyarrow.table({"offset": range(number * 5, number * 5 + 5)})
        pyarrow.parquet.write_table(rows, tmp_path / each)
    publish(ledger, pinned, tmp_path.as_uri())
    files = ledger.file_lists.between(None, None)[pinned.manifest.window]
    count = duckdb.sql(f'SELECT count(*), max("offset") FROM read_parquet({files!r})').fetchall()
    assert count == [(10, 9)]
