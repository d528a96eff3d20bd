"""The resolver: asks Kafka for offsets, and has the ledger pin windows between them.

Kafka is asked first, and without any lock: what it said is stored by one commit, or, if somebody has stored something
newer meanwhile that contradicts it, Kafka is asked again.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_kafka_offsets.arguments import FuturePolicy
from airflow_kafka_offsets.client.lookups.instant_lookup import Survey
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    FutureRecordError,
    OffsetsError,
    OutdatedSurveyError,
    shorten,
)
from airflow_kafka_offsets.ledger import decisions
from airflow_kafka_offsets.ledger.decisions import ResolvedOffsets
from airflow_kafka_offsets.ledger.entries import Entries, Snapshotted
from airflow_kafka_offsets.ledger.files import snapshot_file
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts, holder_text
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.instants import now_ms, to_datetime
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.boundaries import (
    Boundaries,
    at_commits,
    at_earliest,
    at_instant,
    at_latest,
    refuse_dropped_topics,
    refuse_future,
)
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import window_warnings
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Evidence, OffsetSnapshot, future_warning
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.pipelines.log_changes import refuse_rewritten

_LOOK_UPS = 50_000
"""Most instants times partitions that one call looks up; each call has one deadline."""
_MOST_READ = 2_000
"""Most boundaries, over snapshots made together, whose records are read to tell markers from records. Two snapshots of
a thousand partitions are within it; a backfill's aren't."""
_LONGEST_PAUSE_S = 0.5
_MOST_ALONE = 20
"""How often Kafka is asked again though no other task has stored anything meanwhile."""


@dataclass(frozen=True, slots=True)
class ResolvedWindow:
    """A pinned window, with warnings for the user.

    :param pinned: the stored manifest.
    :param warnings: what may be unexpected, one line each; empty for an ordinary window.
    """

    pinned: PinnedManifest
    warnings: tuple[str, ...]


class Resolver:
    """Resolves instants and windows of a pipeline's topics, each once.

    :param topics: the pipeline's topics; or a pattern, evaluated again each time, that selects topics by their whole
        names, among those that this connection may describe and that aren't internal.
    :param isolation_level: which records count as visible.
    :param on_future_record: what to do about a record from the future, ``fail`` or ``warn``. It leaves all windows up
        to its timestamp empty on its partition, and records that arrive meanwhile go into the window of that timestamp.
    """

    def __init__(
        self,
        client: OffsetsClient,
        ledger: Ledger,
        topics: Sequence[str] | re.Pattern[str],
        isolation_level: IsolationLevel,
        on_future_record: FuturePolicy = "fail",
    ) -> None:
        if not topics:
            raise ConfigurationError("A pipeline needs at least one topic; topics is empty.")
        self.client = client
        self.ledger = ledger
        self._wanted = topics
        self._isolation_level = isolation_level
        self._on_future_record = on_future_record

    def windows(self, windows: Collection[tuple[int, int]]) -> list[ResolvedWindow]:
        """The pinned windows between instants, all by one commit.

        :param windows: their starts and ends, Unix milliseconds.
        :raises InstantError: when one lies in the future, and no snapshot is stored there.
        :raises OffsetsError: when a topic is unknown or a partition can't be asked.
        :raises FutureRecordError: when a window ends at a record from the future, and the policy is ``fail``.
        :raises: as :func:`.decisions.pin`.
        """
        instants = sorted({at_ms for window in windows for at_ms in window})
        names = [window_id(*window) for window in sorted(windows)]

        def pin(state: State) -> ResolvedOffsets | None:
            if all(name in state.windows for name in names):
                self._check()
                return None
            for start_ms, end_ms in windows:
                if window_id(start_ms, end_ms) not in state.windows and end_ms in state.snapshots:
                    self._refuse_future_record(self.ledger.contents.snapshot(state.snapshots[end_ms].offsets))
            missing = [at_ms for at_ms in instants if at_ms not in state.snapshots]
            if missing:
                refuse_future(missing[-1], now_ms())
            return self._instants(missing, state)

        self._change(pin, lambda state, answers: decisions.pin(state, windows, answers, self.ledger.contents))
        return [self._resolved(name) for name in names]

    def increment(self, by: str, since: AsOf) -> ResolvedWindow:
        """The window from the end of the last one to the current visible ends of the logs. A run always gets the same
        increment; runs in parallel get consecutive ones.

        :param by: the run.
        :param since: where the pipeline begins, if it hasn't begun yet.
        :raises: as :meth:`windows`.
        """

        def pin(state: State) -> ResolvedOffsets | None:
            if state.increment(by) is not None:
                self._check()
                return None
            survey = self._survey(state)
            latest = self._taken(AsOf(AsOfKind.LATEST), survey)
            begun = decisions.increment_start_ms(state) is not None
            origin = None if begun else self._taken(since, survey)
            return ResolvedOffsets(state.number, now_ms(), latest=latest, origin=origin)

        self._change(pin, lambda state, answers: decisions.pin_increment(state, by, answers, self.ledger.contents))
        window = self.ledger.state.increment(by)
        assert window is not None, "it was committed"
        return self._resolved(window.name)

    def snapshot(self, as_of: AsOf) -> Snapshotted:
        """The stored snapshot as of an instant or of latest; one of latest is a new one each time.

        :raises: as :meth:`windows`.
        """
        if as_of.timestamp_ms is not None:
            refuse_future(as_of.timestamp_ms, now_ms())

        def place(state: State) -> ResolvedOffsets | None:
            if as_of.timestamp_ms in state.snapshots:
                self._check()
                return None
            if as_of.timestamp_ms is not None:
                return self._instants([as_of.timestamp_ms], state)
            latest = self._taken(as_of, self._survey(state))
            return ResolvedOffsets(state.number, now_ms(), latest=latest)

        self._change(place, lambda state, answers: decisions.place(state, answers, self.ledger.contents))
        state = self.ledger.state
        stored = state.newest_snapshot if as_of.timestamp_ms is None else state.snapshots[as_of.timestamp_ms]
        assert stored is not None, "it was committed"
        return stored

    def target(self, as_of: AsOf) -> str:
        """Store offsets that have no place in time, as of earliest or of a group's commits: no window starts or ends
        there. Returns the hash that names their file.

        :raises OffsetsError: when a topic is unknown or a partition can't be asked.
        """
        contents = self.ledger.contents
        offsets = contents.add_snapshot(self._taken(as_of, self._survey(self.ledger.read())))
        contents.store_files([snapshot_file(offsets)])
        return offsets

    def _change(
        self, ask: Callable[[State], ResolvedOffsets | None], decide: Callable[[State, ResolvedOffsets], Entries]
    ) -> None:
        """Ask Kafka and commit what it said; ask again if somebody knows more by then. Each time somebody has got
        further, so all do; if nobody has, a broker's own answer is outdated, which may take a while."""
        tries, alone, commit = 0, 0, -1
        while (answers := ask(self.ledger.read())) is not None:
            try:
                self.ledger.change(lambda state, answers=answers: decide(state, answers))  # type: ignore[misc]
                return
            except OutdatedSurveyError:
                tries += 1
                alone += answers.commit == commit
                if alone > _MOST_ALONE:
                    raise
                commit = answers.commit
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE_S, 0.01 * tries)))

    def _check(self) -> None:
        """Check that the ledger belongs to this cluster, when it has all that is asked for already."""
        self.ledger.create(self._topics(), self.client.cluster_id(), self._isolation_level)

    def _resolved(self, name: str) -> ResolvedWindow:
        pinned = self.ledger.pinned(self.ledger.window(name))
        end = self.ledger.offsets_at(pinned.manifest.end_ms)
        return ResolvedWindow(pinned, (*window_warnings(end, pinned.manifest.ranges), *self._open_transactions(end)))

    def _survey(self, state: State) -> Survey:
        try:
            survey = self.client.survey(self._topics())
        except (ConfigurationError, OffsetsError):
            if state.created is not None:  # another cluster would explain the error
                self.ledger.create(state.created.topics, self.client.cluster_id(), self._isolation_level)
            raise
        # Only after the survey: otherwise a misspelt topic would belong to the pipeline for good.
        self.ledger.create(survey.facts, survey.cluster_id, self._isolation_level)
        newest = state.newest_snapshot
        if newest is not None:
            # However new it is: records that have replaced those before it would be in no window.
            stored = self.ledger.offsets_now(newest.at_ms)
            refuse_dropped_topics(stored, survey.facts)
            check_topics(stored, survey.cluster_id, survey.facts, all_there=False)
            refuse_rewritten(self.client, stored)
        return survey

    def _instants(self, instants: Sequence[int], state: State) -> ResolvedOffsets:
        survey, add = self._survey(state), self.ledger.contents.add_snapshot
        offsets = {snapshot.timestamp_ms: add(snapshot) for snapshot in self._look_up(instants, survey)}
        return ResolvedOffsets(state.number, now_ms(), offsets)

    def _look_up(self, instants: Sequence[int], survey: Survey) -> Iterator[OffsetSnapshot]:
        """The snapshots as of some instants, a few at a time: those of a backfill may be more than memory holds."""
        few = len(instants) * len(survey.extents) <= _MOST_READ
        together = max(1, _LOOK_UPS // max(1, len(survey.extents)))
        for first in range(0, len(instants), together):
            part = instants[first : first + together]
            listed = self.client.look_up(survey, map(to_datetime, part), isolation_level=self._isolation_level)
            for instant in part:
                boundaries = at_instant(survey.extents, listed[instant], self._isolation_level)
                if few:
                    boundaries = self._tell_markers(boundaries, survey.facts)
                snapshot = self._made(survey, AsOf(AsOfKind.INSTANT, instant), boundaries)
                self._refuse_future_record(snapshot)
                yield snapshot

    def _topics(self) -> list[str]:
        if not isinstance(self._wanted, re.Pattern):
            return sorted(set(self._wanted))
        topics = [topic for topic in self.client.topics() if not topic.internal]
        matching = TopicsMetadata(topic for topic in topics if self._wanted.fullmatch(topic.topic))
        if not len(matching):
            raise ConfigurationError(
                f"Of the topics that this connection may describe ({len(topics)}), none matches "
                f"{self._wanted.pattern!r}."
            )
        # Leaving out a topic that can't be described right now would make a snapshot of fewer topics.
        return [topic.topic for topic in matching.raise_for_errors()]

    def _made(self, survey: Survey, as_of: AsOf, boundaries: Boundaries) -> OffsetSnapshot:
        return OffsetSnapshot(
            as_of=as_of,
            cluster_id=survey.cluster_id,
            isolation_level=self._isolation_level,
            resolved_at_ms=now_ms(),
            topics=survey.facts,
            boundaries=boundaries,
        )

    def _taken(self, as_of: AsOf, survey: Survey) -> OffsetSnapshot:
        if as_of.timestamp_ms is not None:
            refuse_future(as_of.timestamp_ms, now_ms())
            (snapshot,) = self._look_up([as_of.timestamp_ms], survey)
            return snapshot
        if as_of.group is not None:
            boundaries = self._commits(as_of.group, survey)
        elif as_of.kind is AsOfKind.EARLIEST:
            boundaries = at_earliest(survey.extents)
        else:
            boundaries = at_latest(survey.extents, self._isolation_level)
        return self._made(survey, as_of, boundaries)

    def _commits(self, group: str, survey: Survey) -> Boundaries:
        partitions = survey.extents.partitions()
        committed = self.client.committed_offsets({group: partitions}).raise_for_errors()
        # Ask for the log ends again: offsets committed since the survey may be past the old ones.
        extents = self.client.log_extents(partitions)
        commits = self.client.mark_truncated(committed, extents).lookup(group)
        assert commits is not None
        return at_commits(extents, commits.offsets, group)

    def _refuse_future_record(self, snapshot: OffsetSnapshot) -> None:
        """Refuse a snapshot at a record from the future, unless the user goes on with a warning."""
        warning = future_warning(snapshot)
        if warning and self._on_future_record == "fail":
            raise FutureRecordError(
                f"{warning} on_future_record='warn' continues: records that arrive in the meantime are then in a "
                "later window. message.timestamp.after.max.ms makes brokers refuse such records (KIP-937)."
            )

    def _tell_markers(self, boundaries: Boundaries, facts: Mapping[str, TopicFacts]) -> Boundaries:
        """Mark the boundaries whose look-up matched a transaction marker or an aborted record (E41). Brokers stamp
        markers with their own clock, which stamps the records only on LogAppendTime topics."""
        matched = [
            ReadPosition(boundary.topic, boundary.partition, boundary.offset)
            for boundary in boundaries.values()
            if boundary.evidence is Evidence.MATCHED and facts[boundary.topic].timestamp_type != "LogAppendTime"
        ]
        if not matched:
            return boundaries
        records = self.client.first_records(matched, isolation_level=self._isolation_level)
        markers = {
            TopicPartition.of(record) for record in records if record.error is None and record.offset != record.position
        }
        return {
            key: replace(boundary, evidence=Evidence.MATCHED_MARKER) if key in markers else boundary
            for key, boundary in boundaries.items()
        }

    def _open_transactions(self, end: OffsetSnapshot) -> list[str]:
        """The open transactions that hold back the end of a window (S10)."""
        held_back = [
            key
            for key, boundary in end.boundaries.items()
            if boundary.evidence is Evidence.LOG_END and boundary.last_stable_offset < boundary.high_watermark
        ]
        if not held_back or self._isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return []
        producers = self.client.producers(held_back)
        names = shorten(holder_text(partition, producers) for partition in held_back)
        words = f"The window ends where an open transaction begins: {names}."
        return [f"{words} Records after that will be in a later window."]
