"""The windows of a ledger: in folders by month and revision, found by name; and their index, in order of time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice

from airflow_kafka_offsets.errors import LedgerError, WindowOverlapError
from airflow_kafka_offsets.ledger.publications import Publications
from airflow_kafka_offsets.ledger.settlement import Settlement
from airflow_kafka_offsets.ledger.storage import StoragePath, create_exclusive, in_parallel, names, names_below
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.windows.ledger_names import (
    PUBLICATIONS,
    WINDOWS,
    forgotten_marker,
    is_month,
    live_revisions,
    month_of,
    published_again_marker,
    revision_folder,
    revisions_of,
    window_extent,
)
from airflow_kafka_offsets.offsets.windows.manifest import Manifest

_MOST_TRIES = 1_000
_FIRST = 1


class WindowFolders:
    """All windows of one pipeline.

    :param folder: the pipeline's folder.
    """

    def __init__(self, folder: StoragePath) -> None:
        self._folder = folder / WINDOWS

    def names(self, months: Iterable[str] | None = None, *, until: str = "999912") -> list[str]:
        """Names in the folders of some months; None for all months up to ``until``."""
        if months is None:
            months = [month for month in names(self._folder) if is_month(month) and month <= until]
        return list(chain.from_iterable(in_parallel(lambda month: names(self._folder / month), months)))

    def folder(self, window: str, number: int) -> WindowFolder:
        """One revision's folder; it need not exist."""
        month, name = month_of(window), revision_folder(window, number)
        publications = Publications(self._folder / month / revision_folder(window, _FIRST))
        settlement = Settlement(self._folder, f"{month}/{name}")
        return WindowFolder(self._folder / month / name, window, number, publications, settlement)

    def of(self, pinned: PinnedManifest) -> WindowFolder:
        """The folder of a pinned revision."""
        return self.folder(pinned.manifest.window, pinned.manifest.revision)

    def index(self) -> WindowIndex:
        """All windows that count, in order of time."""
        return WindowIndex(self.names())

    def live_numbers(self, window: str) -> list[int]:
        """Numbers of a window's revisions that count, oldest first."""
        return live_revisions(self._names_of(window)).get(window, [])

    def live(self, window: str) -> list[WindowFolder]:
        """A window's revisions that count, oldest first."""
        return [self.folder(window, number) for number in self.live_numbers(window)]

    def made(self, window: str) -> list[WindowFolder]:
        """All revisions of a window, forgotten ones too, oldest first."""
        return [self.folder(window, number) for number in revisions_of(self._names_of(window)).get(window, [])]

    def newest(self, window: str, live: Sequence[int] = ()) -> WindowFolder:
        """A window's newest revision that counts; the folder of the next one when there is none.

        :param live: numbers of its revisions that count, if known.
        """
        found = [] if live else self._names_of(window)
        live = live or live_revisions(found).get(window, ())
        if not live:
            return self.folder(window, _next_number(window, found))
        return _newest([self.folder(window, number) for number in live])

    def publication(self, window: str, live: Collection[int] | None = None) -> Publication | None:
        """The publication of a window that counts; None when nothing is published.

        :param live: numbers of its revisions that count, if known.
        :raises LedgerCorruptError: when a publication is damaged.
        """
        live = self.live_numbers(window) if live is None else live
        return self.folder(window, _FIRST).publications.counting(live)

    def current(self, names: Iterable[str] | None = None) -> list[WindowFolder]:
        """The published revision of every window, in order of time, each followed by the newest one if that is another
        one; only the newest if nothing is published.

        :param names: names in the months' folders, if known.
        """
        live = live_revisions(self.names() if names is None else names)
        return list(chain.from_iterable(self.current_of(window, numbers) for window, numbers in live.items()))

    def current_of(self, window: str, numbers: Sequence[int]) -> list[WindowFolder]:
        """The same for one window, whose revisions are known."""
        revisions = [self.folder(window, number) for number in numbers]
        newest = _newest(revisions)
        if newest.revision == _FIRST:
            return [newest]
        published = newest.publications.counting(numbers)
        if published is None or published.revision == newest.revision:
            return [newest]
        return [self.folder(window, published.revision), newest]

    def published_in(self, month: str) -> set[str]:
        """The windows of a month that are published, from one listing: on an object store, one request per thousand
        files."""
        found = names_below(self._folder / month)
        folders = {path.partition("/")[0] for path in found}
        live, made = live_revisions(folders), revisions_of(folders)
        begun = {path.split("/")[0] for path in found if path.split("/")[1:2] == [PUBLICATIONS]}
        # If no revision was forgotten, any publication counts.
        return {
            window
            for window in begun & live.keys()
            if live[window] == made[window] or self.publication(window, live[window]) is not None
        }

    def pin_again(self, manifest: Manifest) -> PinnedManifest:
        """Store a manifest as the window's next revision, and settle it, since it has no offsets that the window lacks.
        Those of the revision that it was made from may be other windows' if the window is resolved again meanwhile.

        :param manifest: the manifest, with the number of the revision that it was made from.
        :returns: as :meth:`pin_next`.
        :raises WindowOverlapError: when another task takes it back, or resolves the window again, at the same moment; a
            retry can succeed.
        """
        pinned = self.pin_next(manifest)
        folder = self.of(pinned)
        for between in self.live(manifest.window):
            is_newer = manifest.revision < between.revision < folder.revision
            if is_newer and not between.settlement.take_back("what is left of an older revision was pinned meanwhile"):
                self.take_back(folder, "made from a revision that was resolved again meanwhile")
                raise WindowOverlapError(
                    f"Window {folder.id} has just been resolved again by another task, as revision {between.revision}. "
                    "Try again.",
                    passes=True,
                )
        if not folder.settlement.settle(pinned.sha256):
            raise taken_back(folder)
        return pinned

    def pin_next(self, manifest: Manifest) -> PinnedManifest:
        """Store a manifest as the window's next revision, which must be settled afterwards.

        :returns: the stored manifest: another writer's, if its revision has the same content.
        """
        for _ in range(_MOST_TRIES):
            # Read before the newest revision: a revision pinned between the two reads is that one, or has this number.
            number = _next_number(manifest.window, self._names_of(manifest.window))
            stored = self.newest(manifest.window).pinned()
            if stored is not None and stored.manifest == manifest.revised(stored.manifest.revision):
                return stored
            pinned = self.folder(manifest.window, number).pin_new(manifest.revised(number))
            if pinned is not None:
                return pinned
        raise LedgerError(
            f"Window {manifest.window} got {_MOST_TRIES} new revisions in the meantime. Is something looping?"
        )

    def take_back(self, folder: WindowFolder, why: str) -> bool:
        """Take back a revision that was just pinned, so that it doesn't count.

        :returns: False when another task has settled it meanwhile, or is loading it.
        """
        if folder.listing().state is not WindowState.PINNED or not folder.settlement.take_back(why):
            return False
        self._mark_forgotten(folder, why)
        return True

    def to_pin(self, window: str) -> tuple[WindowFolder, PinnedManifest | None]:
        """The newest revision that counts, with its manifest; or the next revision's folder, and None. If a crash
        interrupted taking a revision back, that is finished first."""
        while True:
            found = self._names_of(window)
            live = live_revisions(found).get(window)
            if live is None:
                return self.folder(window, _next_number(window, found)), None
            folder = _newest([self.folder(window, number) for number in live])
            pinned = folder.pinned()
            if pinned is not None or not folder.is_taken_back:
                return folder, pinned
            self._mark_forgotten(folder, "taken back")

    def forget(self, window: str, why: str) -> None:
        """Forget all revisions of a window, so that none counts any more. The folders stay."""
        while live := self.live(window):  # repeated: another task may have pinned one meanwhile
            for folder in live:
                self._mark_forgotten(folder, why)

    def publish(self, window: str, publication: Publication) -> bool:
        """Create a window's next publication: this publishes the window.

        :returns: False when its number is taken: another task has published meanwhile.
        """
        if publication.number > 1:
            # Marker first: whenever this publication counts, readers of checkpoints with an earlier one must see it.
            marker = published_again_marker(window, publication.number)
            create_exclusive(self._folder / month_of(window) / marker, publication.attempt.encode())
        return self.folder(window, _FIRST).publications.create(publication)

    def _mark_forgotten(self, folder: WindowFolder, why: str) -> None:
        marker = self._folder / month_of(folder.id) / forgotten_marker(folder.id, folder.revision)
        create_exclusive(marker, why.encode())

    def _names_of(self, window: str) -> list[str]:
        return [name for name in self.names([month_of(window)]) if name.startswith(window)]


