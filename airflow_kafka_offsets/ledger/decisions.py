"""Decisions about snapshots and windows: what may follow a state, as ``(state, wish) → entries, or a named error``.

They ask nobody and store nothing that counts: all races, crashes and clocks are dealt with in :mod:`.log`, which
decides anew whenever another writer was faster. No entries means that what was wished is so already. Offsets and
manifests lie in files that are named by their hash (:mod:`.contents`), so reading and adding them changes no answer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    InstantError,
    LedgerConflictError,
    OutdatedSurveyError,
    TopicChangedError,
    WindowOverlapError,
    shorten,
)
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.entries import AnyEntry, Created, Entries, Pinned, Snapshotted
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.offsets.instants import CLOCK_TOLERANCE_MS, iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.boundaries import clamp
from airflow_kafka_offsets.offsets.windows.ledger_names import window_extent, window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot


@dataclass(frozen=True, slots=True)
class ResolvedOffsets:
    """What Kafka has answered, to be stored.

    :param commit: number of the newest commit before Kafka was asked: snapshots that were stored later know more.
    :param now_ms: the clock, Unix milliseconds.
    :param instants: for each instant, the hash of the file with its offsets as Kafka said them: those of a backfill may
        be more than memory holds.
    :param latest: the visible ends of the logs; None if nobody asked for them.
    :param origin: where a pipeline of increments begins, if it hasn't begun yet.
    """

    commit: int
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


def place(state: State, answers: ResolvedOffsets, contents: Contents) -> Entries:
    """Store snapshots, each between its neighbours in time. An instant that has one keeps it. One as of latest comes
    after all others, whatever the clock says.

    :raises OutdatedSurveyError: when Kafka was asked before a neighbour was stored that knows more. Ask again.
    :raises InstantError: when an instant is before the pipeline's origin, or the newest snapshot's clock was far ahead.
    :raises: what :func:`.boundaries.clamp` raises, when an answer contradicts a neighbour.
    """
    draft = _Draft(state, answers, contents)
    draft.place()
    return tuple(draft.entries)


def pin(state: State, windows: Collection[tuple[int, int]], answers: ResolvedOffsets, contents: Contents) -> Entries:
    """Pin windows between two snapshots, and store those at instants that aren't stored yet. A window that is pinned
    stays as it is.

    :param windows: their starts and ends, Unix milliseconds.
    :raises WindowOverlapError: when another window has some of the time of one.
    :raises: as :func:`place`, and what :func:`.manifest.ranges_between` raises.
    """
    draft = _Draft(state, answers, contents)
    draft.place()
    for start_ms, end_ms in sorted(windows):
        if window_id(start_ms, end_ms) not in state.windows:
            draft.pin(start_ms, end_ms)
    return tuple(draft.entries)


def pin_increment(state: State, by: str, answers: ResolvedOffsets, contents: Contents) -> Entries:
    """Pin the window from the end of the last one to the visible ends of the logs. A run has one increment.

    :param by: the run.
    :param answers: the ends, and where the pipeline begins if it hasn't begun.
    :raises OutdatedSurveyError: when the pipeline has lost its beginning since Kafka was asked. Ask again.
    :raises LedgerConflictError: when it can't begin there, as offsets of its snapshots lie on both sides.
    :raises: as :func:`pin`.
    """
    if state.increment(by) is not None:
        return ()
    draft = _Draft(state, answers, contents)
    start_ms = increment_start_ms(state)
    if start_ms is None:
        start_ms = draft.begin()
    draft.place()
    draft.pin(start_ms, draft.newest_ms, by)
    return tuple(draft.entries)


def increment_start_ms(state: State) -> int | None:
    """Where the next increment starts, Unix milliseconds; None when the pipeline hasn't begun."""
    last = state.last_window
    if last is not None:
        return last.end_ms
    return next((stored.at_ms for stored in state.snapshots.values() if stored.is_origin), None)


