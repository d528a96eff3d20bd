"""Verification of the whole ledger. Reads only the ledger; doesn't ask Kafka.

Each window's manifest is hashed, its states and counts are compared, and the published windows must tile. Windows of
past days that passed are kept in checkpoints, and not read again without ``full``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, groupby, pairwise
from operator import not_

from airflow_kafka_offsets.errors import LedgerError, number_of, shorten
from airflow_kafka_offsets.ledger.file_lists import files_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.ledger.summaries import WindowSummary, day_of, still_true, summary_of
from airflow_kafka_offsets.ledger.unloaded import tiling_of, unloaded
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_listing import WindowListing, WindowState
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.ledger_names import live_revisions, revisions_of, window_extent
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind

_RECENT_MS = 7 * 86_400_000
"""How far back to look for crashes; older ones are looked for only with ``full``."""
_STUCK = (WindowState.LOST, WindowState.FAILED)
"""States of windows that nobody is loading, and that somebody was to load."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim about the ledger, and whether it holds.

    :param claim: its subject: ``checkpoints``, ``window``, ``files``, ``tiling``, ``hole``, ``unpublished`` or
        ``orphans``. ``hole`` is about offsets between windows that no window covers; ``unpublished`` about windows
        that aren't published though a later one is, and about others that have failed or lost records.
    :param window: the window; None for claims about all windows.
    :param holds: whether the claim holds.
    :param found: what was found, in words.
    """

    claim: str
    window: str | None
    holds: bool
    found: str


@dataclass(frozen=True, slots=True)
class _Examined:
    """A window that was read.

    :param claim: whether its files are in order.
    :param summary: its summary; None when it can't be read.
    :param ranges: its ranges.
    :param result: the result of its published attempt; None when it isn't published, or has a problem.
    """

    claim: Claim
    summary: WindowSummary | None
    ranges: tuple[OffsetRange, ...] = ()
    result: RunResult | None = None


def verify(ledger: Ledger, *, full: bool = False) -> list[Claim]:
    """Check everything.

    :param full: also read the windows in checkpoints.
    """
    files = {} if full else ledger.checkpoints.files()
    stored = ledger.snapshots.last_number()  # before listing windows: an increment is stored first, then pinned
    names = ledger.window_folders.names()
    known, folders = still_true(files, names), ledger.window_folders.current(names)
    kept = [known[key] for folder in folders if (key := (folder.id, folder.revision)) in known]
    last, ledger_id = ledger.snapshots.last_number(), ledger.id
    loose = [folder for folder in folders if (folder.id, folder.revision) not in known]
    examined = in_parallel(lambda folder: _examine(folder, last, ledger_id), loose)
    claims = [checked.claim for checked in examined]
    read = [
        (checked.claim.window or "", files_of(checked.result)) for checked in examined if checked.result is not None
    ]
    unreadable = {checked.claim.window for checked in examined if checked.summary is None}
    summaries = [*kept, *(checked.summary for checked in examined if checked.summary is not None)]
    claims += _lists(
        ledger, read, unreadable | {summary.window for summary in summaries if summary.attempt is not None}
    )
    if kept:
        windows, offsets = number_of(len(kept), "window"), sum(summary.offsets for summary in kept)
        claims.append(Claim("checkpoints", None, True, f"{windows}, {offsets} offsets, verified before"))
    claims += _orphans(ledger, names, stored, "" if full else day_of(now_ms() - _RECENT_MS)[:6])
    ranges = {checked.summary: checked.ranges for checked in examined if checked.summary is not None}
    claims += _tiling(ledger, kept, ranges)
    _keep(ledger, [checked.summary for checked in examined if checked.claim.holds and checked.summary is not None])
    ledger.checkpoints.put_together(files)
    return claims


def _examine(folder: WindowFolder, last_snapshot: int, ledger_id: str) -> _Examined:
    """Check one window: its hash, its files against each other, its counts."""
    try:
        pinned = folder.pinned()
        if pinned is None:
            found = "there is no manifest, because of a crash before it was pinned: resolve the window again"
            return _Examined(Claim("window", folder.id, False, found), None)
        listing = folder.listing()
        summary, published = summary_of(folder, pinned, listing), listing.publication
        problems, found = [*_misfits(folder, pinned, listing, last_snapshot)], str(summary.state)
        if pinned.manifest.ledger_id != ledger_id:
            problems.append(f"the manifest was pinned in another ledger ({pinned.manifest.ledger_id})")
        result = None
        if published is not None:
            counted = folder.counted(published.attempt)
            found, rows = _count(pinned, listing, published, counted)
            problems += rows
            result = None if counted is None else counted[0]
    except LedgerError as error:
        return _Examined(Claim("window", folder.id, False, str(error)), None)
    claim = Claim("window", folder.id, not problems, "; ".join(problems) or found)
    return _Examined(claim, summary, pinned.manifest.ranges, None if problems else result)


def _lists(ledger: Ledger, read: Sequence[tuple[str, list[str]]], published: Collection[str | None]) -> Iterator[Claim]:
    """Report file lists that don't match the published files, because of a crash before they were written; and write
    them again.

    :param read: windows, with the files of each.
    :param published: all published windows: the lists of the others must be empty.
    """
    wanted = [*read, *((window, list[str]()) for window in sorted(ledger.file_lists.windows() - set(published)))]
    right = in_parallel(lambda named: ledger.file_lists.has(*named), wanted)
    for window, _ in compress(wanted, map(not_, right)):
        if ledger.file_lists.has(window, ledger.file_lists.files(window)):
            continue  # it was published since it was read
        ledger.file_lists.refresh(window)
        found = "its list of files didn't match what is published, because of a crash; it is correct now"
        yield Claim("files", window, False, found)


def _misfits(folder: WindowFolder, pinned: PinnedManifest, listing: WindowListing, last_snapshot: int) -> Iterator[str]:
    """Files that contradict each other, and files whose predecessors are missing."""
    manifest, published = pinned.manifest, listing.publication
    if not pinned.settled and not folder.is_settled:
        yield "it isn't settled: a task is still pinning it, or died. If none is, run that task or command again"
    missing = [number for number in (manifest.start_snapshot, manifest.end_snapshot) if number > last_snapshot]
    if missing:
        yield f"snapshot {missing[0]} is missing"
    if (manifest.window, manifest.revision) != (folder.id, folder.revision):
        yield f"the manifest belongs to {manifest.window}, revision {manifest.revision}"
    if listing.verified and published is None:
        yield f"there is a verdict on {listing.verified[0]}, but no publication"
    if published is not None and published.manifest_sha256 != pinned.sha256:
        yield f"published from another manifest ({published.manifest_sha256})"
    if published is not None:
        yield from _out_of_order(listing.publications)
    strays = sorted(set(listing.results) - set(listing.attempts))
    if strays:
        yield f"there is a result of {strays[0]}, which was never recorded as an attempt"


def _out_of_order(publications: Sequence[Publication]) -> Iterator[str]:
    """Publications that can't be a valid sequence."""
    by_number = {publication.number: publication for publication in publications}
    if list(by_number) != list(range(1, len(by_number) + 1)):
        yield f"its publications are numbered {shorten(map(str, by_number))}: some are missing"
    for before, publication in pairwise(publications):
        if publication.revision < before.revision:
            yield (
                f"publication {publication.number} is of revision {publication.revision}, and the one before it of "
                f"revision {before.revision}: forget the window, resolve it and load it again"
            )
            return
    for publication in publications:
        replaced = None if publication.replaces is None else by_number.get(publication.replaces)
        if replaced is not None and not publication.may_replace(replaced):
            yield (
                f"publication {publication.number} of revision {publication.revision} replaces number "
                f"{replaced.number} of revision {replaced.revision}, which it may not"
            )


