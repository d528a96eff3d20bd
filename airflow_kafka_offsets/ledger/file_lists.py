"""File lists: the files of each published window, for engines that can't read the ledger.

``files/window=<window>/files.txt`` names them by full path, one per line, in the format of ``SymlinkTextInputFormat``:
Athena, Trino and Presto read ``files/`` as a table partitioned by ``window``. If each topic has an output of its own,
its table is ``files/<topic>/``. A list is derived from the window's publication alone, and written again whenever it
differs from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from urllib.parse import unquote

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, main_outputs
from airflow_kafka_offsets.offsets.windows.ledger_names import is_window, whole_windows

_FOLDER = "files"
_WINDOW = "window="


def refresh(ledger: Ledger, results: Mapping[str, RunResult]) -> None:
    """Write the lists of windows that have just been published.

    :param results: what their published attempts read and wrote, by window.
    """

    def write(file: str) -> None:
        if contents[file] or ledger.files.read(file):  # one without files is kept, empty, as it may be in use
            ledger.files.replace(file, contents[file])

    written: dict[str, bytes] = {}
    while (contents := _contents(ledger, results)) != written:
        in_parallel(write, [file for file, content in contents.items() if content != written.get(file)])
        written = contents
        # Another task may have published one since, or taken it away, and written its lists before this one did.
        ledger.read()


def correct(ledger: Ledger, name: str, result: RunResult | None = None) -> bool:
    """Write the lists of a window again, if they aren't what is published. Returns whether they were right.

    :param result: what a published attempt read and wrote, if it is known.
    """
    contents = _contents(ledger, {name: result})
    wrong = [file for file, content in contents.items() if (ledger.files.read(file) or b"") != content]
    for file in wrong:
        ledger.files.replace(file, contents[file])
    return not wrong


def listed(ledger: Ledger) -> list[str]:
    """The windows that have lists, also those that are void."""
    folders = [_FOLDER, *(f"{_FOLDER}/{topic}" for topic in _topics(ledger))]
    found = {name.removeprefix(_WINDOW) for folder in folders for name in ledger.files.names(folder)}
    return sorted(filter(is_window, found))


def published_files(ledger: Ledger, start_ms: int | None, end_ms: int | None) -> dict[str, list[str]]:
    """Files by published window, for the windows between two instants, Unix milliseconds; None for no bound.

    :raises IntervalError: when a published window crosses a bound.
    """
    windows = whole_windows([window.name for window in ledger.state.published], start_ms, end_ms)
    files = in_parallel(lambda name: _files(ledger, name), windows)
    paths = (list(chain.from_iterable(each.values())) for each in files)
    return {name: found for name, found in zip(windows, paths, strict=True) if found}


def _files(ledger: Ledger, name: str, result: RunResult | None = None) -> dict[str, list[str]]:
    """Full paths of the files that a window has, by topic if each has an output of its own. The rows of a table, or of
    a window without offsets, have no files."""
    window = ledger.state.windows.get(name)
    publication = None if window is None else window.publication
    if publication is None or not publication.apart or all(each.output is None for each in publication.outputs):
        return {}
    is_known = result is not None and (result.attempt, result.run) == (publication.attempt, publication.run)
    found = result if result is not None and is_known else ledger.published_result(name, publication)
    return {
        each.name: [f"{_plain(each.output or '')}/{unquote(file)}" for file in each.files]
        for each in main_outputs(found.outputs)
    }


def _contents(ledger: Ledger, results: Mapping[str, RunResult | None]) -> dict[str, bytes]:
    """What the lists of windows have to say, by the lists' names."""
    contents: dict[str, bytes] = {}
    for name, result in results.items():
        files, window = _files(ledger, name, result), ledger.state.windows.get(name)
        # What was published before may have had other outputs.
        before = () if window is not None and window.publication and not window.reloaded else ("", *_topics(ledger))
        for output in {*(files or [""]), *before}:
            file = "/".join(filter(None, (_FOLDER, output, f"{_WINDOW}{name}", "files.txt")))
            contents[file] = "".join(f"{path}\n" for path in files.get(output, [])).encode()
    return contents


def _topics(ledger: Ledger) -> list[str]:
    """The topics that have lists of their own."""
    return [name for name in ledger.files.names(_FOLDER) if not name.startswith(_WINDOW)]


def _plain(output: str) -> str:
    """An output's URI as other engines spell it: ``s3a`` is Hadoop's scheme."""
    if output.startswith("s3a://"):
        return output.replace("s3a://", "s3://", 1)
    return output.replace("file:/", "file:///", 1) if not output.startswith("file://") else output
