"""File lists: which files a published window has, for engines that know nothing of the ledger.

``files/window=<window>/files.txt`` names them by full path, a line each, in the form of ``SymlinkTextInputFormat``:
Athena, Trino and Presto take ``files/`` for a table that is partitioned by ``window``. A list is made from the window's
publication and nothing else, and made again whenever it isn't what that says.
"""

from __future__ import annotations

from urllib.parse import unquote

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import StoragePath, in_parallel, read, replace_file
from airflow_kafka_offsets.offsets.audit import RunResult
from airflow_kafka_offsets.offsets.window_names import window_extent

_FOLDER = "files"
_FILE = "files.txt"
_WINDOW = "window="
_INSIDE = "outside_window=false/"


class FileLists:
    """The lists of one pipeline.

    :param ledger: its ledger.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._folder = ledger.folder / _FOLDER

    def refresh(self, window: str) -> None:
        """Make a window's list what its publication says. Looked at again once it is written: whoever publishes another
        revision at this moment writes a list too, and the last one to look makes it right."""
        path = self._path(window)
        while True:
            wanted = self.files(window)
            content, standing = "".join(f"{each}\n" for each in wanted).encode(), read(path)
            if standing == content or (standing is None and not wanted):
                return
            replace_file(path, content)

    def files(self, window: str) -> list[str]:
        """The files of what counts of a window, by full path; none where it isn't published, has no rows, or is in a
        table. With strict time those of the rows inside its time."""
        published = self._ledger.window_folders.publication(window)
        if published is None:
            return []
        _, result = self._ledger.window_folders.revision(window, published.revision).published_result()
        return _paths(result)

    def between(self, start_ms: int | None, end_ms: int | None) -> dict[str, list[str]]:
        """Files by published window, of the windows that lie between two instants, Unix milliseconds; None for no
        bound."""
        extents = {each.id: window_extent(each.id) for each in self._ledger.windows()}
        inside = [
            each
            for each, (starts, ends) in extents.items()
            if (start_ms is None or starts >= start_ms) and (end_ms is None or ends <= end_ms)
        ]
        return {window: files for window, files in zip(inside, in_parallel(self.files, inside), strict=True) if files}

    def _path(self, window: str) -> StoragePath:
        return self._folder / f"{_WINDOW}{window}" / _FILE


def _paths(result: RunResult) -> list[str]:
    inside = [each for each in result.files if each.startswith(_INSIDE)] if result.strict_time else result.files
    return [f"{_plain(result.output or '')}/{unquote(each)}" for each in inside]


def _plain(output: str) -> str:
    """An output's URI as other engines spell it: ``s3a`` is Hadoop's own word."""
    if output.startswith("s3a://"):
        return output.replace("s3a://", "s3://", 1)
    return output.replace("file:/", "file:///", 1) if not output.startswith("file://") else output
