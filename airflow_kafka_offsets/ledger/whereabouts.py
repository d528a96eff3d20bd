"""Whereabouts: in which window a record is, and where that window's rows are. Asked of the ledger alone.

By its offset, which is exact; for its time see :mod:`.windows_at`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a record is.

    :param found: in words: ``published``, ``pinned, not published``, ``lost``, or why it is in no window.
    :param window: the window that it belongs to; None when it is in none.
    :param revision: which revision of it.
    :param attempt: the published attempt; None when none is.
    :param output: folder with the attempt's rows.
    :param dag_id: the Dag that made the attempt.
    :param run_id: its run.
    :param task_id: its task.
    """

    found: str
    window: str | None = None
    revision: int | None = None
    attempt: str | None = None
    output: str | None = None
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None


def find(ledger: Ledger, topic: str, partition: int, offset: int) -> Whereabouts:
    """Look a record up by its topic, partition and offset."""
    folders = counting_folders(ledger, ledger.window_folders.names())

    @cache
    def ranges(folder: WindowFolder) -> tuple[OffsetRange, ...] | None:
        """The one on the partition, if it has that; None where it has no manifest: a task has begun it, or a crash left
        it."""
        pinned = folder.pinned()
        every = None if pinned is None else pinned.manifest.ranges
        return every and tuple(each for each in every if (each.topic, each.partition) == (topic, partition))

    def last_pinned(places: int) -> WindowFolder | None:
        """Of the first folders."""
        return next((folder for folder in reversed(folders[:places]) if ranges(folder) is not None), None)

    def end(folder: WindowFolder | None) -> int:
        """A window that lacks the partition is older than it."""
        pinned = None if folder is None else ranges(folder)
        return pinned[0].end_offset if pinned else -1

    # So that a year of windows takes a dozen looks.
    likely = folders
    if _in_order(ledger, folders):
        place = bisect_right(range(len(folders)), offset, key=lambda place: end(last_pinned(place + 1)))
        likely = folders[place : place + 1]
    found = [
        _in_window(folder, pinned, offset)
        for folder in likely
        for pinned in ranges(folder) or ()
        if pinned.window_start <= offset < pinned.end_offset
    ]
    if not found:
        return Whereabouts(_why_nowhere(last_pinned(len(folders)), end))
    # Where windows overlap, the rows are where one of them was published.
    return next((place for place in found if place.attempt), found[0])


def find_known(ledger: Ledger, topic: str, partition: int, offset: int) -> Whereabouts:
    """As :func:`find`, for a person, who may misspell a topic.

    :raises ConfigurationError: when no window has the record, and the newest one doesn't have the topic.
    """
    found = find(ledger, topic, partition, offset)
    if found.window is None:
        require_topic(ledger, topic)
    return found


def require_topic(ledger: Ledger, topic: str) -> None:
    """Refuse a topic that the newest window doesn't have, where there is a window.

    :raises ConfigurationError: naming those that it has.
    """
    newest = next(filter(None, (folder.pinned() for folder in reversed(ledger.windows()))), None)
    topics = {} if newest is None else newest.of_ledger(ledger.id).manifest.topics
    if topics and topic not in topics:
        raise ConfigurationError(f"{ledger.uri} has no topic {topic!r}; it has {', '.join(sorted(topics))}.")


def counting_folders(ledger: Ledger, names: Iterable[str]) -> list[WindowFolder]:
    """A folder for each window, in order of time: that of the published revision, or else of the newest one.

    :param names: what is in the months' folders.
    """
    newest = {folder.id: folder for folder in reversed(ledger.window_folders.current(names))}
    return sorted(newest.values(), key=lambda folder: window_extent(folder.id))


def _in_order(ledger: Ledger, folders: Sequence[WindowFolder]) -> bool:
    """Whether offsets rise with the windows' time: no two overlap, and none but the first begins or ends at a group's
    commits or at a log start, which may run backwards."""
    extents = [window_extent(folder.id) for folder in folders]
    later = {instant for extent in extents for instant in extent} - {extents[0][0]} if extents else set()
    backwards = (entry for entry in ledger.snapshots.entries() if not AsOfKind(entry.kind).chained)
    return all(one[1] <= other[0] for one, other in pairwise(extents)) and later.isdisjoint(
        entry.timestamp_ms for entry in backwards
    )


def _in_window(folder: WindowFolder, pinned: OffsetRange, offset: int) -> Whereabouts:
    if offset < pinned.start_offset:
        return Whereabouts("lost: it was gone from the log when the window was pinned", folder.id, folder.revision)
    found = place_of(folder)
    if found.attempt is None:
        place = pinned.topic, pinned.partition
        gone = any((loss.topic, loss.partition) == place and offset < loss.log_start_offset for loss in folder.losses())
        if gone:
            return replace(found, found="lost: it was gone from the log when the window was to be loaded")
    return found


def place_of(folder: WindowFolder) -> Whereabouts:
    """Where the records of a pinned window are."""
    published = folder.publication()
    if published is None:
        return Whereabouts("pinned, not published", folder.id, folder.revision)
    run = folder.attempt(published.attempt).get("airflow", {})
    return Whereabouts(
        "published",
        folder.id,
        folder.revision,
        published.attempt,
        published.output,
        *(run.get(name) for name in ("dag_id", "run_id", "task_id")),
    )


def _why_nowhere(last: WindowFolder | None, end: Callable[[WindowFolder], int]) -> str:
    if last is None:
        return "there is no window yet"
    if end(last) < 0:
        return "the last window doesn't have that partition"
    return f"no window has it; the last one, {last.id}, ends at {end(last)}"