class _Draft:
    """A state, and the snapshots and windows that a decision is about to add: as many as a year has, maybe. The state
    itself stays as it is.

    :param entries: what was added, in order.
    """

    def __init__(self, state: State, answers: ResolvedOffsets, contents: Contents) -> None:
        self.entries: list[AnyEntry] = []
        self._state = state
        self._answers = answers
        self._contents = contents
        self._snapshots = dict(state.snapshots)
        self._times = list(state.snapshots)
        self._last: Pinned | None = None
        if answers.commit < state.turned:
            raise OutdatedSurveyError("The ledger was rewound, or a topic restarted, since Kafka was asked. Ask again.")
        if self.newest_ms > answers.now_ms + CLOCK_TOLERANCE_MS:
            raise InstantError(
                f"The newest snapshot is at {iso_instant(self.newest_ms)}, but the clock says "
                f"{iso_instant(answers.now_ms)}: one of the two clocks is wrong. If it is the snapshot's, take the "
                "snapshot away with kafka-offsets ledger rewind."
            )

    @property
    def newest_ms(self) -> int:
        """Time of the newest snapshot; -1 when there is none."""
        return self._times[-1] if self._times else -1

    def begin(self) -> int:
        """Store where the pipeline begins. Returns its place in time."""
        origin = self._answers.origin
        if origin is None:
            raise OutdatedSurveyError(
                "The pipeline has no beginning any more, so Kafka has to be asked where it begins. Ask again."
            )
        if origin.as_of.timestamp_ms is None:
            return self._begin_at(self._gap_for(origin), origin)
        at_ms = origin.as_of.timestamp_ms
        stored = self._snapshots.get(at_ms)
        if stored is None:
            self._add(self._placed(at_ms, origin)._replace(is_origin=True))
        elif at_ms < self._anew_ms:
            return self._begin_at(None, origin)
        else:
            self._add(stored._replace(is_origin=True, number=0))
        return at_ms

    def _begin_at(self, at_ms: int | None, origin: OffsetSnapshot) -> int:
        """Store an origin that is as of no instant. Its offsets are what the user said, so none may be moved."""
        moved: list[TopicPartition] = []
        if at_ms is not None:
            placed = self._placed(at_ms, origin)
            fitted = self._contents.snapshot(placed.offsets).boundaries
            # A partition that later snapshots lack begins at its first record.
            expected = (
                (key, each, fitted[key].offset if key in fitted else each.log_start_offset)
                for key, each in origin.boundaries.items()
            )
            moved = [key for key, each, offset in expected if each.offset != offset]
            if not moved:
                self._add(placed._replace(is_origin=True))
                return at_ms
        where = f" on {shorten(map(str, moved))}" if moved else ""
        pipeline, before = self._state.begun.pipeline, iso_instant(self._times[0] - 1)
        raise LedgerConflictError(
            f"The pipeline can't begin as of {origin.as_of}: its snapshots are in the order of their offsets, and this "
            f"one has no place among them, or none since logs began anew{where}. Begin elsewhere; or take the "
            f"snapshots away with kafka-offsets ledger rewind {pipeline} --to {before}; or use another pipeline name."
        )

    def _gap_for(self, origin: OffsetSnapshot) -> int | None:
        """The time for an origin that is as of no instant: directly before the first snapshot that has offsets above
        its own. None when there is none, as these two have no time between them, or logs began anew since."""

        def has_above(at_ms: int) -> bool:
            there, known = self._offsets_at(at_ms).boundaries, origin.boundaries
            return any(key in known and each.offset > known[key].offset for key, each in there.items())

        place = bisect_left(self._times, True, bisect_left(self._times, self._anew_ms), key=has_above)
        if place == len(self._times):
            return max(origin.timestamp_ms, self.newest_ms + 1)
        at_ms = self._times[place] - 1
        return None if at_ms < self._anew_ms or at_ms in self._times[:place] else at_ms

    @property
    def _anew_ms(self) -> int:
        """When logs last began anew: what was before, nobody can load; 0 if none did."""
        return max((restart.at_ms for restart in self._state.restarts), default=0)

    def place(self) -> None:
        """Store what Kafka has answered."""
        for at_ms, offsets in sorted(self._answers.instants.items()):
            if at_ms not in self._snapshots:
                self._add(self._placed(at_ms, self._contents.snapshot(offsets)))
        latest = self._answers.latest
        if latest is not None:
            at_ms = max(latest.resolved_at_ms, self.newest_ms + 1)
            self._add(self._placed(at_ms, latest))

    def pin(self, start_ms: int, end_ms: int, by: str | None = None) -> None:
        """Pin a window, after all that were added before."""
        created, name = self._state.begun, window_id(start_ms, end_ms)
        self._refuse_crossing(name, start_ms, end_ms)
        manifest = Manifest.of(created.pipeline, created.ledger_id, *map(self._now, (start_ms, end_ms)))
        assert manifest.window == name, "a snapshot's own time is its place in the log"
        self._last = Pinned(name, self._contents.add_manifest(manifest), manifest.span, by)
        self.entries.append(self._last)

    def _add(self, entry: Snapshotted) -> None:
        self.entries.append(entry)
        if entry.at_ms not in self._snapshots:
            insort(self._times, entry.at_ms)
        self._snapshots[entry.at_ms] = entry._replace(number=self._state.number + 1)

    def _offsets_at(self, at_ms: int) -> OffsetSnapshot:
        stored = self._snapshots.get(at_ms)
        if stored is None:
            raise OutdatedSurveyError(
                f"The snapshot at {iso_instant(at_ms)} has stopped counting since it was looked up. Ask again."
            )
        return self._contents.snapshot(stored.offsets)

    def _placed(self, at_ms: int, snapshot: OffsetSnapshot) -> Snapshotted:
        """A snapshot that fits between its neighbours in time."""
        place = bisect_left(self._times, at_ms)
        earlier, later = self._times[max(0, place - 1) : place], self._times[place : place + 1]
        if later and not earlier and self._snapshots[later[0]].is_origin:
            raise InstantError(
                f"{iso_instant(at_ms)} is before the pipeline's origin at {iso_instant(later[0])}: what counts of "
                "older records is in its first window. Use another pipeline name for a time before that."
            )
        known = {each: self._now(each) for each in (*earlier, *later)}
        newer = [known[each] for each in known if self._snapshots[each].number > self._answers.commit]
        before, after = (known[times[0]] if times else None for times in (earlier, later))
        if snapshot.as_of.timestamp_ms is None:
            snapshot = replace(snapshot, resolved_at_ms=at_ms)  # its place in time, whatever the clock said
        fitted = clamp(snapshot, before, after, newer)
        return Snapshotted(at_ms, self._contents.add_snapshot(fitted))

    def _now(self, at_ms: int) -> OffsetSnapshot:
        """A neighbour's offsets as the logs go on now, which are the ones that Kafka was asked about. So a snapshot
        between two that are older than a restart is without the restart's topics."""
        return self._state.anew(self._offsets_at(at_ms), at_ms)

    def _refuse_crossing(self, name: str, start_ms: int, end_ms: int) -> None:
        """Refuse a window that has some of another one's time: of the state's, or of the last one that was added, as
        those added before it end where it starts, or earlier."""
        crossing = next(iter(self._state.crossing(start_ms, end_ms)), None)
        other = None if crossing is None else crossing.name
        if self._last is not None and start_ms < window_extent(self._last.window)[1]:
            other = self._last.window
        if other is not None:
            status = "published" if crossing is not None and crossing.publication is not None else "pinned"
            raise WindowOverlapError(
                f"Window {name} is not pinned: {status} window {other} has some of its time, and windows of a "
                "pipeline never cross: if both were loaded, records would be there twice. Load the schedule's own "
                "windows (airflow backfill create, or clear their runs); or, if the other one shouldn't exist, run "
                f"kafka-offsets ledger void {self._state.begun.pipeline} {other}; or use another pipeline name."
            )
