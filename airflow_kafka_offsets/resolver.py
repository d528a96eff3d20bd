"""The resolver: asks Kafka, remembers in the ledger. Where client and ledger meet; below the Airflow classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.surveys import Survey
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets import preflight, resolving
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.remarks import window_remarks
from airflow_kafka_offsets.offsets.resolving import Boundaries
from airflow_kafka_offsets.offsets.snapshots import AsOf, AsOfKind, OffsetSnapshot
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows import window_id


@dataclass(frozen=True, slots=True)
class ResolvedWindow:
    """A pinned window, and what a person should know of it.

    :param pinned: the stored manifest.
    :param remarks: what may be unexpected, a line each; empty for an ordinary window.
    """

    pinned: PinnedManifest
    remarks: tuple[str, ...]


class Resolver:
    """Resolves each instant of a pipeline once, and every window from two stored snapshots.

    :param client: the cluster to ask.
    :param ledger: where the answers are kept.
    :param topics: the pipeline's topics.
    :param isolation_level: which records count as visible.
    """

    def __init__(
        self, client: OffsetsClient, ledger: Ledger, topics: Sequence[str], isolation_level: IsolationLevel
    ) -> None:
        if not topics:
            raise ConfigurationError("A pipeline needs at least one topic; topics is empty.")
        self._client = client
        self._ledger = ledger
        self._topics = sorted(set(topics))
        self._isolation_level = isolation_level

    @cached_property
    def _cluster_id(self) -> str:
        return self._client.cluster_id()

    def snapshot(self, as_of: AsOf) -> OffsetSnapshot:
        """The stored snapshot as of something: resolved now, unless it is an instant that was resolved before.

        :raises InstantError: when the instant lies in the future.
        :raises OffsetsError: when a topic is unknown or a partition can't be asked.
        :raises TopicChangedError: when the ledger was written by another cluster or topic.
        """
        if as_of.timestamp_ms is not None:
            resolving.refuse_future(as_of.timestamp_ms, now_ms())
        self._ledger.open(self._topics, self._cluster_id, self._isolation_level)
        if as_of.timestamp_ms is not None:
            stored = self._ledger.snapshots.at_instant(as_of.timestamp_ms)
            if stored is not None:
                return stored
        return self._ledger.snapshots.append(self._resolve(as_of))

    def window(self, start_ms: int, end_ms: int) -> ResolvedWindow:
        """The pinned window between two instants.

        :raises IntervalError: when the end isn't after the start.
        :raises DataLossError: when records of the window were gone already when its end was resolved.
        """
        window_id(start_ms, end_ms)
        start = self.snapshot(AsOf(AsOfKind.INSTANT, start_ms))
        end = self.snapshot(AsOf(AsOfKind.INSTANT, end_ms))
        pinned = self._ledger.pin_window(start, end)
        return ResolvedWindow(pinned, tuple(window_remarks(end, pinned.manifest.ranges)))

    def _resolve(self, as_of: AsOf) -> OffsetSnapshot:
        survey = self._client.survey(self._topics, as_of.timestamp_ms, isolation_level=self._isolation_level)
        return OffsetSnapshot(
            as_of=as_of,
            cluster_id=survey.cluster_id,
            isolation_level=self._isolation_level,
            resolved_at_ms=now_ms(),
            topics=survey.facts,
            boundaries=self._boundaries(as_of, survey),
        )

    def _boundaries(self, as_of: AsOf, survey: Survey) -> Boundaries:
        if as_of.group is not None:
            partitions = survey.extents.partitions()
            commits = self._client.committed_offsets({as_of.group: partitions}).raise_for_errors().lookup(as_of.group)
            assert commits is not None
            # The logs again: what was committed since the survey may lie past their ends of then.
            return resolving.at_commits(self._client.log_extents(partitions), commits.offsets)
        if as_of.timestamp_ms is not None:
            return resolving.at_instant(survey.extents, survey.listed, self._isolation_level)
        if as_of.kind is AsOfKind.EARLIEST:
            return resolving.at_earliest(survey.extents)
        return resolving.at_latest(survey.extents, self._isolation_level)


def check_readable(client: OffsetsClient, manifest: Manifest) -> None:
    """Pre-flight: refuse a pinned window that can no longer be read exactly, before Spark starts.

    :raises TopicChangedError: another cluster, a topic that is missing or was re-created.
    :raises DataLossError: records of the window are gone; names partitions and exact counts.
    :raises LogTruncatedError: the window reaches past the end of the log.
    """
    preflight.check_topics(manifest, client.cluster_id(), client.topic_facts(sorted(manifest.topics)))
    partitions = [TopicPartition(each.topic, each.partition) for each in manifest.non_empty()]
    preflight.check_ranges(manifest, client.log_extents(partitions))
