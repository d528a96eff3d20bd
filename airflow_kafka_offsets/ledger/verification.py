"""Verification of the whole ledger. Reads only the ledger; doesn't ask Kafka.

That windows don't cross, and that each decision was allowed, follows from the log, whose commits nobody can change. So
what is left to check is what the log names: the manifests, snapshots and results lie as they were when it named them;
each manifest is what its two snapshots say; each publication is proved by its result. Then: what isn't loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerError, number_of, shorten
from airflow_kafka_offsets.ledger import file_lists
from airflow_kafka_offsets.ledger.counted import WindowStatus, statuses
from airflow_kafka_offsets.ledger.entries import Output, Published
from airflow_kafka_offsets.ledger.holes import hole_between, hole_times, unloaded_stretches
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim about the ledger, and whether it holds.

    :param claim: its subject: ``snapshots``, ``window``, ``files``, ``tiling``, ``restart``, ``hole`` or
        ``unpublished``. ``hole`` is about offsets that no window has, from the first window on; ``unpublished`` about
        windows that have offsets and aren't loaded, or not since they are to be loaded again.
    :param window: the window; None for claims about all windows.
    :param holds: whether the claim holds.
    :param found: what was found, in words.
    """

    claim: str
    window: str | None
    holds: bool
    found: str


def verify(ledger: Ledger, *, full: bool = False) -> list[Claim]:
    """Check everything.

    :param full: also read the files of windows that were verified after they were loaded.
    """
    state = ledger.state
    loaded = ((each, each.loaded) for each in state.windows.values())
    chosen = [window for window, stands in loaded if full or stands is None or stands.verdict is None]
    claims = list(chain(*in_parallel(lambda window: list(_examine(ledger, window)), chosen)))
    kept = len(state.windows) - len(chosen)
    if kept:
        claims.append(Claim("window", None, True, f"{number_of(kept, 'window')}, verified when they were loaded"))
    claims += _snapshots(ledger) if full else []
    claims += _lists_of_none(ledger)
    claims.append(Claim("tiling", None, True, _totals(state)))
    claims += (Claim("restart", None, True, str(restart)) for restart in state.restarts)
    claims += filter(None, (_hole(ledger, *time) for time in hole_times(state)))
    claims += _unpublished(ledger)
    return claims


def _examine(ledger: Ledger, window: Window) -> Iterator[Claim]:
    """Check a window: its manifest against its snapshots, its publication against its result, and its list of files."""
    try:
        manifest = ledger.pinned(window).manifest
        problems, basis, result = list(_misfits(ledger, window, manifest)), "pinned", None
        if window.publication is not None:
            result = ledger.published_result(window.name, window.publication)
            basis, proved = _proof(window, window.publication, manifest, result)
            problems += [] if proved else [basis]
        yield Claim("window", window.name, not problems, "; ".join(problems) or basis)
        if not problems and not file_lists.correct(ledger, window.name, result):
            yield _corrected(window.name)
    except LedgerError as error:
        yield Claim("window", window.name, False, str(error))


def _corrected(name: str) -> Claim:
    why = "its list of files wasn't what is published, because of a crash before it was written; it is correct now"
    return Claim("files", name, False, why)


def _lists_of_none(ledger: Ledger) -> Iterator[Claim]:
    """Report lists of windows that are void, and empty them."""
    gone = [name for name in file_lists.listed(ledger) if name not in ledger.state.windows]
    right = in_parallel(lambda name: file_lists.correct(ledger, name), gone)
    return (_corrected(name) for name, is_right in zip(gone, right, strict=True) if not is_right)


def _misfits(ledger: Ledger, window: Window, manifest: Manifest) -> Iterator[str]:
    try:
        both = (ledger.offsets_then(at_ms, window.number) for at_ms in (window.start_ms, window.end_ms))
        expected = Manifest.of(ledger.pipeline, ledger.id, *both)
    except KafkaOffsetsError as error:
        yield f"its two snapshots make no window: {error}"
        return
    if expected != manifest:
        yield "its manifest isn't what its two snapshots say"
    if manifest.span != window.offsets:
        yield f"its manifest has {manifest.span} offsets, but the log says {window.offsets}"


def _proof(window: Window, published: Published, manifest: Manifest, result: RunResult) -> tuple[str, bool]:
    """What a publication rests on, in words, and whether it is proved."""
    verdict = judge(manifest, result, window.lost)
    if verdict.proved and tuple(map(Output.of, result.outputs)) != published.outputs:
        return "its publication names other outputs than the result of its attempt", False
    rows = "" if result.derived else f", {number_of(result.rows_written, 'row')}"
    return f"{verdict}{rows}", verdict.proved


def _snapshots(ledger: Ledger) -> list[Claim]:
    """Whether the snapshots can be read, and each is above the one before it."""
    times = list(ledger.state.snapshots)
    pairs = zip([*times[:1], *times], times, strict=False)
    problems = dict.fromkeys(chain(*in_parallel(lambda pair: list(_disorder(ledger, *pair)), pairs)))
    words = "; ".join(problems) or f"{number_of(len(times), 'snapshot')} in order"
    return [Claim("snapshots", None, not problems, words)]


def _disorder(ledger: Ledger, earlier_ms: int, at_ms: int) -> Iterator[str]:
    """What is wrong with a snapshot after the one before it; the first one is compared with itself."""
    both = earlier_ms, at_ms
    number = max(ledger.state.snapshots[each].number for each in both)
    try:
        before, now = (ledger.offsets_then(each, number).boundaries for each in both)
    except LedgerError as error:
        yield str(error)
        return
    below = [str(key) for key, each in now.items() if key in before and each.offset < before[key].offset]
    if below:
        yield f"the snapshot at {iso_instant(at_ms)} is below the one before it on {shorten(below)}"


def _totals(state: State) -> str:
    """What the log says about all windows: they can't cross, and meet where they share a snapshot."""
    published = list(state.published)
    lost = sum(each.span for window in published for each in window.lost)
    offsets = sum(window.offsets for window in published)
    return f"{number_of(len(published), 'published window')}, {number_of(offsets, 'offset')}" + (
        f", {lost} of them lost before they were loaded" if lost else ""
    )


def _hole(ledger: Ledger, start_ms: int, end_ms: int) -> Claim | None:
    try:
        hole = hole_between(ledger, start_ms, end_ms)
    except LedgerError as error:  # a snapshot can't be read
        return Claim("snapshots", None, False, str(error))
    return None if hole is None else Claim("hole", None, not hole.unpinned, str(hole))


def _unpublished(ledger: Ledger) -> Iterator[Claim]:
    """Windows with offsets that aren't loaded, though a later one is published, or that failed."""
    last_ms = max((window.end_ms for window in ledger.state.published), default=0)
    waiting = [
        each.window for each in unloaded_stretches(ledger.state) if each.window is not None and each.window.offsets
    ]
    status = statuses(ledger, waiting)
    failed = [window for window in waiting if status[window.name] is WindowStatus.FAILED]
    late = [window for window in waiting if window.end_ms <= last_ms and window not in failed]
    if failed or late:
        again = {window.name for window in waiting if window.publication is not None}
        words = {name: f"{each}, to be loaded again" if name in again else each for name, each in status.items()}
        named = shorten(f"{window.name} ({words[window.name]})" for window in (*failed, *late))
        yield Claim("unpublished", None, not failed, f"not loaded yet: {named}")
