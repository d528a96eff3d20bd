"""The window pinner: turns instants, or stored snapshots, into pinned windows in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    InstantError,
    InstantForgottenError,
    shorten,
)
from airflow_kafka_offsets.ledger.forgetting import between_instants, forget_instants
from airflow_kafka_offsets.ledger.pinning import Pinning, pin_together, pin_window
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.instants import iso_instant, to_datetime
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy, OverlapPolicy
from airflow_kafka_offsets.offsets.windows.ranges import held_warning, window_warnings
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Evidence, OffsetSnapshot
from airflow_kafka_offsets.pipelines.log_changes import refuse_rewritten
from airflow_kafka_offsets.pipelines.snapshot_maker import SnapshotMaker

T = TypeVar("T")

_MOST_TRIES = 10


@dataclass(frozen=True, slots=True)
class Policies:
    """What to do in special cases.

    :param on_data_loss: when records of a window are deleted: ``fail``, or ``load_rest`` (load the rest, record the
        loss).
    :param on_overlap: when another window of the pipeline has some of a window's offsets: ``fail``, or ``allow``.
    :param new_topics_from_ms: where a topic that is added to a pipeline starts: at this instant, Unix milliseconds, at
        most the end of the first window that has the topic; None for the log start offset.
    """

    on_data_loss: DataLossPolicy = "fail"
    on_overlap: OverlapPolicy = "fail"
    new_topics_from_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ResolvedWindow:
    """A pinned window, with warnings for the user.

    :param pinned: the stored manifest.
    :param warnings: what may be unexpected, one line each; empty for an ordinary window.
    """

    pinned: PinnedManifest
    warnings: tuple[str, ...]


class WindowPinner:
    """Pins windows of a pipeline, each from two stored snapshots.

    :param maker: makes their snapshots, and has the client and the ledger.
    :param policies: what to do about data loss, overlaps and new topics.
    """

    def __init__(self, maker: SnapshotMaker, policies: Policies = Policies()) -> None:  # immutable, safe as a default
        self.maker = maker
        self.client = maker.client
        self.ledger = maker.ledger
        self._policies = policies

    def pin(self, start_ms: int, end_ms: int) -> ResolvedWindow:
        """The pinned window between two instants.

        :raises IntervalError: when the end isn't after the start.
        :raises DataLossError: when records of the window were already deleted when its end was resolved.
        :raises WindowOverlapError: when another window of the pipeline has some of its offsets.
        :raises InstantError: when added topics would start after its end.
        """

        def pin() -> ResolvedWindow:
            start, end = self.maker.snapshots([start_ms, end_ms])
            return self.pin_between(start, end)

        return _until_remembered(pin)

    def pin_between(self, start: OffsetSnapshot, end: OffsetSnapshot, pinning: Pinning | None = None) -> ResolvedWindow:
        """The pinned window between two stored snapshots of any kind.

        :param pinning: pins the window as one of many; it counts once the pinning is settled.
        :raises: as :meth:`pin`.
        """
        name = window_id(start.timestamp_ms, end.timestamp_ms)
        # Another task, which only warns, may have stored this end.
        refused = self.maker.future_record(end)
        if refused is not None and not self._is_pinned(name):
            raise refused
        if not self.maker.made_together(start, end):
            # However new the start is: records that have replaced those before it would be in no window.
            refuse_rewritten(self.client, start)
        on_data_loss, added = self._policies.on_data_loss, self._added(start, end)
        if pinning is not None:
            pinned = pinning.pin(start, end, on_data_loss=on_data_loss, added=added)
        else:
            on_overlap = self._policies.on_overlap
            pinned = pin_window(self.ledger, start, end, on_data_loss=on_data_loss, added=added, on_overlap=on_overlap)
        lines = (*window_warnings(end, pinned.manifest.ranges), *self._open_transactions(end))
        return ResolvedWindow(pinned, lines)

    def re_resolve(self, *windows: tuple[int, int]) -> list[ResolvedWindow]:
        """Resolve windows between two instants again, as their next revisions. An instant that another window shares
        stays as it is, so that windows still tile; a window whose two instants are both shared doesn't change. If one
        is refused, all windows and their instants are as they were.

        :raises: as :meth:`pin`.
        :raises ConfigurationError: when a window isn't between two instants.
        """
        names = [window_id(*window) for window in windows]
        others = sorted(set(names) - set(between_instants(self.ledger, names)))
        if others:
            # Looking up the time of a snapshot of another kind would give an offset within the next window.
            raise ConfigurationError(
                f"Window {others[0]} is an increment, or a window between snapshots that a task made. Only windows "
                "between two instants can be resolved again."
            )
        forget_instants(self.ledger, names)
        pin = partial(pin_together, self.ledger, self._policies.on_overlap, names, partial(self._pin_all, windows))
        try:
            return _until_remembered(pin)
        except BaseException:
            # Or the next window would start at an end that this one didn't get. Forgotten once more, the instants get
            # back the offsets of the windows that have them.
            forget_instants(self.ledger, names)
            raise

    def _pin_all(self, windows: Sequence[tuple[int, int]], pinning: Pinning) -> list[ResolvedWindow]:
        """Pin windows between two instants. No snapshot is stored if its window would be refused."""
        found: dict[tuple[int, int], ResolvedWindow] = {}
        held: dict[int, OffsetSnapshot] = {}

        def check(coming: Mapping[int, OffsetSnapshot]) -> None:
            at = held | dict(coming)
            for start_ms, end_ms in windows:
                if end_ms in coming and start_ms in at:
                    start, end = at[start_ms], at[end_ms]
                    added = self._added(start, end)
                    pinning.check(start, end, on_data_loss=self._policies.on_data_loss, added=added)

        for snapshot in self.maker.snapshots(sorted(set(chain.from_iterable(windows))), pinning.revising, check):
            at_ms = snapshot.timestamp_ms
            held[at_ms] = snapshot
            for window in windows:
                if window[1] == at_ms:
                    found[window] = self.pin_between(held[window[0]], snapshot, pinning)
            # Snapshots may be large: only those are kept at which windows start that haven't ended.
            needed = {start_ms for start_ms, end_ms in windows if end_ms > at_ms}
            held = {start_ms: start for start_ms, start in held.items() if start_ms in needed}
        return [found[window] for window in windows]

    def pin_increment(self, run: str, since: AsOf) -> ResolvedWindow:
        """The window from the end of the last increment to the current visible end of the logs. A run always gets the
        same increment; runs in parallel get consecutive ones.

        :param run: the run's name, letters and digits.
        :param since: where the first increment starts, if the ledger has no window yet; otherwise it starts where the
            last window ends.
        :raises: as :meth:`pin`.
        """
        log = self.ledger.snapshots
        found = log.increment(run)
        if found is not None:
            self.maker.check_ledger()
        else:
            as_of = AsOf(AsOfKind.INCREMENT, run=run, follows=self._followed(run, since))
            found = log.increment_to(self.maker.snapshot(as_of))
        start, end = found
        return self.pin_between(self._as_it_counts(start), end)

    def _as_it_counts(self, start: OffsetSnapshot) -> OffsetSnapshot:
        """The snapshot that an increment follows; if it is at an instant that was resolved again, or is to be, what
        counts there now. As long as the window before the increment stays as it is, that has the same offsets."""
        if start.as_of.timestamp_ms is None or not self.ledger.snapshots.forgotten([start]):
            return start
        return self.maker.snapshot(start.as_of)

    def _followed(self, run: str, since: AsOf) -> int:
        """Number of the snapshot at which a new increment starts, unless another one is stored meanwhile."""
        earlier = [entry.number for entry in self.ledger.snapshots.entries() if entry.kind == AsOfKind.INCREMENT]
        if earlier:
            return earlier[-1]
        last = self.ledger.last_pinned()
        if last is not None:
            return last.manifest.end_snapshot
        # By the run's name, so that a retry starts there too: it would lose what has come since if it asked again.
        named = since if since.timestamp_ms is not None else replace(since, run=f"{run}since")
        number = self.maker.snapshot(named).number
        assert number is not None, "it is stored"
        return number

    def _is_pinned(self, window: str) -> bool:
        """Whether a window is pinned already, and so stays as it is, whatever a policy says today."""
        return self.ledger.window_folders.newest(window).pinned() is not None

    def _added(self, start: OffsetSnapshot, end: OffsetSnapshot) -> dict[TopicPartition, int]:
        """Start offsets of the topics that the start snapshot doesn't have.

        :raises InstantError: when they would start after the end: the next window would contain the records that this
            one leaves out.
        :raises OffsetsError: when a partition is in error, or answered with an older record (E37).
        """
        at_ms = self._policies.new_topics_from_ms
        partitions = [partition for partition in end.boundaries if partition.topic not in start.topics]
        if at_ms is None or not partitions:
            return {}
        name = window_id(start.timestamp_ms, end.timestamp_ms)
        if at_ms > end.timestamp_ms and not self._is_pinned(name):
            topics = shorten(sorted({partition.topic for partition in partitions}))
            raise InstantError(
                f"new_topics_from={iso_instant(at_ms)} is after the end of window {name} at "
                f"{iso_instant(end.timestamp_ms)}, the first window with {topics}: the next window would contain the "
                "records that this one leaves out. Give an instant up to that end, or leave the topics out of this "
                "window."
            )
        listed = self.client.list_offsets(
            partitions, OffsetSpec.at(to_datetime(at_ms)), isolation_level=self.maker.isolation_level
        )
        offsets = {
            TopicPartition.of(answer): answer.offset
            for answer in listed.raise_for_errors().refuse_older_answers().refuse_untimed()
        }
        # Without a record at or after the instant, the window has none of the topic's records.
        return {key: found if (found := offsets[key]) is not None else end.boundaries[key].offset for key in partitions}

    def _open_transactions(self, end: OffsetSnapshot) -> list[str]:
        """The open transactions that hold back the end of a window (S10)."""
        held = [
            key
            for key, boundary in end.boundaries.items()
            if boundary.evidence is Evidence.LOG_END and boundary.last_stable_offset < boundary.high_watermark
        ]
        if not held or self.maker.isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return []
        return [held_warning(held, self.client.producers(held))]


def _until_remembered(pin: Callable[[], T]) -> T:
    """Pin, and pin again if an instant is forgotten meanwhile."""
    for _ in range(_MOST_TRIES):
        try:
            return pin()
        except InstantForgottenError as error:
            forgotten = error
    raise forgotten
