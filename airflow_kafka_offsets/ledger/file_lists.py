"""File lists: the files of each published window, for engines that can't read the ledger.

``files/window=<window>/files.txt`` names them by full path, one per line, in the format of ``SymlinkTextInputFormat``:
Athena, Trino and Presto read ``files/`` as a table partitioned by ``window``. A list is derived from the window's
publication alone, and written again whenever it differs from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.proof.reading import whole_windows
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.ledger_names import is_window

_FOLDER = "files"
_WINDOW = "window="


def refresh(ledger: Ledger, results: Mapping[str, RunResult]) -> None:
    """Write the lists of windows that have just been published.

    :param results: what their published attempts read and wrote, by window.
    """

    def write(name: str) -> None:
        if contents[name] or ledger.files.read(_file(name)):  # one without files is kept, empty, as it may be in use
            ledger.files.replace(_file(name), contents[name])

    written: dict[str, bytes] = {}
    while (contents := {name: _content(ledger, name, each) for name, each in results.items()}) != written:
        in_parallel(write, [name for name, content in contents.items() if content != written.get(name)])
        written = contents
        # Another task may have published one since, or taken it away, and written its list before this one did.
        ledger.read()


def correct(ledger: Ledger, name: str, result: RunResult | None = None) -> bool:
    """Write the list of a window again, if it isn't what is published. Returns whether it was right.

    :param result: what a published attempt read and wrote, if it is known.
    """
    content = _content(ledger, name, result)
    is_right = (ledger.files.read(_file(name)) or b"") == content
    if not is_right:
        ledger.files.replace(_file(name), content)
    return is_right


def listed(ledger: Ledger) -> list[str]:
    """The windows that have a list, also those that are void."""
    names = (name.removeprefix(_WINDOW) for name in ledger.files.names(_FOLDER))
    return list(filter(is_window, names))


def published_files(ledger: Ledger, start_ms: int | None, end_ms: int | None) -> dict[str, list[str]]:
    """Files by published window, for the windows between two instants, Unix milliseconds; None for no bound.

    :raises IntervalError: when a published window crosses a bound.
    """
    windows = whole_windows([window.name for window in ledger.state.published], start_ms, end_ms)
    files = in_parallel(lambda name: _files(ledger, name), windows)
    return {name: paths for name, paths in zip(windows, files, strict=True) if paths}


def files_of(result: RunResult) -> list[str]:
    """Full paths of the files that a published attempt has; none for a table."""
    return [f"{_plain(result.output or '')}/{unquote(file)}" for file in result.files]


def _files(ledger: Ledger, name: str, result: RunResult | None = None) -> list[str]:
    """What a list has to name. The rows of a table, or of a window without offsets, have no files."""
    window = ledger.state.windows.get(name)
    publication = None if window is None else window.publication
    if publication is None or not publication.apart or publication.outputs[0].output is None:
        return []
    is_known = result is not None and (result.attempt, result.run) == (publication.attempt, publication.run)
    return files_of(result if result is not None and is_known else ledger.published_result(name, publication))


def _content(ledger: Ledger, name: str, result: RunResult | None) -> bytes:
    return "".join(f"{file}\n" for file in _files(ledger, name, result)).encode()


def _file(window: str) -> str:
    return f"{_FOLDER}/{_WINDOW}{window}/files.txt"


def _plain(output: str) -> str:
    """An output's URI as other engines spell it: ``s3a`` is Hadoop's scheme."""
    if output.startswith("s3a://"):
        return output.replace("s3a://", "s3://", 1)
    return output.replace("file:/", "file:///", 1) if not output.startswith("file://") else output
