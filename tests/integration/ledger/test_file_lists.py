"""Lists of the published windows' files, for engines that know nothing of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import IntervalError
from airflow_kafka_offsets.ledger import file_lists
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import StoredFiles
from airflow_kafka_offsets.ledger.verification import verify
from tests.integration.ledger import loads
from tests.integration.ledger.loads import publish, reload, resolve
from tests.integration.ledger.results import FILES


def listed(ledger: Ledger, window: Window) -> list[str] | None:
    content = ledger.files.read(f"files/window={window.name}/files.txt")
    return None if content is None else content.decode().splitlines()


def void(ledger: Ledger, window: Window) -> None:
    """As the command does."""
    loads.void(ledger, window, force=True)
    file_lists.correct(ledger, window.name)


def test_a_window_has_a_list_once_it_is_published(ledger: Ledger) -> None:
    window = resolve(ledger, 0)
    assert listed(ledger, window) is None
    publish(ledger, window, output="file:/out/w/attempt=3-0000000a")
    assert listed(ledger, window) == [f"file:///out/w/attempt=3-0000000a/{each}" for each in FILES]


def test_paths_on_s3_are_spelled_as_other_engines_do(ledger: Ledger) -> None:
    window = publish(ledger, resolve(ledger, 0), output="s3a://lake/flights/w")
    assert listed(ledger, window) == [f"s3://lake/flights/w/{each}" for each in FILES]


def test_a_table_has_none(ledger: Ledger) -> None:
    window = publish(ledger, resolve(ledger, 0), output="lake.flights", sink="delta", apart=False, files=())
    assert listed(ledger, window) is None


def test_the_rows_of_a_reload_replace_the_list_and_a_window_that_is_void_has_an_empty_one(ledger: Ledger) -> None:
    window = publish(ledger, resolve(ledger, 0), output="file:/out/1")
    reload(ledger, window)
    assert listed(ledger, window) == [f"file:///out/1/{each}" for each in FILES], "readers keep the old rows"
    publish(ledger, window, output="file:/out/2")
    assert listed(ledger, window) == [f"file:///out/2/{each}" for each in FILES]
    void(ledger, window)
    assert listed(ledger, window) == []


def test_whoever_writes_it_last_writes_what_counts(ledger: Ledger, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is paused before it writes the list of what it has published; the window is reloaded, and another one is
    published and listed."""
    window, replace = resolve(ledger, 0), StoredFiles.replace
    other = Ledger(ObjectStoragePath(root), "loads")

    def late(files: StoredFiles, name: str, content: bytes) -> None:
        monkeypatch.setattr(StoredFiles, "replace", replace)
        reload(other, window)
        publish(other, window, output="file:/out/2")
        replace(files, name, content)

    monkeypatch.setattr(StoredFiles, "replace", late)
    publish(ledger, window, output="file:/out/1")
    assert listed(ledger, window) == [f"file:///out/2/{each}" for each in FILES]


@pytest.fixture
def never_made(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """Within it, whoever is to write a list dies before."""

    def die(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    @contextmanager
    def block() -> Iterator[None]:
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(StoredFiles, "replace", die)
            yield
            pytest.fail("a list was to be written")

    return block


def test_a_list_that_a_crash_left_as_it_was_is_found_and_written_by_ledger_verify(
    ledger: Ledger, never_made: Callable[[], AbstractContextManager[None]]
) -> None:
    """Of a window that was published, of one that is void, and of one that was voided and resolved again."""
    windows = [resolve(ledger, hour) for hour in range(3)]
    with never_made():
        publish(ledger, windows[0], output="file:/out/0")
    for each in windows[1:]:
        publish(ledger, each, output="file:/out")
        with never_made():
            void(ledger, each)
    resolve(ledger, 2)
    claims = [each for each in verify(ledger) if each.claim == "files"]
    assert {each.window for each in claims if not each.holds} == {each.name for each in windows}
    assert [listed(ledger, each) for each in windows] == [[f"file:///out/0/{each}" for each in FILES], [], []]
    assert [each for each in verify(ledger) if each.claim == "files"] == []


def test_windows_are_asked_for_by_time(ledger: Ledger) -> None:
    windows = [publish(ledger, resolve(ledger, hour), output=f"file:/out/{hour}") for hour in range(3)]
    resolve(ledger, 3)
    middle = windows[1]
    assert list(file_lists.published_files(ledger, middle.start_ms, middle.end_ms)) == [middle.name]
    assert list(file_lists.published_files(ledger, None, None)) == [each.name for each in windows]
    with pytest.raises(IntervalError, match="cut through"):
        file_lists.published_files(ledger, middle.start_ms, middle.end_ms - 1)


def test_duckdb_reads_the_files_of_a_list(ledger: Ledger, tmp_path: Path) -> None:
    for number, each in enumerate((*FILES, "of-an-attempt-that-counts-for-nothing.parquet")):
        rows: Any = pyarrow.table({"offset": range(number * 5, number * 5 + 5)})
        pyarrow.parquet.write_table(rows, tmp_path / each)
    window = publish(ledger, resolve(ledger, 0), output=tmp_path.as_uri())
    files = file_lists.published_files(ledger, None, None)[window.name]
    count = duckdb.sql(f'SELECT count(*), max("offset") FROM read_parquet({files!r})').fetchall()
    assert count == [(10, 9)]
