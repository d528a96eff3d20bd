"""Summaries of windows, without their ranges.

The verified windows of a day are kept together in a checkpoint, so that listing a year reads a few hundred small files
instead of about ten thousand. A checkpoint's name ends with the start of its own hash. Later changes to a window are a
new revision or a marker, both visible by name: the window was forgotten, or was published again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from typing import Any

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.storage import (
    StoragePath,
    create_exclusive,
    in_parallel,
    names,
    parse_json,
    read,
    to_json_bytes,
)
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_listing import WindowListing, WindowState
from airflow_kafka_offsets.offsets.instants import to_datetime
from airflow_kafka_offsets.offsets.windows.ledger_names import last_publications, window_extent
from airflow_kafka_offsets.offsets.windows.manifest import digest

FORMAT = 1
_NAME = re.compile(r"(\d{6})(?:\d\d)?_([0-9a-f]{16})\.json")
"""A day's checkpoint, or a month's, which replaces those of its days."""
_DAYS = 8
"""How many checkpoints a month needs before they are merged into one."""
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class WindowSummary:
    """One revision of a window. Its fields are a checkpoint's columns: give a new one a default, or stored checkpoints
    can't be read; and versions without it can't read new checkpoints.

    :param window: the window's name.
    :param revision: the revision's number.
    :param state: its state.
    :param sha256: its manifest's hash.
    :param start_snapshot: number of the snapshot at its start.
    :param end_snapshot: number of the snapshot at its end.
    :param offsets: number of offsets in all its ranges.
    :param lost_offsets: number of offsets that were already deleted when it was pinned.
    :param attempts: number of attempts.
    :param attempt: the published attempt; None when none is published.
    :param rows: number of published rows; None when nothing is published.
    :param output: folder with these rows; None for an empty window too.
    :param publication: number of the publication; None when nothing is published.
    """

    window: str
    revision: int
    state: WindowState
    sha256: str
    start_snapshot: int
    end_snapshot: int
    offsets: int
    lost_offsets: int
    attempts: int
    attempt: str | None = None
    rows: int | None = None
    output: str | None = None
    publication: int | None = None

    @property
    def start_ms(self) -> int:
        """Start instant, Unix milliseconds, inclusive."""
        return window_extent(self.window)[0]

    @property
    def end_ms(self) -> int:
        """End instant, Unix milliseconds, exclusive."""
        return window_extent(self.window)[1]


def summarise(folder: WindowFolder) -> WindowSummary | None:
    """The summary of a window; None when it has no manifest yet.

    :raises LedgerCorruptError: naming a damaged file.
    """
    pinned = folder.pinned()
    return None if pinned is None else summary_of(folder, pinned, folder.listing())


def summary_of(folder: WindowFolder, pinned: PinnedManifest, listing: WindowListing) -> WindowSummary:
    """The summary of a window whose files were read before."""
    manifest, published = pinned.manifest, listing.publication
    return WindowSummary(
        window=folder.id,
        revision=folder.revision,
        state=listing.state,
        sha256=pinned.sha256,
        start_snapshot=manifest.start_snapshot,
        end_snapshot=manifest.end_snapshot,
        offsets=manifest.span,
        lost_offsets=manifest.lost_offsets,
        attempts=len(listing.attempts),
        attempt=None if published is None else published.attempt,
        rows=None if published is None else published.rows,
        output=None if published is None else published.output,
        publication=None if published is None else published.number,
    )


def without_replaced(summaries: Iterable[WindowSummary]) -> list[WindowSummary]:
    """Leave out published revisions that another revision of their window has replaced. Two revisions that were read
    one after the other may both be published, because the second was published in between."""
    found = list(summaries)
    last = {window: max(numbers) for window, numbers in _publications(found).items()}
    return [summary for summary in found if summary.publication in (None, last.get(summary.window))]


def _publications(summaries: Iterable[WindowSummary]) -> dict[str, list[int]]:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for summary in summaries:
        if summary.publication is not None:
            numbers[summary.window].append(summary.publication)
    return numbers


class Checkpoints:
    """One pipeline's checkpoints.

    :param folder: the pipeline's folder.
    """

    def __init__(self, folder: StoragePath) -> None:
        self._folder = folder / "checkpoints"

    def read(self, names: Iterable[str] = ()) -> dict[tuple[str, int], WindowSummary]:
        """All windows in the checkpoints that haven't changed since, by name and revision.

        :param names: names in the folders of the windows' months. Without it, changed windows are included.
        :raises LedgerCorruptError: when a checkpoint was changed.
        """
        return still_true(self.files(), names)

    def files(self) -> dict[str, list[WindowSummary]]:
        """The content of each checkpoint, by name, without days' checkpoints that a month's has replaced.

        :raises LedgerCorruptError: when a checkpoint was changed.
        """
        known = [name for name in names(self._folder) if _NAME.fullmatch(name)]
        of_months = [name for name in known if name[6] == "_"]
        months = dict(zip(of_months, in_parallel(self._fields, of_months), strict=True))
        replaced = {name for fields in months.values() for name in fields["replaces"]}
        days = [name for name in known if name not in months and name not in replaced]
        found = {name: fields for name, fields in months.items() if name not in replaced}
        found |= zip(days, in_parallel(self._fields, days), strict=True)
        return {name: _summaries(fields) for name, fields in sorted(found.items())}

    def _fields(self, name: str) -> dict[str, Any]:
        path, match = self._folder / name, _NAME.fullmatch(name)
        content = read(path) or b""
        if match is None or not digest(content).startswith(match[2]):
            raise LedgerCorruptError(
                f"{path} was changed after it was written. Delete it: ledger verify writes a new one."
            )
        fields = parse_json(path, content)
        if fields.get("format") != FORMAT:
            raise LedgerCorruptError(f"{path} has format {fields.get('format')!r}; this version reads {FORMAT}.")
        return fields

    def write(self, summaries: Iterable[WindowSummary]) -> None:
        """Write a checkpoint of one day's windows. Writing the same one again creates no second file."""
        kept = list(summaries)
        self._write(kept[0].window[:8], kept, ())

    def put_together(self, files: Mapping[str, Sequence[WindowSummary]]) -> None:
        """Merge the checkpoints of each month that has many, so that listing a year reads about a dozen.

        :param files: the result of :meth:`files`.
        """
        by_month: dict[str, dict[str, Sequence[WindowSummary]]] = defaultdict(dict)
        for name, summaries in files.items():
            by_month[name[:6]][name] = summaries
        for month, some in by_month.items():
            if len(some) >= _DAYS:
                self._write(month, chain.from_iterable(some.values()), sorted(some))

    def _write(self, time: str, summaries: Iterable[WindowSummary], replaces: Sequence[str]) -> None:
        ordered = sorted(summaries, key=lambda summary: (summary.window, summary.revision))
        columns = list(WindowSummary.__slots__)
        rows = [list(asdict(summary).values()) for summary in ordered]
        fields = {"format": FORMAT, "columns": columns, "windows": rows, "replaces": replaces}
        content = to_json_bytes(fields)
        create_exclusive(self._folder / f"{time}_{digest(content)[:16]}.json", content)


