"""Decisions about snapshots and windows: what may follow a state, as ``(state, wish) → entries, or a named error``.

They ask nobody and store nothing that counts: all races, crashes and clocks are dealt with in :mod:`.log`, which
decides anew whenever another writer was faster. No entries means that what was wished is so already. Offsets and
manifests lie in files that are named by their hash (:class:`Contents`), so reading and adding them changes no answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    InstantError,
    LedgerConflictError,
    LedgerCorruptError,
    OutdatedSurveyError,
    TopicChangedError,
    WindowOverlapError,
    number_of,
    shorten,
)
from airflow_kafka_offsets.ledger.draft import Draft
from airflow_kafka_offsets.ledger.entries import (
    AnyEntry,
    Created,
    Pinned,
    Restarted,
    Rewound,
    Snapshotted,
    Voided,
)
from airflow_kafka_offsets.ledger.state import State, StoredSnapshot, Window
from airflow_kafka_offsets.offsets.instants import FUTURE_TOLERANCE_MS, iso_instant
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.boundaries import clamp
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.ranges import window_between
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot

Entries = tuple[AnyEntry, ...]


class Contents(Protocol):
    """Files named by the hash of their content, which therefore never change."""

    def snapshot(self, offsets: str) -> OffsetSnapshot:
        """The snapshot in a file."""

    def add_snapshot(self, snapshot: OffsetSnapshot) -> str:
        """Store a snapshot. Returns the hash that names its file."""

    def add_manifest(self, manifest: Manifest) -> str:
        """Store a manifest. Returns the hash that names its file."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What Kafka has answered, to be stored.

    :param known: number of the newest commit before Kafka was asked: snapshots that were stored later know more.
    :param now_ms: the clock, Unix milliseconds.
    :param instants: for each instant, the hash of the file with its offsets as Kafka said them: those of a backfill may
        be more than memory holds.
    :param latest: the visible ends of the logs; None if nobody asked for them.
    :param origin: where the pipeline begins, if it has no window yet; None to begin at the first instant.
    """

    known: int
    now_ms: int
    instants: Mapping[int, str] = field(default_factory=dict)
    latest: OffsetSnapshot | None = None
    origin: OffsetSnapshot | None = None


def create(state: State, wish: Created) -> Entries:
    """Begin a ledger, or check that the existing one is of the same cluster and isolation level.

    :raises TopicChangedError: when it is of another cluster.
    :raises ConfigurationError: when it has another isolation level.
    """
    if state.created is None:
        return (wish,)
    if state.cluster_id != wish.cluster_id:
        raise TopicChangedError(
            f"The ledger of pipeline {wish.pipeline} belongs to cluster {state.cluster_id}, but the connection reaches "
            f"{wish.cluster_id}. Use the right connection; or, if this cluster has taken the other one's place, run "
            f"kafka-offsets ledger restart {wish.pipeline}."
        )
    if state.created.isolation_level != wish.isolation_level:
        raise ConfigurationError(
            f"The ledger of pipeline {wish.pipeline} is {state.created.isolation_level}; to read with "
            f"{wish.isolation_level}, use another pipeline name."
        )
    return ()


def place(state: State, asked: Asked, contents: Contents) -> Entries:
    """Store snapshots, each between its neighbours in time. An instant that has one keeps it. One as of latest comes
    after all others, whatever the clock says.

    :raises OutdatedSurveyError: when Kafka was asked before a neighbour was stored that knows more. Ask again.
    :raises InstantError: when an instant is before the pipeline's origin, or the newest snapshot's clock was far ahead.
    :raises: what :func:`.boundaries.clamp` raises, when an answer contradicts a neighbour.
    """
    draft = Draft(state)
    _place(draft, asked, contents)
    return tuple(draft.entries)


def pin(state: State, windows: Collection[tuple[int, int]], asked: Asked, contents: Contents) -> Entries:
    """Pin windows between two snapshots, and store those at instants that aren't stored yet. A window that is pinned
    stays as it is.

    :param windows: their starts and ends, Unix milliseconds.
    :raises WindowOverlapError: when another window has some of the time of one.
    :raises: as :func:`place`, and what :func:`.ranges.window_between` raises.
    """
    draft = Draft(state)
    _place(draft, asked, contents)
    for start_ms, end_ms in sorted(windows):
        if window_id(start_ms, end_ms) not in state.windows:
            draft.add_window(_pinned(draft, start_ms, end_ms, contents))
    return tuple(draft.entries)


def pin_increment(state: State, by: str, asked: Asked, contents: Contents) -> Entries:
    """Pin the window from the end of the last one to the visible ends of the logs. A run has one increment.

    :param by: the run.
    :param asked: the ends, and where the pipeline begins if it has no window.
    :raises OutdatedSurveyError: when the pipeline has lost its windows since Kafka was asked. Ask again.
    :raises: as :func:`pin`.
    """
    if state.increment(by) is not None:
        return ()
    draft = Draft(state)
    start_ms = _increment_start_ms(state)
    if start_ms is None:
        origin = _origin(draft, asked, contents)
        draft.add_snapshot(origin)
        start_ms = origin.at_ms
    _place(draft, asked, contents)
    draft.add_window(_pinned(draft, start_ms, draft.newest_ms, contents, by))
    return tuple(draft.entries)


def _increment_start_ms(state: State) -> int | None:
    """Where the next increment starts; None when the pipeline hasn't begun."""
    last = state.last_window
    if last is not None:
        return last.end_ms
    return next((stored.at_ms for stored in state.snapshots.values() if stored.is_origin), None)