def _count(
    pinned: PinnedManifest, listing: WindowListing, published: Publication, counted: tuple[RunResult, str] | None
) -> tuple[str, list[str]]:
    if counted is None:
        return "", [f"the result of {published.attempt} is missing"]
    result, sha256 = counted
    if sha256 != published.result_sha256:
        return "", [f"the result of {published.attempt} was changed after it was published ({sha256})"]
    verdict = judge(pinned.manifest, result, published)
    # Names are in order of time. Attempts after the published one found its publication, and read nothing.
    unfinished = [
        attempt for attempt in listing.attempts if attempt < published.attempt and attempt not in listing.results
    ]
    killed = f", {number_of(len(unfinished), 'attempt')} that left no result" if unfinished else ""
    rows = "" if result.derived else f", {result.rows_written} rows"  # for a job, the verdict has them
    words = f"{verdict}{rows}{killed}"
    return words, [] if verdict.proved else [words]


def _orphans(ledger: Ledger, names: Collection[str], last: int, since: str) -> Iterator[Claim]:
    """Report increments since a month that no window has: those whose windows were never pinned because of a crash, and
    those whose windows were forgotten. The latter is in order, as somebody wanted it; where it leaves a hole between
    published windows, that is a claim of its own.

    :param names: names in the folders of windows, listed after the newest snapshot was looked up.
    """
    live = {window_extent(window)[1] for window in live_revisions(names)}
    made = {window_extent(window)[1]: window for window in revisions_of(names)}
    for entry in ledger.snapshots.entries(since, last):
        if entry.kind != AsOfKind.INCREMENT or entry.timestamp_ms in live:
            continue
        increment, window = f"the increment up to {iso_instant(entry.timestamp_ms)}", made.get(entry.timestamp_ms)
        if window is None or all(folder.is_taken_back for folder in ledger.window_folders.made(window)):
            yield Claim("orphans", None, False, f"{increment} was never pinned: clear the run that made it")
        else:
            found = f"{increment} was forgotten: its records are in no window until the run that made it is cleared"
            yield Claim("orphans", window, True, found)


