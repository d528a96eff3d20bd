"""The snapshot maker: asks Kafka for offsets, and stores them in the ledger as snapshots."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from airflow_kafka_offsets.client.lookups.instant_lookup import Survey
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    FutureRecordError,
    OffsetsError,
    OutdatedSurveyError,
)
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.snapshot_log import Appended
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.instants import now_ms, to_datetime
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.boundaries import (
    Boundaries,
    at_commits,
    at_earliest,
    at_instant,
    at_latest,
    refuse_future,
)
from airflow_kafka_offsets.offsets.windows.policies import FuturePolicy
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Evidence, OffsetSnapshot, future_warning

Check = Callable[[Mapping[int, OffsetSnapshot]], object]
"""Raises an error for snapshots, by instant, that shouldn't be stored."""

_AT_A_TIME = 48
"""Instants held in memory at a time."""
_LOOK_UPS = 50_000
"""Most instants times partitions that one call looks up; each call has one deadline."""
_MOST_READ = 2_000
"""Most boundaries, over snapshots made together, whose records are read to tell markers from records. Two snapshots of
a thousand partitions are within it; a backfill's aren't."""
_MOST_SURVEYS = 1_000
"""How many times Kafka is asked again, because another task stored a snapshot meanwhile, before giving up."""
_PAUSE_S = 0.5
"""Longest pause before Kafka is asked again: the last of several tasks waits about as long as the others take."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Kafka's answer, and what the ledger held before.

    :param known: number of the newest snapshot that was stored before Kafka was asked: only that and earlier ones can
        prove that a log was truncated or a topic changed.
    :param survey: Kafka's answer.
    """

    known: int
    survey: Survey


