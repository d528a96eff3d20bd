"""The log of snapshots: numbered files, appended optimistically, as Delta Lake commits its log.

A writer clamps its snapshot between the nearest stored neighbours in time, and creates the next number exclusively. If
another writer took that number, it reads the log and clamps again. So every entry takes all earlier ones into account,
and the chain is monotone under any race.

``instants/`` is an index by time, one folder per month: a marker for each entry, written *before* the entry, so that
every entry has its marker after any crash. A marker without its entry means nothing; an entry's content tells which
marker belongs to it.

Forgetting a snapshot is an entry too: its instant is then resolved again when next needed. While a window that was made
from the snapshot still counts, the snapshot bounds the others, and the instant gets the same offsets back, however
often it was forgotten.

Workers' clocks needn't agree, but a snapshot from a clock that is far ahead would end every window up to its time at
its own offsets. The first writer that finds such a snapshot refuses to continue.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError, LedgerError
from airflow_kafka_offsets.ledger.snapshot_index import (
    FORGET,
    Entry,
    SnapshotIndex,
    forgotten_instants,
    forgotten_numbers,
    live,
    unchained_times,
)
from airflow_kafka_offsets.ledger.snapshot_placement import Placed, Placement
from airflow_kafka_offsets.ledger.storage import (
    StoragePath,
    create_exclusive,
    in_parallel,
    names,
    parse_json,
    read,
    to_json_bytes,
)
from airflow_kafka_offsets.ledger.window_folders import WindowFolders
from airflow_kafka_offsets.offsets.instants import compact_instant, iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import is_month, live_revisions, month_of, window_extent
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, OffsetSnapshot

_FILE = re.compile(r"(\d{8})\.json\.gz")
_FOLDER = re.compile(r"\d{5}")
_FOLDER_SIZE = 1_000
_MOST_TRIES = 1_000


class Appended(list[OffsetSnapshot]):
    """Stored snapshots, in the order in which they were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh: set[int | None] = set()
        """Numbers of those that this writer stored, with their boundaries as they were given or clamped. The others are
        earlier ones: another writer's, or forgotten ones that came back."""

    def add(self, placed: Placed) -> None:
        """Add the next one."""
        self.append(placed.snapshot)
        if placed.is_fresh:
            self.fresh.add(placed.snapshot.number)