def _tiling(
    ledger: Ledger, kept: Sequence[WindowSummary], read: Mapping[WindowSummary, Sequence[OffsetRange]]
) -> Iterator[Claim]:
    published = [summary for summary in (*kept, *read) if summary.attempt is not None]
    tiling = tiling_of(ledger, kept, read)
    missing = unloaded((*kept, *read), tiling)
    offsets = sum(summary.offsets for summary in published)
    lost = sum(summary.lost_offsets for summary in published)
    waiting = [summary for summary in read if summary.attempt is None]
    between = [misfit for misfit in tiling.misfits if misfit.waiting and not misfit.missing and not misfit.meets]
    exceptions = [number_of(len(tiling.holes), "hole")] if tiling.holes else []
    exceptions += [f"{number_of(len(between), 'place')} not published yet"] if between else []
    tile = "tiles" if tiling.windows == 1 else "tile"
    found = f"{number_of(tiling.windows, 'published window')} {tile}"
    found += f", except for {' and '.join(exceptions)}; " if exceptions else ", "
    found += f"{offsets} offsets" + (f", {lost} lost" if lost else "")
    if missing and published and missing.since_ms < max(summary.end_ms for summary in published):
        found += f"; complete up to {iso_instant(missing.since_ms)}"
    if waiting:
        counted = sum(summary.state is WindowState.COUNTED for summary in waiting)
        found += f"; {number_of(len(waiting), 'window')} not published"
        found += f", {counted} of them counted" if counted else ""
    yield Claim("tiling", None, not tiling.problems, "; ".join(tiling.problems) or found)
    yield from (Claim("hole", None, False, hole) for hole in tiling.holes)
    by_name = {summary.window: summary for summary in waiting}
    for misfit in between:
        where = f", from {iso_instant(misfit.start_ms)} to {iso_instant(misfit.end_ms)}"
        yield _unpublished(ledger, where, [by_name[window] for window in misfit.waiting])
    # Of the others, those that published ones follow or that need attention. Where an older revision is published, that
    # one counts.
    told = {window for misfit in between for window in misfit.waiting} | {summary.window for summary in published}
    first_ms = min((summary.start_ms for summary in published), default=0)
    others = [
        summary for summary in waiting if (summary.offsets or summary.lost_offsets) and summary.window not in told
    ]
    late = [each for each in others if each.start_ms < first_ms or _state_now(ledger, each) in _STUCK]
    if late:
        yield _unpublished(ledger, "", late)


def _unpublished(ledger: Ledger, where: str, waiting: Sequence[WindowSummary]) -> Claim:
    """The claim about windows that aren't published yet. It holds while all of them may still be loaded."""
    states = {summary: _state_now(ledger, summary) for summary in waiting}
    stuck = {summary for summary in waiting if states[summary] in _STUCK}
    # Name first the ones that need attention: only some are named.
    ordered = sorted(waiting, key=lambda summary: summary not in stuck)
    named = shorten(f"{summary.window} ({states[summary]})" for summary in ordered)
    return Claim("unpublished", None, not stuck, f"not published yet{where}: {named}")


def _state_now(ledger: Ledger, summary: WindowSummary) -> WindowState:
    """A window's state. One that has failed is looked at again: it may have been published since."""
    if summary.state is not WindowState.FAILED:
        return summary.state
    return ledger.window_folders.folder(summary.window, summary.revision).listing().state


def _keep(ledger: Ledger, proved: Iterable[WindowSummary]) -> None:
    """Write checkpoints of the verified windows of past days."""
    today = day_of(now_ms())
    over = [summary for summary in proved if summary.state is WindowState.VERIFIED and summary.window[:8] < today]
    for _, summaries in groupby(
        sorted(over, key=lambda summary: summary.window), key=lambda summary: summary.window[:8]
    ):
        ledger.checkpoints.write(summaries)
