"""File lists: the files of each published window, for engines that can't read the ledger.

``files/window=<window>/files.txt`` names them by full path, one per line, in the format of ``SymlinkTextInputFormat``:
Athena, Trino and Presto read ``files/`` as a table partitioned by ``window``. A list is derived only from the window's
publication, and written again whenever it differs from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from urllib.parse import unquote

from airflow_kafka_offsets.ledger.storage import StoragePath, in_parallel, names, read, replace_file
from airflow_kafka_offsets.ledger.window_folders import WindowFolders
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.reading import bounds, overlaps, refuse_unreadable
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.ledger_names import is_window, live_revisions
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange

_FOLDER = "files"
_FILE = "files.txt"
_WINDOW = "window="
_INSIDE = "outside_window=false/"


class FileLists:
    """The lists of one pipeline.

    :param folder: the pipeline's folder.
    :param window_folders: its windows.
    """

    def __init__(self, folder: StoragePath, window_folders: WindowFolders) -> None:
        self._folder = folder / _FOLDER
        self._window_folders = window_folders

    def refresh(self, window: str, wanted: Sequence[str] | None = None) -> None:
        """Make a window's list match its publication.

        :param wanted: the files of the publication that counted a moment ago, if known. A task that publishes another
            one after that writes the list as well.
        """
        wanted = self.files(window) if wanted is None else wanted
        while not self.has(window, wanted):
            replace_file(self._path(window), _content(wanted))
            # Check again: another task may be publishing and writing the list now, and the last one to check corrects
            # it.
            wanted = self.files(window)

    def has(self, window: str, files: Sequence[str]) -> bool:
        """Whether a window's list names exactly these files; a missing list counts as empty."""
        return (read(self._path(window)) or b"") == _content(files)

    def windows(self) -> set[str]:
        """The windows that have a list, forgotten ones too."""
        return set(filter(is_window, (name.removeprefix(_WINDOW) for name in names(self._folder))))

    def files(self, window: str) -> list[str]:
        """Full paths of a window's published files; none when it isn't published, has no rows, or was written to a
        table. With strict time, only the files of rows inside its time."""
        published = self._window_folders.publication(window)
        return [] if published is None else files_of(self._result(window, published))

    def between(self, start_ms: int | None, end_ms: int | None) -> dict[str, list[str]]:
        """Files by published window, for the windows between two instants, Unix milliseconds; None for no bound.

        :raises IntervalError: when a published window crosses a bound.
        :raises LedgerConflictError: when published windows with rows share offsets, or don't meet where they should.
        """
        low, high = bounds(start_ms, end_ms)
        windows = [window for window in live_revisions(self._window_folders.names()) if overlaps(window, low, high)]
        asked = zip(windows, in_parallel(self._window_folders.publication, windows), strict=True)
        found = {window: publication for window, publication in asked if publication is not None}
        results = in_parallel(lambda window: self._result(window, found[window]), found)

        def ranges(window: str) -> tuple[OffsetRange, ...]:
            pinned = self._window_folders.folder(window, found[window].revision).pinned()
            return () if pinned is None else pinned.manifest.ranges

        refuse_unreadable(found, low, high, cache(ranges))
        return {window: paths for window, result in zip(found, results, strict=True) if (paths := files_of(result))}

    def _result(self, window: str, published: Publication) -> RunResult:
        return self._window_folders.folder(window, published.revision).published_result(published)

    def _path(self, window: str) -> StoragePath:
        return self._folder / f"{_WINDOW}{window}" / _FILE


def _content(files: Sequence[str]) -> bytes:
    return "".join(f"{file}\n" for file in files).encode()


def files_of(result: RunResult) -> list[str]:
    """The files that an attempt contributes to a list."""
    inside = [file for file in result.files if file.startswith(_INSIDE)] if result.strict_time else result.files
    return [f"{_plain(result.output or '')}/{unquote(file)}" for file in inside]


def _plain(output: str) -> str:
    """An output's URI as other engines spell it: ``s3a`` is Hadoop's scheme."""
    if output.startswith("s3a://"):
        return output.replace("s3a://", "s3://", 1)
    return output.replace("file:/", "file:///", 1) if not output.startswith("file://") else output
