"""The resolver: asks Kafka, remembers in the ledger. Where client and ledger meet; below the Airflow classes."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from airflow_kafka_offsets.client.lookups.topic_survey import Survey
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    FutureRecordError,
    InstantForgottenError,
    OutdatedSurveyError,
)
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import OverlapPolicy, Pinning
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.answers.first_records import Position
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.instants import now_ms, to_datetime
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.boundaries import (
    Boundaries,
    at_commits,
    at_earliest,
    at_instant,
    at_latest,
    refuse_future,
)
from airflow_kafka_offsets.offsets.windows.ranges import DataLossPolicy
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Evidence, OffsetSnapshot, TopicFacts
from airflow_kafka_offsets.offsets.windows.warnings import future_remark, held_remark, window_remarks
from airflow_kafka_offsets.offsets.windows.window_names import window_id
from airflow_kafka_offsets.pipelines.preflight import refuse_rewritten

FuturePolicy = Literal["fail", "warn"]
_AT_A_TIME = 48
"""Instants that are held in memory at a time."""
_LOOK_UPS = 50_000
"""Instants times partitions that are looked up by one call, which has one deadline."""
_MOST_READ = 2_000
"""Matched boundaries whose records are read to tell markers from records, of snapshots that are made together: two of a
thousand partitions are, and a backfill's aren't."""
_MOST_TRIES = 10
_MOST_SURVEYS = 1_000
"""So many other tasks may store a snapshot in between before asking Kafka again is given up."""
_PAUSE_S = 0.5
"""The longest pause before Kafka is asked again: whoever comes last waits about as long as the others take."""


@dataclass(frozen=True, slots=True)
class Policies:
    """What to do about what a log may have in store.

    :param on_data_loss: records of a window are gone: ``fail``, or ``load_rest`` (load the rest, note the loss).
    :param on_future_record: a record from the future would leave all windows up to its time empty on its partition,
        and put what comes meanwhile into the window of that time: ``fail``, or ``warn``.
    :param on_overlap: another window of the pipeline has some of a window's offsets: ``fail``, or ``allow``.
    :param new_topics_from_ms: where a topic begins that is added to a pipeline: at this instant, Unix milliseconds;
        None for the log start.
    """

    on_data_loss: DataLossPolicy = "fail"
    on_future_record: FuturePolicy = "fail"
    on_overlap: OverlapPolicy = "fail"
    new_topics_from_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ResolvedWindow:
    """A pinned window, and what a person should know of it.

    :param pinned: the stored manifest.
    :param remarks: what may be unexpected, a line each; empty for an ordinary window.
    """

    pinned: PinnedManifest
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What Kafka said, and what the ledger held before.

    :param known: number of the newest snapshot that was stored before Kafka was asked: only it and earlier ones can
        prove that a log was cut or a topic changed.
    :param survey: what Kafka said.
    """

    known: int
    survey: Survey