class WindowIndex:
    """The windows that count, with their revisions and times, in order of time; from one listing.

    File names tell all that, so no file is read. To ask several questions about the same moment, share one index; to
    see later changes, make a new one.

    :param names: names in the months' folders.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.live = live_revisions(names)
        """The revisions that count, oldest first, by window, in order of the windows' starts."""
        self.extents = {window: window_extent(window) for window in self.live}
        """Starts and ends, Unix milliseconds."""
        self._by_start = list(self.live)
        self._by_end = sorted(self._by_start, key=self._end_ms)
        # The latest end of the windows up to each one: so that a search back in time can stop.
        self._reach = list(accumulate((end_ms for _, end_ms in self.extents.values()), max))

    def latest_first(self) -> list[str]:
        """All windows, the one that ends last first."""
        return self._by_end[::-1]

    def ending_by(self, time_ms: int) -> Iterator[str]:
        """The windows that end at or before a time, the one that ends last first."""
        place = bisect_right(self._by_end, time_ms, key=self._end_ms)
        return map(self._by_end.__getitem__, range(place - 1, -1, -1))

    def starting_from(self, time_ms: int) -> Iterator[str]:
        """The windows that start at or after a time, in order of their starts."""
        return islice(self._by_start, self._place(time_ms), None)

    def crossing(self, start_ms: int, end_ms: int) -> list[str]:
        """The windows that overlap the time between two instants, in order of their starts."""
        place, found = self._place(end_ms), []
        while place and self._reach[place - 1] > start_ms:
            place -= 1
            if self.extents[self._by_start[place]][1] > start_ms:
                found.append(self._by_start[place])
        return found[::-1]

    def in_a_row(self, unchained: Collection[int] = ()) -> list[str]:
        """Windows that don't overlap each other in time, in order. Of windows that do, the ones that end first, so one
        that spans many others is left out.

        :param unchained: times of the snapshots outside the chain: windows that start or end there are left out.
        """
        row: list[str] = []
        until_ms = 0
        # Of windows that end together, the shortest comes first.
        for window, (start_ms, end_ms) in sorted(self.extents.items(), key=lambda each: (each[1][1], -each[1][0])):
            if start_ms >= until_ms and start_ms not in unchained and end_ms not in unchained:
                row.append(window)
                until_ms = end_ms
        return row

    def _end_ms(self, window: str) -> int:
        return self.extents[window][1]

    def _place(self, time_ms: int) -> int:
        return bisect_left(self._by_start, time_ms, key=lambda window: self.extents[window][0])


def taken_back(folder: WindowFolder) -> WindowOverlapError:
    """The error for a window that another task, which was pinning it too, took back."""
    return WindowOverlapError(
        f"Window {folder.id} has just been taken back by another task, which was pinning it too and found a "
        "window that shares its offsets. Try again.",
        passes=True,
    )


def _next_number(window: str, found: Iterable[str]) -> int:
    """The number of a window's next revision, given the names in its month's folder."""
    return 1 + max(revisions_of(found).get(window, [0]))


def _newest(revisions: Sequence[WindowFolder]) -> WindowFolder:
    """The newest of a window's revisions, which are given oldest first. Skips later ones that were taken back, or that
    a crash left without a manifest."""
    return next((revision for revision in reversed(revisions[1:]) if revision.is_pinned), revisions[0])
