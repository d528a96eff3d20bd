"""File lists: the files of each published window, for engines that can't read the ledger.

``files/window=<window>/files.txt`` names them by full path, one per line, in the format of ``SymlinkTextInputFormat``:
Athena, Trino and Presto read ``files/`` as a table partitioned by ``window``. A list is derived from the window's
publication alone, and written again whenever it differs from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from urllib.parse import unquote

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Publication, Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.proof.reading import whole_windows
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.ledger_names import is_window

_FOLDER = "files"
_WINDOW = "window="


def refresh(ledger: Ledger, published: Iterable[tuple[Window, RunResult | None]]) -> None:
    """Write the lists of windows that have just been published.

    :param published: each window, with what its published attempt read and wrote, if that is known.
    """
    left = [(window.name, window.publication, result) for window, result in published]
    while left:
        in_parallel(lambda each: _write(ledger, each[0], _files(ledger, *each)), left)
        # Another task may have published one since, or taken it away, and written its list before this one did.
        now = ledger.read().windows
        stands = {name: now[name].publication if name in now else None for name, _, _ in left}
        left = [(name, stands[name], None) for name, written, _ in left if not _is_same(stands[name], written)]


def _is_same(one: Publication | None, other: Publication | None) -> bool:
    """Whether two publications are by the same commit, verified or not."""
    return (None if one is None else one.number) == (None if other is None else other.number)


def ensure(ledger: Ledger, published: Sequence[tuple[Window, RunResult]]) -> None:
    """Write the lists of published windows, unless they are right: their publisher may have died before it did.

    :param published: each window, with what its published attempt read and wrote.
    """

    def is_right(each: tuple[Window, RunResult]) -> bool:
        window, result = each
        return _is_right(ledger, window.name, _files(ledger, window.name, window.publication, result))

    right = in_parallel(is_right, published)
    refresh(ledger, [each for each, is_so in zip(published, right, strict=True) if not is_so])


def correct(ledger: Ledger, name: str, result: RunResult | None = None) -> bool:
    """Write the list of a window again, if it isn't what is published. Returns whether it was right.

    :param result: what the published attempt read and wrote, if it is known.
    """
    window = ledger.state.windows.get(name)
    files = _files(ledger, name, None if window is None else window.publication, result)
    right = _is_right(ledger, name, files)
    if not right:
        _write(ledger, name, files)
    return right


def empty(ledger: Ledger, names: Collection[str]) -> None:
    """Empty the lists of windows that have just stopped counting. If this is interrupted, verification does it."""
    in_parallel(lambda name: correct(ledger, name), names)


def listed(ledger: Ledger) -> list[str]:
    """The windows that have a list, also those that are void."""
    names = (name.removeprefix(_WINDOW) for name in ledger.files.names(_FOLDER))
    return list(filter(is_window, names))


def between(ledger: Ledger, start_ms: int | None, end_ms: int | None) -> dict[str, list[str]]:
    """Files by published window, for the windows between two instants, Unix milliseconds; None for no bound.

    :raises IntervalError: when a published window crosses a bound.
    """
    published = {window.name: window.publication for window in ledger.state.published}
    windows = whole_windows(published, start_ms, end_ms)
    files = in_parallel(lambda name: _files(ledger, name, published[name]), windows)
    return {name: paths for name, paths in zip(windows, files, strict=True) if paths}


def files_of(result: RunResult) -> list[str]:
    """Full paths of the files that a published attempt has; none for a table."""
    return [f"{_plain(result.output or '')}/{unquote(file)}" for file in result.files]


def _files(ledger: Ledger, name: str, publication: Publication | None, result: RunResult | None = None) -> list[str]:
    """What a list has to name. The rows of a table, or of a window without offsets, have no files."""
    if publication is None or not publication.apart or publication.outputs[0].output is None:
        return []
    return files_of(result or ledger.published_result(name, publication))


def _is_right(ledger: Ledger, name: str, files: Sequence[str]) -> bool:
    return (ledger.files.read(_file(name)) or b"") == _content(files)


def _write(ledger: Ledger, name: str, files: Sequence[str]) -> None:
    """Make a list name these files; one without any is kept, empty, as engines may have read it."""
    if files or ledger.files.read(_file(name)):
        ledger.files.replace(_file(name), _content(files))


def _file(window: str) -> str:
    return f"{_FOLDER}/{_WINDOW}{window}/files.txt"


def _content(files: Sequence[str]) -> bytes:
    return "".join(f"{file}\n" for file in files).encode()


def _plain(output: str) -> str:
    """An output's URI as other engines spell it: ``s3a`` is Hadoop's scheme."""
    if output.startswith("s3a://"):
        return output.replace("s3a://", "s3://", 1)
    return output.replace("file:/", "file:///", 1) if not output.startswith("file://") else output