class SnapshotMaker:
    """Makes snapshots of a pipeline's topics, each instant once.

    :param ledger: where the snapshots are stored.
    :param topics: the pipeline's topics; or a pattern, evaluated again for each snapshot, that selects topics by their
        whole names, among those that this connection may describe and that aren't internal.
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
        self.isolation_level = isolation_level
        self._on_future_record = on_future_record
        self._together: set[int | None] = set()
        """Numbers of the snapshots made from the newest survey: no log changes between them."""

    def snapshot(self, as_of: AsOf) -> OffsetSnapshot:
        """The stored snapshot as of a moment: resolved now, unless it is an instant that was resolved before.

        :raises InstantError: when the instant lies in the future.
        :raises OffsetsError: when a topic is unknown or a partition can't be asked.
        :raises TopicChangedError: when the ledger was written for another cluster, or a topic was re-created.
        :raises FutureRecordError: when the snapshot is at a record from the future, and the policy is ``fail``.
        """
        if as_of.timestamp_ms is not None:
            (found,) = self.snapshots([as_of.timestamp_ms])
            return found
        (stored,), _ = self._store(
            lambda survey: [self._snapshot(survey, as_of, self._boundaries(as_of, survey))], self._ask()
        )
        return stored

    def snapshots(
        self, instants: Sequence[int], revising: Collection[str] = (), check: Check | None = None
    ) -> Iterator[OffsetSnapshot]:
        """The stored snapshots at some instants, in the given order. Topics and log ends are asked once for all.

        :param instants: Unix milliseconds. Storing is faster in order of time.
        :param revising: windows that are being resolved again, and don't keep their instants from changing.
        :param check: raises an error for snapshots that shouldn't be stored. It is called with those at the next
            instants, stored or not.
        :raises: as :meth:`snapshot`, when iteration reaches the instant.
        """
        refuse_future(max(instants), now_ms())
        asked: _Asked | None = None
        self._together.clear()
        for first in range(0, len(instants), _AT_A_TIME):
            part = instants[first : first + _AT_A_TIME]
            stored = self.ledger.snapshots.at_instants(part)
            missing = [instant for instant in dict.fromkeys(part) if instant not in stored]
            if not missing and not first:
                self.check_ledger()
            if missing:
                before = asked
                look_up = partial(self._look_up, missing)
                found, asked = self._store(look_up, asked or self._ask(), revising, check, stored)
                if asked is not before:
                    self._together.clear()
                # What another task has stored, or what got its old offsets back, comes from another survey.
                self._together |= found.fresh
                stored |= zip(missing, found, strict=True)
            yield from (stored[instant] for instant in part)

    def made_together(self, *snapshots: OffsetSnapshot) -> bool:
        """Whether this maker made the snapshots from one survey, so that no log changes between them."""
        return {snapshot.number for snapshot in snapshots} <= self._together

    def check_ledger(self) -> None:
        """Check that the ledger belongs to this cluster and covers these topics, when it has all snapshots already."""
        self.ledger.create_or_check(self._topics(), self.client.cluster_id(), self.isolation_level)

    def future_record(self, snapshot: OffsetSnapshot) -> FutureRecordError | None:
        """The error for a snapshot at a record from the future; None if there is no such record, or only a warning."""
        warning = future_warning(snapshot)
        if not warning or self._on_future_record != "fail":
            return None
        return FutureRecordError(
            f"{warning} on_future_record='warn' continues: records that arrive in the meantime are then in a "
            "later window. message.timestamp.after.max.ms makes brokers refuse such records (KIP-937)."
        )

    def _topics(self) -> list[str]:
        if not isinstance(self._wanted, re.Pattern):
            return sorted(set(self._wanted))
        found = [topic for topic in self.client.topics() if not topic.internal]
        matching = TopicsMetadata(topic for topic in found if self._wanted.fullmatch(topic.topic))
        if not len(matching):
            raise ConfigurationError(
                f"Of the topics that this connection may describe ({len(found)}), none matches "
                f"{self._wanted.pattern!r}."
            )
        # Leaving out a topic that can't be described right now would make a snapshot of fewer topics.
        return [topic.topic for topic in matching.raise_for_errors()]

    def _ask(self) -> _Asked:
        known = self.ledger.snapshots.last_number()  # before Kafka is asked
        try:
            return _Asked(known, self.client.survey(self._topics()))
        except (ConfigurationError, OffsetsError):
            self.ledger.require_cluster(self.client.cluster_id())  # another cluster would explain the error
            raise

    def _store(
        self,
        made: Callable[[Survey], list[OffsetSnapshot]],
        asked: _Asked,
        revising: Collection[str] = (),
        check: Check | None = None,
        others: Mapping[int, OffsetSnapshot] | None = None,
    ) -> tuple[Appended, _Asked]:
        """Make snapshots from a survey and store them. If another task has stored snapshots of a later survey
        meanwhile, ask Kafka again and repeat. Each repetition means that another task has finished, so all of them do.

        :param check: see :meth:`snapshots`.
        :param others: further snapshots to check, by instant.
        :returns: the stored snapshots, and the answer that they were made from.
        :raises OutdatedSurveyError: when a thousand tasks came in between.
        """
        log = self.ledger.snapshots
        for tries in range(1, _MOST_SURVEYS + 1):
            snapshots = made(asked.survey)
            # Only after the survey: otherwise a misspelt topic would belong to the pipeline for good.
            self.ledger.create_or_check(asked.survey.facts, asked.survey.cluster_id, self.isolation_level)
            try:
                if check is not None:
                    planned = log.planned(snapshots, known=asked.known, revising=revising)
                    check({**(others or {}), **{snapshot.timestamp_ms: snapshot for snapshot in planned}})
                return log.append(snapshots, known=asked.known, revising=revising), asked
            except OutdatedSurveyError as error:
                outdated = error
            time.sleep(random.uniform(0, min(_PAUSE_S, 0.01 * tries)))
            asked = self._ask()
        raise outdated

    def _look_up(self, instants: Sequence[int], survey: Survey) -> list[OffsetSnapshot]:
        listed: dict[int, ListedOffsets] = {}
        together = max(1, _LOOK_UPS // max(1, len(survey.extents)))
        for first in range(0, len(instants), together):
            part = map(to_datetime, instants[first : first + together])
            listed |= self.client.look_up(survey, part, isolation_level=self.isolation_level)
        found = []
        few = len(instants) * len(survey.extents) <= _MOST_READ
        for instant in instants:
            boundaries = at_instant(survey.extents, listed[instant], self.isolation_level)
            if few:
                boundaries = self._tell_markers(boundaries, survey.facts)
            snapshot = self._snapshot(survey, AsOf(AsOfKind.INSTANT, instant), boundaries)
            refused = self.future_record(snapshot)
            if refused is not None:
                raise refused
            found.append(snapshot)
        return found

    def _snapshot(self, survey: Survey, as_of: AsOf, boundaries: Boundaries) -> OffsetSnapshot:
        return OffsetSnapshot(
            as_of=as_of,
            cluster_id=survey.cluster_id,
            isolation_level=self.isolation_level,
            resolved_at_ms=now_ms(),
            topics=survey.facts,
            boundaries=boundaries,
        )

    def _boundaries(self, as_of: AsOf, survey: Survey) -> Boundaries:
        if as_of.group is not None:
            partitions = survey.extents.partitions()
            found = self.client.committed_offsets({as_of.group: partitions}).raise_for_errors()
            # Ask for the log ends again: offsets committed since the survey may be past the old ones.
            extents = self.client.log_extents(partitions)
            commits = self.client.mark_truncated(found, extents).lookup(as_of.group)
            assert commits is not None
            return at_commits(extents, commits.offsets, as_of.group)
        if as_of.kind is AsOfKind.EARLIEST:
            return at_earliest(survey.extents)
        return at_latest(survey.extents, self.isolation_level)

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
        records = self.client.first_records(matched, isolation_level=self.isolation_level)
        markers = {
            TopicPartition.of(record) for record in records if record.error is None and record.offset != record.position
        }
        return {
            key: replace(boundary, evidence=Evidence.MATCHED_MARKER) if key in markers else boundary
            for key, boundary in boundaries.items()
        }