class Resolver:
    """Resolves each instant of a pipeline once, and every window from two stored snapshots.

    :param client: the cluster to ask.
    :param ledger: where the answers are kept.
    :param topics: the pipeline's topics; or a pattern that whole names match, looked up again for each snapshot, which
        takes in every such topic that may be described and isn't Kafka's own.
    :param isolation_level: which records count as visible.
    :param policies: what to do about truncation, records from the future and new topics.
    """

    def __init__(
        self,
        client: OffsetsClient,
        ledger: Ledger,
        topics: Sequence[str] | re.Pattern[str],
        isolation_level: IsolationLevel,
        policies: Policies = Policies(),  # it is immutable
    ) -> None:
        if not topics:
            raise ConfigurationError("A pipeline needs at least one topic; topics is empty.")
        self._client = client
        self._ledger = ledger
        self._wanted = topics
        self._isolation_level = isolation_level
        self._policies = policies
        self._revising: list[str] = []
        self._together: set[int | None] = set()
        """Numbers of the snapshots that were made of the newest survey: between them, no log was seen to change."""

    def _topics(self) -> list[str]:
        if not isinstance(self._wanted, re.Pattern):
            return sorted(set(self._wanted))
        found = [each for each in self._client.topics() if not each.internal]
        matching = TopicsMetadata(each for each in found if self._wanted.fullmatch(each.topic))
        if not len(matching):
            raise ConfigurationError(
                f"No topic matches {self._wanted.pattern!r}, of {len(found)} that this connection may describe."
            )
        # Without a topic that can't be described just now, a snapshot would be of fewer topics.
        return [each.topic for each in matching.raise_for_errors()]

    def _open_if_there(self) -> None:
        """Check that the ledger is this cluster's and covers these topics, if there is one."""
        if self._ledger.exists():
            self._ledger.open(self._topics(), self._client.cluster_id(), self._isolation_level)

    def _ask(self) -> _Asked:
        known = self._ledger.snapshots.last_number()  # before Kafka is asked
        return _Asked(known, self._client.survey(self._topics()))

    def snapshot(self, as_of: AsOf) -> OffsetSnapshot:
        """The stored snapshot as of something: resolved now, unless it is an instant that was resolved before.

        :raises InstantError: when the instant lies in the future.
        :raises OffsetsError: when a topic is unknown or a partition can't be asked.
        :raises TopicChangedError: when the ledger was written by another cluster or topic.
        :raises FutureRecordError: when a record from the future stands there, and that is to fail.
        """
        if as_of.timestamp_ms is not None:
            (found,) = self.snapshots([as_of.timestamp_ms])
            return found
        (stored,), _ = self._store(lambda survey: [self._resolve(survey, as_of)], self._ask())
        return stored

    def snapshots(self, instants: Sequence[int]) -> Iterator[OffsetSnapshot]:
        """The stored snapshots at some instants, in their order. Topics and log ends are asked once for all of them.

        :param instants: Unix milliseconds. In order of time they are stored faster.
        :raises: as :meth:`snapshot`, once the instant's turn has come.
        """
        refuse_future(max(instants), now_ms())
        self._open_if_there()
        asked: _Asked | None = None
        self._together.clear()
        for first in range(0, len(instants), _AT_A_TIME):
            part = instants[first : first + _AT_A_TIME]
            stored = self._ledger.snapshots.at_instants(part)
            missing = [each for each in dict.fromkeys(part) if each not in stored]
            if missing:
                before = asked
                found, asked = self._store(partial(self._look_up, missing), asked or self._ask())
                if asked is not before:
                    self._together.clear()
                # What another task had stored before is of its own survey.
                self._together |= {each.number for each in found if (each.number or 0) > asked.known}
                stored |= zip(missing, found, strict=True)
            yield from (stored[each] for each in part)

    def window(self, start_ms: int, end_ms: int) -> ResolvedWindow:
        """The pinned window between two instants.

        :raises IntervalError: when the end isn't after the start.
        :raises DataLossError: when records of the window were gone already when its end was resolved.
        :raises WindowOverlapError: when another window of the pipeline has some of its offsets.
        """
        window_id(start_ms, end_ms)
        for _ in range(_MOST_TRIES):
            try:
                start, end = self.snapshots([start_ms, end_ms])
                if self._ledger.window(window_id(start_ms, end_ms)).pinned() is None:
                    self._refuse_future_records(end)  # which another task may have stored, with a warning
                return self.window_between(start, end)
            except InstantForgottenError as error:
                forgotten = error
        raise forgotten

    def window_between(self, start: OffsetSnapshot, end: OffsetSnapshot) -> ResolvedWindow:
        """The pinned window between two stored snapshots of any kind.

        :raises: as :meth:`window`.
        """
        return self._resolved(start, end, partial(self._ledger.pin_window, on_overlap=self._policies.on_overlap))

    def pinning(self) -> Pinning:
        """What pins many windows by :meth:`pinned_by`: the ledger is looked at once before and once after them."""
        return self._ledger.pinning(self._policies.on_overlap)

    def pinned_by(self, pinning: Pinning, start: OffsetSnapshot, end: OffsetSnapshot) -> ResolvedWindow:
        """As :meth:`window_between`; the window counts once it is settled."""
        return self._resolved(start, end, pinning.pin)

    def _resolved(
        self, start: OffsetSnapshot, end: OffsetSnapshot, pin: Callable[..., PinnedManifest]
    ) -> ResolvedWindow:
        if not {start.number, end.number} <= self._together:
            # However new the start is: what replaced its records since would be in no window.
            refuse_rewritten(self._client, start)
        pinned = pin(start, end, on_data_loss=self._policies.on_data_loss, added=self._added(start, end))
        lines = (*window_remarks(end, pinned.manifest.ranges), *self._open_transactions(end))
        return ResolvedWindow(pinned, lines)

    def re_resolve(self, *windows: tuple[int, int]) -> list[ResolvedWindow]:
        """Windows between two instants each, resolved anew as their next revisions. An instant that any other window
        shares stays, so that all go on tiling; when both of a window do, it is what it was.

        :raises: as :meth:`window`.
        :raises ConfigurationError: when a window isn't between two instants.
        """
        names = [window_id(*each) for each in windows]
        others = sorted(set(names) - set(self._ledger.between_instants(names)))
        if others:
            # An instant looked up at the time of another kind of snapshot would lie within the next window.
            raise ConfigurationError(
                f"Window {others[0]} is an increment, or between snapshots that a task made: only windows between "
                "instants can be resolved anew."
            )
        self._revising = names
        self._ledger.forget_instants(names)
        return [self.window(*each) for each in windows]

    def increment(self, run: str, since: AsOf) -> ResolvedWindow:
        """What has come since the last increment: the window from its end to the visible end of the logs now. The same
        run gets the same increment again, and runs side by side get one after the other.

        :param run: names the run: letters and digits.
        :param since: where the first increment starts, in a ledger that has no window yet; otherwise it starts where
            the last window ends.
        :raises: as :meth:`window`.
        """
        self._open_if_there()
        log = self._ledger.snapshots
        found = log.increment(run)
        if found is None:
            as_of = AsOf(AsOfKind.INCREMENT, run=run, follows=self._last_end(since))
            self._store(lambda survey: [self._resolve(survey, as_of)], self._ask())
            found = log.increment(run)
        assert found is not None, "it has just been stored"
        return self.window_between(*found)

    def _last_end(self, since: AsOf) -> int:
        """Number of the snapshot at which the first increment starts."""
        last = self._ledger.last_pinned()
        if last is not None:
            return last.manifest.end_snapshot
        number = self.snapshot(since).number
        assert number is not None, "it is stored"
        return number

    def _store(
        self, made: Callable[[Survey], list[OffsetSnapshot]], asked: _Asked
    ) -> tuple[list[OffsetSnapshot], _Asked]:
        """Store snapshots that are made of a survey; where another task has stored what Kafka said later, of another
        survey, until nobody has. Each time that somebody has, one task more is done: all of them come to an end.

        :returns: what is stored, and what it was made of.
        :raises OutdatedSurveyError: when a thousand tasks came in between.
        """
        for tries in range(1, _MOST_SURVEYS + 1):
            snapshots = made(asked.survey)
            # Not before: a misspelt topic would be the pipeline's for good.
            self._ledger.open(asked.survey.facts, asked.survey.cluster_id, self._isolation_level)
            try:
                return self._ledger.append(snapshots, self._revising, asked.known), asked
            except OutdatedSurveyError as error:
                outdated = error
            time.sleep(random.uniform(0, min(_PAUSE_S, 0.01 * tries)))
            asked = self._ask()
        raise outdated

    def _resolve(self, survey: Survey, as_of: AsOf) -> OffsetSnapshot:
        return self._snapshot(survey, as_of, self._boundaries(as_of, survey))

    def _look_up(self, instants: Sequence[int], survey: Survey) -> list[OffsetSnapshot]:
        listed: dict[int, ListedOffsets] = {}
        together = max(1, _LOOK_UPS // max(1, len(survey.extents)))
        for first in range(0, len(instants), together):
            part = map(to_datetime, instants[first : first + together])
            listed |= self._client.look_up(survey, part, isolation_level=self._isolation_level)
        found = []
        few = len(instants) * len(survey.extents) <= _MOST_READ
        for each in instants:
            boundaries = at_instant(survey.extents, listed[each], self._isolation_level)
            if few:
                boundaries = self._tell_markers(boundaries, survey.facts)
            snapshot = self._snapshot(survey, AsOf(AsOfKind.INSTANT, each), boundaries)
            self._refuse_future_records(snapshot)
            found.append(snapshot)
        return found

    def _snapshot(self, survey: Survey, as_of: AsOf, boundaries: Boundaries) -> OffsetSnapshot:
        return OffsetSnapshot(
            as_of=as_of,
            cluster_id=survey.cluster_id,
            isolation_level=self._isolation_level,
            resolved_at_ms=now_ms(),
            topics=survey.facts,
            boundaries=boundaries,
        )

    def _boundaries(self, as_of: AsOf, survey: Survey) -> Boundaries:
        if as_of.group is not None:
            partitions = survey.extents.partitions()
            found = self._client.committed_offsets({as_of.group: partitions}).raise_for_errors()
            # The logs again: what was committed since the survey may lie past their ends of then.
            extents = self._client.log_extents(partitions)
            commits = self._client.mark_cut(found, extents).lookup(as_of.group)
            assert commits is not None
            return at_commits(extents, commits.offsets, as_of.group)
        if as_of.kind is AsOfKind.EARLIEST:
            return at_earliest(survey.extents)
        return at_latest(survey.extents, self._isolation_level)

    def _tell_markers(self, boundaries: Boundaries, facts: Mapping[str, TopicFacts]) -> Boundaries:
        """Note where a look-up matched a transaction marker or an aborted record (E41): brokers stamp markers with
        their own clock, which is the records' only on LogAppendTime topics."""
        matched = [
            Position(each.topic, each.partition, each.offset)
            for each in boundaries.values()
            if each.evidence is Evidence.MATCHED and facts[each.topic].timestamp_type != "LogAppendTime"
        ]
        if not matched:
            return boundaries
        records = self._client.first_records(matched, isolation_level=self._isolation_level)
        markers = {
            TopicPartition(each.topic, each.partition)
            for each in records
            if each.error is None and each.offset != each.position
        }
        return {
            key: replace(each, evidence=Evidence.MATCHED_MARKER) if key in markers else each
            for key, each in boundaries.items()
        }

    def _refuse_future_records(self, snapshot: OffsetSnapshot) -> None:
        remark = future_remark(snapshot)
        if remark and self._policies.on_future_record == "fail":
            raise FutureRecordError(
                f"{remark} on_future_record='warn' goes on: then what comes meanwhile is in a later window. "
                "message.timestamp.after.max.ms makes brokers refuse such records (KIP-937)."
            )

    def _added(self, start: OffsetSnapshot, end: OffsetSnapshot) -> dict[TopicPartition, int]:
        """Where the topics begin that the start doesn't have."""
        at_ms = self._policies.new_topics_from_ms
        partitions = [each for each in end.boundaries if each.topic not in start.topics]
        if at_ms is None or not partitions:
            return {}
        listed = self._client.list_offsets(
            partitions, OffsetSpec.at(to_datetime(at_ms)), isolation_level=self._isolation_level
        )
        offsets = {(each.topic, each.partition): each.offset for each in listed.raise_for_errors()}
        # No record that late: nothing of the topic up to the window's end.
        return {key: found if (found := offsets[key]) is not None else end.boundaries[key].offset for key in partitions}

    def _open_transactions(self, end: OffsetSnapshot) -> list[str]:
        """Who holds the end of a window back (S10)."""
        held = [
            key
            for key, each in end.boundaries.items()
            if each.evidence is Evidence.LOG_END and each.last_stable_offset < each.high_watermark
        ]
        if not held or self._isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return []
        return [held_remark(held, self._client.producers(held))]