def _origin(draft: Draft, asked: Asked, contents: Contents) -> Snapshotted:
    """The pipeline's beginning: below all snapshots that others have stored, in time and in offsets."""
    if asked.origin is None:
        raise OutdatedSurveyError(
            "The pipeline has no window any more, so Kafka has to be asked where it begins. Ask again."
        )
    first = next(iter(draft.state.snapshots), None)
    at_ms = asked.origin.timestamp_ms if first is None else min(asked.origin.timestamp_ms, first - 1)
    return replace(_placed(draft, at_ms, asked.origin, asked, contents), is_origin=True)


def _place(draft: Draft, asked: Asked, contents: Contents) -> None:
    if asked.known < draft.state.turned:
        raise OutdatedSurveyError("The ledger was rewound, or a topic restarted, since Kafka was asked. Ask again.")
    newest = draft.state.newest_snapshot
    if newest is not None and newest.at_ms > asked.now_ms + FUTURE_TOLERANCE_MS:
        raise InstantError(
            f"The newest snapshot is at {iso_instant(newest.at_ms)}, but the clock says {iso_instant(asked.now_ms)}: "
            "one of the two clocks is wrong. If it is the snapshot's, take the snapshot away with kafka-offsets ledger "
            "rewind."
        )
    for at_ms, offsets in sorted(asked.instants.items()):
        if draft.snapshot(at_ms) is None:
            draft.add_snapshot(_placed(draft, at_ms, contents.snapshot(offsets), asked, contents))
    if asked.latest is not None:
        at_ms = max(asked.latest.resolved_at_ms, draft.newest_ms + 1)
        draft.add_snapshot(_placed(draft, at_ms, asked.latest, asked, contents))


def _placed(draft: Draft, at_ms: int, snapshot: OffsetSnapshot, asked: Asked, contents: Contents) -> Snapshotted:
    before, after = draft.neighbours(at_ms)
    if before is None and after is not None and after.is_origin:
        raise InstantError(
            f"{iso_instant(at_ms)} is before the pipeline's origin at {iso_instant(after.at_ms)}: what counts of older "
            "records is in its first window. Use another pipeline name for a time before that."
        )

    _refuse_before_restart(draft.state, at_ms)

    def offsets_of(neighbour: StoredSnapshot | None) -> OffsetSnapshot | None:
        if neighbour is None:
            return None
        stored = replace(contents.snapshot(neighbour.offsets), number=neighbour.number)
        return draft.state.anew(stored, neighbour.at_ms, at_ms)

    if snapshot.as_of.timestamp_ms is None:
        snapshot = replace(snapshot, resolved_at_ms=at_ms)  # its place in time, whatever the clock said
    fitted = clamp(snapshot, offsets_of(before), offsets_of(after), asked.known)
    return Snapshotted(at_ms, snapshot.as_of, contents.add_snapshot(fitted))


def _refuse_before_restart(state: State, at_ms: int) -> None:
    later = next((restart for _, restart in state.restarts if at_ms < restart.at_ms), None)
    if later is not None:
        raise InstantError(
            f"{iso_instant(at_ms)} has no snapshot, and is before the restart of {shorten(later.topics)} after "
            f"{iso_instant(later.at_ms - 1)}: Kafka has no longer what was there then. Resolve windows that start and "
            "end at stored snapshots, or later."
        )


