"""The publications of a window: one sequence for all its revisions, in the first revision's folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.storage import StoragePath, create_exclusive, in_parallel, names, read
from airflow_kafka_offsets.offsets.proof.publication import (
    Publication,
    counting,
    publication_file,
    publication_numbers,
)
from airflow_kafka_offsets.offsets.windows.ledger_names import PUBLICATIONS


class Publications:
    """The publications of one window.

    :param folder: the folder of the window's first revision.
    """

    def __init__(self, folder: StoragePath) -> None:
        self._folder = folder / PUBLICATIONS

    def all(self, files: Iterable[str] | None = None) -> list[Publication]:
        """All publications, oldest first.

        :param files: the files in their folder, if it was listed before.
        :raises LedgerCorruptError: when one is damaged.
        """
        return in_parallel(self._read, publication_numbers(names(self._folder) if files is None else files))

    def counting(self, live: Collection[int]) -> Publication | None:
        """The publication that counts; None when nothing is published.

        :param live: numbers of the window's revisions that weren't forgotten.
        :raises LedgerCorruptError: when one is damaged.
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
            raise LedgerCorruptError(f"{path} contains publication {found.number}: it was copied from another file.")
        return found