class SnapshotLog:
    """One pipeline's snapshots.

    :param folder: the pipeline's folder.
    :param window_folders: its windows.
    """

    def __init__(self, folder: StoragePath, window_folders: WindowFolders) -> None:
        self._window_folders = window_folders
        self._pipeline = folder.name
        self._entries = folder / "snapshots"
        self._markers = folder / "instants"
        self._last_folder = ""
        """Folder of the newest entry when last looked up."""

    def last_number(self) -> int:
        """The number of the newest entry; 0 for an empty log."""
        last = self._last_in(self._last_folder) if self._last_folder else 0
        if last and (last + 1) % _FOLDER_SIZE:
            return last  # numbers are taken in order: while this folder has room, later folders have no entries
        for folder in filter(_FOLDER.fullmatch, reversed(names(self._entries))):
            last = self._last_in(folder)
            if last:
                self._last_folder = folder
                return last
        return 0

    def _last_in(self, folder: str) -> int:
        found = map(_FILE.fullmatch, reversed(names(self._entries / folder)))
        return next((int(match[1]) for match in found if match), 0)

    def entries(self, since: str = "", last: int | None = None) -> list[Entry]:
        """All snapshots that count, in order of time.

        :param since: the first month to include, such as ``202611``; all by default.
        :param last: number of the newest entry, if it was looked up before.
        """
        # All months are listed: a marker whose number is taken may have no rival in its own month.
        found = self._existing(self.last_number() if last is None else last)
        return [entry for entry in live(found) if entry.month >= since]

    def unchained_times(self) -> set[int]:
        """Times of the snapshots outside the chain, Unix milliseconds, from their markers alone. These include
        forgotten snapshots, and ones that were never stored."""
        return unchained_times(self.marked())

    def marked(self) -> list[Entry]:
        """All entries that markers name. Some were never stored."""
        months = filter(is_month, names(self._markers))
        return list(chain.from_iterable(in_parallel(self._marked, months)))

    def read(self, number: int) -> OffsetSnapshot:
        """One snapshot.

        :raises LedgerCorruptError: when it is missing or unreadable.
        :raises LedgerConflictError: when the entry isn't a snapshot.
        """
        fields = self._read(number)
        if fields is None:
            raise LedgerCorruptError(f"{self._path(number)} is missing, though the ledger refers to it.")
        if "forgets" in fields:
            raise LedgerConflictError(
                f"Entry {number} of pipeline {self._pipeline} isn't a snapshot: it records that one was forgotten."
            )
        return OffsetSnapshot.from_json(fields)

    def log_starts(self, number: int) -> Callable[[OffsetRange], int]:
        """A function from a range to its partition's log start offset when a snapshot was resolved. The snapshot is
        read on first use.

        :param number: the snapshot's number; it must have the partitions of all ranges.
        """
        read = cache(self.read)

        def log_start(offset_range: OffsetRange) -> int:
            return read(number).boundaries[TopicPartition.of(offset_range)].log_start_offset

        return log_start

    def at_instant(self, timestamp_ms: int) -> OffsetSnapshot | None:
        """The snapshot at an instant; None when it was never resolved, or was forgotten."""
        return self.at_instants([timestamp_ms]).get(timestamp_ms)

    def at_instants(self, instants: Collection[int]) -> dict[int, OffsetSnapshot]:
        """The snapshots at several instants; instants without one are left out."""
        marked = self._marked_at(instants)
        at_instants = [entry for entry in marked if entry.kind == AsOfKind.INSTANT]
        found = in_parallel(self._at_marker, live([*at_instants, *self._forgets(marked)]))
        return {snapshot.timestamp_ms: snapshot for snapshot in found if snapshot is not None}

    def append(
        self, snapshots: Sequence[OffsetSnapshot], *, known: int | None = None, revising: Collection[str] = ()
    ) -> Appended:
        """Store snapshots in order, each clamped between its neighbours. First writer wins. Unless others write too,
        the log is listed once.

        :param known: :meth:`last_number` before Kafka was asked for them; None if nothing was stored since.
        :param revising: windows that are being resolved again, and don't keep their instants from changing.
        :returns: the stored snapshots, in the same order: an earlier writer's, if an instant or run already has one.
        :raises WindowError: when one contradicts its neighbours, as :func:`.boundaries.clamp` says.
        :raises OutdatedSurveyError: when the neighbour was stored after Kafka was asked.
        """
        stored = Appended()
        for _ in range(_MOST_TRIES):
            placement = self._placement(known, revising)
            for snapshot in snapshots[len(stored) :]:
                placed = placement.place(snapshot)
                if not placed.is_stored and not self._store(placed.snapshot):
                    break
                placement.add(placed)
                stored.add(placed)
            else:
                return stored
        raise LedgerError(
            f"{self._entries} grew {_MOST_TRIES} times while one snapshot was stored. Is something looping?"
        )

    def planned(
        self, snapshots: Sequence[OffsetSnapshot], *, known: int | None = None, revising: Collection[str] = ()
    ) -> list[OffsetSnapshot]:
        """What :meth:`append` would store, or return, if it came first. Nothing is stored.

        :raises: as :meth:`append`.
        """
        placement = self._placement(known, revising)
        found = []
        for snapshot in snapshots:
            placed = placement.place(snapshot)
            placement.add(placed)
            found.append(placed.snapshot)
        return found

    def _placement(self, known: int | None, revising: Collection[str]) -> Placement:
        last = self.last_number()
        entries = self._existing(last)
        in_use = self._in_use(forgotten_instants(entries), revising)
        return Placement(SnapshotIndex(entries, last, in_use), self.read, known, self._pipeline)

    def _store(self, numbered: OffsetSnapshot) -> bool:
        """Store a snapshot; False when another writer has taken its number."""
        return self._create(Entry.of(numbered), numbered.to_json())

    def _in_use(self, forgotten: Mapping[int, object], revising: Collection[str]) -> set[int]:
        """Numbers of the snapshots of the windows that still count and start or end at a forgotten instant, for example
        because the task that forgot it died before it forgot them.

        :param forgotten: the forgotten instants.
        """
        if not forgotten:
            return set()
        # A window that uses one of them starts in its month, or before.
        latest = month_of(compact_instant(max(forgotten)))
        others = live_revisions(self._window_folders.names(until=latest)).keys() - set(revising)
        meeting = [window for window in others if not forgotten.keys().isdisjoint(window_extent(window))]
        pinned = in_parallel(lambda window: self._window_folders.newest(window).pinned(), meeting)
        return {number for stored in pinned if stored is not None for number in stored.manifest.snapshots}

    def forget(self, timestamp_ms: int) -> None:
        """Forget an instant. Windows that were pinned with it stay as they are."""
        found = self.at_instant(timestamp_ms)
        if found is not None:
            self.forget_entry(Entry.of(found))

    def forget_entry(self, forgotten: Entry) -> None:
        """Forget a snapshot of any kind. Windows that were pinned with it stay as they are."""
        for _ in range(_MOST_TRIES):
            number = 1 + self.last_number()
            if forgotten.number in forgotten_numbers(self._forgets(self._marked_at([forgotten.timestamp_ms]))):
                return
            entry = Entry(forgotten.timestamp_ms, number, FORGET, str(forgotten.number))
            fields = {"format": 1, "number": number, "forgets_ms": entry.timestamp_ms, "forgets": forgotten.number}
            if self._create(entry, fields):
                return

    def forgotten(self, snapshots: Sequence[OffsetSnapshot]) -> list[OffsetSnapshot]:
        """The given snapshots that were forgotten since they were stored."""
        numbers = forgotten_numbers(self._forgets(self._marked_at({snapshot.timestamp_ms for snapshot in snapshots})))
        return [snapshot for snapshot in snapshots if snapshot.number in numbers]

    def require_live(self, snapshots: Sequence[OffsetSnapshot], remedy: str) -> None:
        """Refuse snapshots that were forgotten since they were stored.

        :param remedy: what the user should do then, for the message.
        :raises LedgerConflictError: naming the first such snapshot.
        """
        for snapshot in self.forgotten(snapshots):
            raise LedgerConflictError(
                f"Snapshot {snapshot.number} as of {snapshot.as_of}, resolved at "
                f"{iso_instant(snapshot.resolved_at_ms)}, was forgotten: its offsets no longer count. "
                f"{remedy}"
            )

    def increment(self, run: str) -> tuple[OffsetSnapshot, OffsetSnapshot] | None:
        """Start and end of a run's increment; None when it has none yet."""
        entry = next((candidate for candidate in reversed(self.entries()) if candidate.about == run), None)
        return None if entry is None else self.increment_to(self.read(entry.number))

    def increment_to(self, end: OffsetSnapshot) -> tuple[OffsetSnapshot, OffsetSnapshot]:
        """Start and end of a stored increment."""
        assert end.as_of.follows is not None, "an increment follows something"
        return self.read(end.as_of.follows), end

    def first_increment_start(self) -> OffsetSnapshot | None:
        """Where the first stored increment starts; None when there is none."""
        first = next((entry for entry in self.entries() if entry.kind == AsOfKind.INCREMENT), None)
        return None if first is None else self.increment_to(self.read(first.number))[0]

    def _create(self, entry: Entry, fields: Mapping[str, Any]) -> bool:
        """Store an entry; False when its number is taken. Its marker is then deleted where that is permitted, or every
        later writer has to find out which marker the number belongs to."""
        marker = self._markers / entry.month / entry.marker
        create_exclusive(marker, entry.marker.encode())
        if create_exclusive(self._path(entry.number), gzip.compress(to_json_bytes(fields), mtime=0)):
            return True
        if Entry.of_fields(self._read(entry.number)) != entry:
            with suppress(Exception):  # permission to create doesn't imply permission to delete
                marker.fs.rm_file(marker.path)
        return False

    def _path(self, number: int) -> StoragePath:
        return self._entries / f"{number // _FOLDER_SIZE:05d}" / f"{number:08d}.json.gz"

    def _read(self, number: int) -> dict[str, Any] | None:
        path = self._path(number)
        content = read(path)
        try:
            return None if content is None else parse_json(path, gzip.decompress(content))
        except (OSError, EOFError) as error:
            raise LedgerCorruptError(f"{path} is not compressed JSON: {error}.") from error

    def _existing(self, last: int) -> list[Entry]:
        """The entries up to a number, at least."""
        marked = self.marked()
        claims = Counter(entry.number for entry in marked)
        sure = [entry for entry in marked if entry.number <= last and claims[entry.number] == 1]
        contested = (number for number, claim in claims.items() if claim > 1 and number <= last)
        rest = [entry for entry in in_parallel(lambda number: Entry.of_fields(self._read(number)), contested) if entry]
        return [*sure, *rest]

    def _marked(self, month: str) -> list[Entry]:
        """The entries that a month's markers name; some may not exist."""
        return [entry for name in names(self._markers / month) if (entry := Entry.of_marker(name)) is not None]

    def _marked_at(self, instants: Collection[int]) -> list[Entry]:
        wanted = set(instants)
        marked = in_parallel(self._marked, {month_of(compact_instant(instant)) for instant in wanted})
        return [entry for entry in chain.from_iterable(marked) if entry.timestamp_ms in wanted]

    def _at_marker(self, marked: Entry) -> OffsetSnapshot | None:
        """The snapshot of a marker; None when another entry has its number."""
        fields = self._read(marked.number)
        return None if fields is None or Entry.of_fields(fields) != marked else OffsetSnapshot.from_json(fields)

    def _forgets(self, marked: Iterable[Entry]) -> list[Entry]:
        """The ``forget`` entries among the markers that exist; another entry may have taken a marker's number."""
        forgets = (entry for entry in marked if entry.kind == FORGET)
        return [entry for entry in in_parallel(self._if_came_to_be, forgets) if entry is not None]

    def _if_came_to_be(self, marked: Entry) -> Entry | None:
        return marked if marked == Entry.of_fields(self._read(marked.number)) else None
