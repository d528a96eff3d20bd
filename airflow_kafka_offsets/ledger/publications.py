"""The publications of a window: one sequence for all its revisions, in the folder of the first one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.storage import StoragePath, create_exclusive, in_parallel, names, read
from airflow_kafka_offsets.offsets.proof.publication import (
    PUBLICATIONS,
    Publication,
    counting,
    publication_file,
    publication_numbers,
)


class Publications:
    """What was published of one window.

    :param folder: the folder of the window's first revision.
    """

    def __init__(self, folder: StoragePath) -> None:
        self._folder = folder / PUBLICATIONS

    def all(self, files: Iterable[str] | None = None) -> list[Publication]:
        """All of them, the oldest first.

        :param files: what is in their folder, where that was listed with the folders above it.
        :raises LedgerCorruptError: when one isn't what it should be.
        """
        return in_parallel(self._read, publication_numbers(names(self._folder) if files is None else files))

    def counting(self, live: Collection[int]) -> Publication | None:
        """The one that counts; None where nothing is published.

        :param live: numbers of the window's revisions that weren't forgotten.
        :raises LedgerCorruptError: when one isn't what it should be.
        """
        return counting(self.all(), live)

    def create(self, publication: Publication) -> bool:
        """Store one; see :meth:`.window_folders.WindowFolders.publish`."""
        return create_exclusive(self._folder / publication_file(publication.number), publication.to_bytes())

    def _read(self, number: int) -> Publication:
        path = self._folder / publication_file(number)
        content = read(path)
        if content is None:
            raise LedgerCorruptError(f"{path} vanished while it was read.")
        try:
            found = Publication.from_bytes(content)
        except LedgerCorruptError as error:
            raise LedgerCorruptError(f"{path}: {error}") from error
        if found.number != number:
            raise LedgerCorruptError(f"{path} says that it is number {found.number}: it was copied from another place.")
        return found
