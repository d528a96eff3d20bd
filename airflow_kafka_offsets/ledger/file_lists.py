"""File lists: the files of each published window, for engines that can't read the ledger.

``files/window=<window>/files.txt`` names them by full path, one per line, in the format of ``SymlinkTextInputFormat``:
Athena, Trino and Presto read ``files/`` as a table partitioned by ``window``. If each topic has an output of its own,
its table is ``files/<topic>/``. A list is derived from the window's publication alone, and written again whenever it
differs from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from urllib.parse import unquote

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.proof.reading import whole_windows
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, main_outputs
from airflow_kafka_offsets.offsets.windows.ledger_names import is_window

_FOLDER = "files"
_WINDOW = "window="


def refresh(ledger: Ledger, window: Window, result: RunResult | None = None) -> None:
    """Write the lists of a window that has just been published.

    :param result: what the published attempt read and wrote, if it is known.
    """
    written: Window | None = window
    while True:
        _write(ledger, _lists(ledger, window.name, written, result))
        # Another task may have published the window since, or taken it away, and written its lists before this one did.
        now = ledger.read().windows.get(window.name)
        if _publication_number(now) == _publication_number(written):
            return
        written, result = now, None


def ensure(ledger: Ledger, window: Window, result: RunResult) -> None:
    """Write the lists of a published window, unless they are right: its publisher may have died before it did.

    :param result: what the published attempt read and wrote.
    """
    if not _are_right(ledger, _lists(ledger, window.name, window, result)):
        refresh(ledger, window, result)


def correct(ledger: Ledger, name: str, result: RunResult | None = None) -> bool:
    """Write the lists of a window again, if they aren't what is published. Returns whether they were right.

    :param result: what the published attempt read and wrote, if it is known.
    """
    lists = _lists(ledger, name, ledger.state.windows.get(name), result)
    right = _are_right(ledger, lists)
    if not right:
        _write(ledger, lists)
    return right


def empty(ledger: Ledger, names: Collection[str]) -> None:
    """Empty the lists of windows that have just stopped counting. If this is interrupted, verification does it."""
    in_parallel(lambda name: correct(ledger, name), names)


def listed(ledger: Ledger) -> list[str]:
    """The windows that have lists, also those that are void."""
    folders = [_FOLDER, *(f"{_FOLDER}/{topic}" for topic in _topics(ledger))]
    found = {name.removeprefix(_WINDOW) for folder in folders for name in ledger.files.names(folder)}
    return sorted(filter(is_window, found))


def between(ledger: Ledger, start_ms: int | None, end_ms: int | None) -> dict[str, list[str]]:
    """Files by published window, for the windows between two instants, Unix milliseconds; None for no bound.

    :raises IntervalError: when a published window crosses a bound.
    """
    published = {window.name: window for window in ledger.state.published}
    windows = whole_windows(published, start_ms, end_ms)
    found = in_parallel(lambda name: _files(ledger, published[name]), windows)
    files = (list(chain.from_iterable(each.values())) for each in found)
    return {name: paths for name, paths in zip(windows, files, strict=True) if paths}


def _files(ledger: Ledger, window: Window, result: RunResult | None = None) -> dict[str, list[str]]:
    """Full paths of the files that a published window has, by topic if each has an output of its own. The rows of a
    table, or of a window without offsets, have no files."""
    published = window.publication
    if published is None or not published.apart or all(each.output is None for each in published.outputs):
        return {}
    result = result or ledger.published_result(window.name, published)
    return {
        each.name: [f"{_plain(each.output or '')}/{unquote(file)}" for file in each.files]
        for each in main_outputs(result.outputs)
    }


def _lists(ledger: Ledger, name: str, window: Window | None, result: RunResult | None) -> dict[str, list[str]]:
    """What each list of a window has to name, by the list's path."""
    files = {} if window is None else _files(ledger, window, result)
    # What was published before may have had other outputs.
    before = () if window is not None and window.publication and not window.reloaded else ("", *_topics(ledger))
    return {_file(name, output): files.get(output, []) for output in {*(files or [""]), *before}}


def _topics(ledger: Ledger) -> list[str]:
    """The topics that have lists of their own."""
    return [name for name in ledger.files.names(_FOLDER) if not name.startswith(_WINDOW)]


def _publication_number(window: Window | None) -> int | None:
    return None if window is None or window.publication is None else window.publication.number


def _are_right(ledger: Ledger, lists: Mapping[str, Sequence[str]]) -> bool:
    return all((ledger.files.read(file) or b"") == _content(files) for file, files in lists.items())


def _write(ledger: Ledger, lists: Mapping[str, Sequence[str]]) -> None:
    """Make lists name these files; one without any is kept, empty, as engines may have read it."""
    for file, files in lists.items():
        if files or ledger.files.read(file):
            ledger.files.replace(file, _content(files))


def _file(window: str, topic: str) -> str:
    return "/".join(filter(None, (_FOLDER, topic, f"{_WINDOW}{window}", "files.txt")))


def _content(files: Sequence[str]) -> bytes:
    return "".join(f"{file}\n" for file in files).encode()


def _plain(output: str) -> str:
    """An output's URI as other engines spell it: ``s3a`` is Hadoop's scheme."""
    if output.startswith("s3a://"):
        return output.replace("s3a://", "s3://", 1)
    return output.replace("file:/", "file:///", 1) if not output.startswith("file://") else output
