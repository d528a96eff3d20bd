"""The windows of a ledger: in month folders, in revisions, all of them found by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from airflow_kafka_offsets.errors import LedgerError, WindowOverlapError
from airflow_kafka_offsets.ledger.storage import StoragePath, create_exclusive, in_parallel, names, names_below
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder, WindowState
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.publication import COMMITTED, counting
from airflow_kafka_offsets.offsets.window_names import (
    forgotten_marker,
    is_month,
    live_revisions,
    month_of,
    revision_folder,
    revisions_of,
)

_MOST_TRIES = 1_000


class WindowFolders:
    """All windows of one pipeline.

    :param folder: the pipeline's folder.
    """

    def __init__(self, folder: StoragePath) -> None:
        self._folder = folder / "windows"

    def names(self, months: Iterable[str] | None = None) -> list[str]:
        """What is in the folders of some months; None for all."""
        wanted = filter(is_month, names(self._folder)) if months is None else months
        return list(chain.from_iterable(in_parallel(lambda month: names(self._folder / month), wanted)))

    def revision(self, window: str, number: int) -> WindowFolder:
        """One revision's folder; it need not exist."""
        return WindowFolder(self._folder / month_of(window) / revision_folder(window, number), window, number)

    def live(self, window: str) -> list[WindowFolder]:
        """A window's revisions that count, oldest first."""
        return [self.revision(window, each) for each in live_revisions(self._names_of(window)).get(window, [])]

    def newest(self, window: str) -> WindowFolder:
        """A window's newest revision that counts; the folder of the next one when there is none."""
        live = self.live(window)
        return _newest(live) if live else self.revision(window, self._next_number(window))

    def published(self, window: str) -> WindowFolder | None:
        """The published revision whose rows count."""
        live = self.live(window)
        found = counting([each.publication() for each in live])
        return None if found is None else live[found]

    def all(self) -> list[WindowFolder]:
        """The newest revision of every window, in order of time."""
        live = live_revisions(self.names())
        return [_newest([self.revision(window, each) for each in numbers]) for window, numbers in live.items()]

    def current(self) -> list[WindowFolder]:
        """The revision of every window that counts, in order of time; after it, where it isn't published, the newest
        one."""
        live = live_revisions(self.names())
        return list(chain.from_iterable(self.counting(window, numbers) for window, numbers in live.items()))

    def counting(self, window: str, numbers: Sequence[int]) -> list[WindowFolder]:
        """The same of one window, whose revisions are known."""
        revisions = [self.revision(window, each) for each in numbers]
        newest = _newest(revisions)
        if newest.revision == 1:
            return [newest]
        publications = [each.publication() for each in revisions]
        published = counting(publications)
        found = [] if published is None else [revisions[published]]
        if published is None or publications[revisions.index(newest)] is None:
            found.append(newest)
        return found

    def published_in(self, month: str) -> set[str]:
        """Folders of a month's revisions that have a publication, by one look: on an object store a request for a
        thousand files."""
        found = (each.split("/") for each in names_below(self._folder / month))
        return {folder for folder, *rest in found if rest == [COMMITTED]}

    def pin_again(self, manifest: Manifest) -> PinnedManifest:
        """Store a manifest as the window's next revision, and settle it: it has no other offsets than the window has.

        :returns: as :meth:`pin_next`.
        :raises WindowOverlapError: when another task takes it back at this moment; to be tried again.
        """
        pinned = self.pin_next(manifest)
        folder = self.revision(pinned.manifest.window, pinned.manifest.revision)
        if not folder.settle():
            raise taken_back(folder)
        return pinned

    def pin_next(self, manifest: Manifest) -> PinnedManifest:
        """Store a manifest as the window's next revision, which is to be settled then.

        :returns: what is stored: when another writer's revision says the same already, that one.
        """
        for _ in range(_MOST_TRIES):
            stored = self.newest(manifest.window).pinned()
            if stored is not None and stored.manifest == manifest.revised(stored.manifest.revision):
                return stored
            number = self._next_number(manifest.window)
            pinned = self.revision(manifest.window, number).pin_new(manifest.revised(number))
            if pinned is not None:
                return pinned
        raise LedgerError(f"Window {manifest.window} was revised {_MOST_TRIES} times meanwhile. Is something looping?")

    def take_back(self, folder: WindowFolder, why: str) -> bool:
        """Let a revision not count that was pinned a moment ago.

        :returns: False where somebody else has settled it meanwhile, or loads it.
        """
        if folder.listing().state is not WindowState.RESOLVED or not folder.take_back(why):
            return False
        self._mark_forgotten(folder, why)
        return True

    def to_pin(self, window: str) -> WindowFolder:
        """As :meth:`newest`, once what a crash left of a taking back is finished."""
        folder = self.newest(window)
        if folder.is_taken_back:
            self._mark_forgotten(folder, "taken back")
            folder = self.newest(window)
        return folder

    def forget(self, window: str, why: str) -> list[int]:
        """Let no revision of a window count any more. The folders stay.

        :returns: the revisions that counted.
        """
        live = self.live(window)
        for each in live:
            self._mark_forgotten(each, why)
        return [each.revision for each in live]

    def _mark_forgotten(self, folder: WindowFolder, why: str) -> None:
        marker = self._folder / month_of(folder.id) / forgotten_marker(folder.id, folder.revision)
        create_exclusive(marker, why.encode())

    def _next_number(self, window: str) -> int:
        return 1 + max(revisions_of(self._names_of(window)).get(window, [0]))

    def _names_of(self, window: str) -> list[str]:
        """What is named after one window."""
        return [each for each in self.names([month_of(window)]) if each.startswith(window)]


def taken_back(folder: WindowFolder) -> WindowOverlapError:
    """The error of a window that another task took back, which was pinning it too."""
    return WindowOverlapError(
        f"Window {folder.id} was taken back at this moment by another task that pinned it too, and found a window that "
        "shares its offsets. Try again.",
        passes=True,
    )


def _newest(revisions: Sequence[WindowFolder]) -> WindowFolder:
    """Of a window's revisions, oldest first. A later one that was taken back, or that a crash left without a manifest,
    is passed over."""
    return next((each for each in reversed(revisions[1:]) if each.is_pinned), revisions[0])