def still_true(
    files: Mapping[str, Iterable[WindowSummary]], names: Iterable[str]
) -> dict[tuple[str, int], WindowSummary]:
    """All windows in some checkpoints that weren't published again since, by name and revision.

    :param names: names in the folders of the windows' months.
    """
    last = last_publications(names)
    return {
        (summary.window, summary.revision): summary
        for file in files.values()
        for summary in file
        if (summary.publication or 0) >= last.get(summary.window, 1)
    }


def _summaries(fields: Mapping[str, Any]) -> list[WindowSummary]:
    rows = (dict(zip(fields["columns"], row, strict=True)) for row in fields["windows"])
    return [WindowSummary(**row | {"state": WindowState(row["state"])}) for row in rows]


def whole_day(window: str, windows: Collection[str]) -> Sequence[str]:
    """The windows that start on the same UTC day as this one, if they cover that day without a hole; else none.

    :param windows: names of all windows. The one before the day's first may extend into the day.
    """
    if window not in windows:  # forgotten meanwhile
        return []
    day = sorted(name for name in windows if name[:8] == window[:8])
    extents = [window_extent(name) for name in day]
    start_ms = extents[0][0]
    if start_ms % _DAY_MS and start_ms not in [window_extent(name)[1] for name in windows if name[:8] < window[:8]]:
        return []
    midnight_ms = (start_ms // _DAY_MS + 1) * _DAY_MS
    meets = all(earlier[1] == later[0] for earlier, later in pairwise(extents))
    return day if meets and extents[-1][1] >= midnight_ms else []


def day_of(timestamp_ms: int) -> str:
    """A UTC day as window names begin: ``20261121``."""
    return f"{to_datetime(timestamp_ms):%Y%m%d}"