def _pinned(draft: Draft, start_ms: int, end_ms: int, contents: Contents, by: str | None = None) -> Pinned:
    name = window_id(start_ms, end_ms)
    created = created_of(draft.state)
    crossing = draft.crossing(start_ms, end_ms)
    if crossing is not None:
        raise WindowOverlapError(
            f"Window {name} is not pinned: {_state_of(crossing)} window {crossing.name} has some of its time, and "
            "windows of a pipeline never cross: if both were loaded, records would be there twice. Load the schedule's "
            "own windows (airflow backfill create, or clear their runs); or, if the other one shouldn't exist, run "
            f"kafka-offsets ledger void {created.pipeline} {crossing.name}; or use another pipeline name."
        )

    def offsets_at(at_ms: int) -> OffsetSnapshot:
        stored = draft.snapshot(at_ms)
        if stored is None:
            raise OutdatedSurveyError(
                f"The snapshot at {iso_instant(at_ms)} has stopped counting since it was looked up. Ask again."
            )
        return contents.snapshot(stored.offsets)

    window = window_between(draft.state.anew(offsets_at(start_ms), start_ms, end_ms), offsets_at(end_ms))
    manifest = Manifest.of(created.pipeline, created.ledger_id, window)
    return Pinned(name, contents.add_manifest(manifest), manifest.span, by)


def void(state: State, windows: Collection[str], *, force: bool = False) -> Entries:
    """Windows that should not exist: their times are free again, and get the same snapshots.

    :param force: also when they are published.
    :raises LedgerConflictError: when one isn't there, or is published and ``force`` isn't set; names its rows.
    """
    found = [window_of(state, name) for name in windows]
    _refuse_published(found, force)
    return tuple(Voided(window.name) for window in found)


def rewind(state: State, to_ms: int, *, force: bool = False) -> Entries:
    """Everything after an instant stops counting: snapshots, and the windows that end after it.

    :param to_ms: the instant, Unix milliseconds.
    :param force: also when such windows are published.
    :raises LedgerConflictError: when they are, and ``force`` isn't set; names their rows.
    """
    if not any(at_ms > to_ms for at_ms in state.snapshots):
        return ()
    _refuse_published([window for window in state.windows.values() if window.end_ms > to_ms], force)
    return (Rewound(to_ms),)


def _refuse_published(windows: Collection[Window], force: bool) -> None:
    published = [window for window in windows if window.publication is not None]
    if published and not force:
        rows = shorten(
            f"{number_of(output.rows, 'row')} of {window.name} in {output.output or 'no output'}"
            for window in published
            if window.publication is not None
            for output in window.publication.outputs
        )
        raise LedgerConflictError(
            f"{number_of(len(published), 'window')} of these {'is' if len(published) == 1 else 'are'} published: "
            f"{rows}. With --force they stop counting, and these rows are in no window: delete them yourself."
        )


def restart(state: State, wish: Restarted, contents: Contents) -> Entries:
    """The logs of some topics have begun anew. Says what was left unloaded of the old ones, as far as it is known.

    :param wish: the restart, without its place in time and what was left.
    :raises LedgerConflictError: when the pipeline has no snapshot with such a topic.
    """
    newest = state.newest_snapshot
    known = None if newest is None else state.anew(contents.snapshot(newest.offsets), newest.at_ms, newest.at_ms + 1)
    strange = sorted(set(wish.topics) - set(() if known is None else known.topics))
    if newest is None or known is None or strange:
        raise LedgerConflictError(
            f"{shorten(strange or wish.topics)}: no snapshot of this pipeline has it, or it was restarted since, so "
            "there is nothing to restart."
        )
    return (replace(wish, at_ms=newest.at_ms + 1, left=tuple(_left(state, wish, known, contents))),)


def _left(state: State, wish: Restarted, known: OffsetSnapshot, contents: Contents) -> Iterator[LogRange]:
    """What no window has of logs that begin anew, up to where a snapshot last saw them end."""
    last = state.last_window
    if last is None:
        return
    end = state.anew(contents.snapshot(state.snapshots[last.end_ms].offsets), last.end_ms, wish.at_ms)
    cut = {TopicPartition(place.topic, place.partition): place.offset for place in wish.truncated}
    goes_on = {key.topic for key in cut}
    for key, boundary in sorted(end.boundaries.items()):
        if key.topic not in wish.topics or key not in known.boundaries or (key.topic in goes_on and key not in cut):
            continue
        left = LogRange(*key, max(boundary.offset, cut.get(key, 0)), known.boundaries[key].high_watermark)
        if left.span > 0:
            yield left


def created_of(state: State) -> Created:
    """The ledger's first entry.

    :raises LedgerCorruptError: when it has none.
    """
    if state.created is None:
        raise LedgerCorruptError("The ledger's log doesn't begin with its identity: restore its first commit.")
    return state.created


def window_of(state: State, name: str) -> Window:
    """A window.

    :raises LedgerConflictError: when there is none of that name.
    """
    found = state.windows.get(name)
    if found is None:
        raise LedgerConflictError(
            f"Pipeline {created_of(state).pipeline} has no window {name}: it was never resolved, or was voided since. "
            "Clear the task that resolves it."
        )
    return found


def _state_of(window: Window) -> str:
    return "published" if window.publication is not None else "pinned"
