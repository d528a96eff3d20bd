"""``OffsetsClient``: everything this package asks of Kafka, each as one blocking call.

Every call has one deadline that covers connecting, retries and back-off. An answer has an element for every partition,
group, position or epoch that was asked for; errors of single ones are data on their elements. Each method documents
what it raises; any of them may also raise :class:`.errors.ClusterUnreachableError` (no broker answered) and
:class:`.errors.AuthenticationError`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from airflow_kafka_offsets.client.connection.deadline import Deadline
from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.connection.transport import Transport
from airflow_kafka_offsets.client.lookups.group_lag_lookup import (
    fetch_commits,
    lags_on_committed,
    lags_on_partitions,
    lags_on_topics,
)
from airflow_kafka_offsets.client.lookups.instant_lookup import (
    Survey,
    cluster_id_of,
    fetch_survey,
    look_up,
    look_up_instants,
)
from airflow_kafka_offsets.client.lookups.leader_epochs import fetch_own_epochs, mark_truncated
from airflow_kafka_offsets.client.lookups.record_count import LogCount
from airflow_kafka_offsets.client.lookups.record_search import find_records
from airflow_kafka_offsets.client.requests.describe_configs import fetch_topic_facts
from airflow_kafka_offsets.client.requests.describe_groups import fetch_descriptions
from airflow_kafka_offsets.client.requests.describe_producers import fetch_producers
from airflow_kafka_offsets.client.requests.describe_share_group_offsets import fetch_share_offsets
from airflow_kafka_offsets.client.requests.list_groups import fetch_groups
from airflow_kafka_offsets.client.requests.list_offsets import fetch_extents, fetch_segment_offsets, refuse_segments_of
from airflow_kafka_offsets.client.requests.offset_commit import send_commit
from airflow_kafka_offsets.client.requests.offset_fetch import fetch_zookeeper_offsets, own_topic_ids
from airflow_kafka_offsets.client.requests.offset_for_leader_epoch import fetch_epoch_ends
from airflow_kafka_offsets.client.routing.coordinators import Coordinators
from airflow_kafka_offsets.client.routing.metadata import Leaders, TopicsMetadata, partitions_of
from airflow_kafka_offsets.client.routing.session import Session
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.offsets.answers.groups import (
    CommittedOffsets,
    GroupDescriptions,
    GroupOffsets,
    GroupsOffsets,
    ShareGroupsOffsets,
)
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.answers.logs import (
    EpochEnd,
    LogEpoch,
    LogExtents,
    Producers,
    SegmentsOffsets,
    TopicFacts,
)
from airflow_kafka_offsets.offsets.answers.records import FirstRecords, LogContents, ReadPosition
from airflow_kafka_offsets.offsets.lag import GroupLags
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)


class OffsetsClient:
    """Asks one Kafka cluster for offsets. A context manager. Connects on the first call; use it from one thread at a
    time.

    :param timeout_s: how long each call may take, in seconds; above 0.
    """

    def __init__(self, settings: ClientSettings, *, timeout_s: float = 30.0) -> None:
        if not 0 < timeout_s < inf:
            raise ConfigurationError(f"timeout_s must be more than 0 seconds, not {timeout_s}.")
        self._settings = settings
        self._timeout_s = timeout_s
        self._opened: Session | None = None
        self.throttle_time_ms = 0
        """The longest time that a broker throttled the last call (quotas, KIP-124), in milliseconds; 0 if none did."""

    @property
    def bootstrap_servers(self) -> tuple[str, ...]:
        """Where the first connection goes, as ``host:port``."""
        return self._settings.bootstrap_servers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. The next call reconnects."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.transport.close()

    def _ask(
        self, work: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do a call's work with a new deadline, and what is kept from earlier calls; block until its end."""
        deadline = Deadline.after(self._timeout_s)
        if self._opened is None:
            # Limiting one answer to half of the deadline leaves time to ask the next leader when a broker hangs.
            transport = Transport(self._settings, self._settings.request_timeout_s or self._timeout_s / 2)
            self._opened = Session(transport, deadline, Leaders(transport), Coordinators(transport))
        session = replace(self._opened, deadline=deadline)
        session.transport.throttle_time_ms = 0
        try:
            return session.transport.run(lambda: work(session, *args, **kwargs), deadline)
        finally:
            self.throttle_time_ms = session.transport.throttle_time_ms
            if self.throttle_time_ms:
                log.info("Kafka throttled this client for %s ms: a quota is used up", self.throttle_time_ms)

    def cluster_id(self) -> str:
        """The cluster's id (Metadata, key 3, v2+).

        :raises ClusterError: when the brokers are too old to have a cluster id (before 0.10.1).
        """
        return cluster_id_of(self._ask(Session.describe, []).cluster_id)

    def topics(self, names: Iterable[str] | None = None) -> TopicsMetadata:
        """Topics with their id, partitions and leaders (Metadata, key 3), or each topic's own error.

        :param names: topics to ask for; None for all that may be described. Asking never creates a topic.
        """
        return self._ask(Session.describe, None if names is None else several(names))

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of some topics, in order (Metadata, key 3).

        :raises OffsetsError: naming every topic that is unknown, may not be described or has an impossible name.
        """
        return partitions_of(self.topics(topics).raise_for_errors())

    def topic_facts(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """Id, partition count and settings by topic (Metadata, key 3; DescribeConfigs, key 32, KIP-133).

        Settings that may not be described are None. A topic that doesn't exist is left out.

        :raises OffsetsError: naming the topics with any other error.
        """
        return self._ask(fetch_topic_facts, several(names))

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> ListedOffsets:
        """The offset that satisfies a spec, per partition (ListOffsets, key 2; versions in :mod:`.list_offsets`).

        An unknown topic or partition, a missing leader or permission, and a broker too old for the spec are errors of
        the affected partitions alone. "No record at or after the instant" is an outcome that also says why (E1);
        finding out takes another round for those partitions.

        :param isolation_level: which records are visible (KIP-98): ``latest`` is the last stable offset under
            ``read_committed`` and the high watermark under ``read_uncommitted``.
        """
        return self.list_offsets_by({spec: partitions}, isolation_level=isolation_level)[spec]

    def list_offsets_by(
        self,
        wanted: Mapping[OffsetSpec, Iterable[TopicPartition]],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[OffsetSpec, ListedOffsets]:
        """:meth:`list_offsets` for several specs at once, given the partitions for each."""
        level = IsolationLevel.of(isolation_level)
        asked = {spec: list(partitions) for spec, partitions in wanted.items()}
        for spec in asked:
            if not isinstance(spec, OffsetSpec):
                raise ConfigurationError(
                    f"A spec must be an OffsetSpec such as OffsetSpec.LATEST, not {spec!r}; see OffsetSpec.parse."
                )
        return self._ask(look_up, asked, level)

    def segment_offsets(
        self, partitions: Iterable[TopicPartition], before: OffsetSpec = OffsetSpec.LATEST, *, max_offsets: int = 1000
    ) -> SegmentsOffsets:
        """Where log segments start, newest first (ListOffsets, version 0). UNSUPPORTED_VERSION from Kafka 4.0 on.

        :param before: an instant, for segments written before it; ``latest``, for the log end followed by all segments;
            or ``earliest``.
        :param max_offsets: maximum number of offsets per partition, 1 or more.
        :raises ConfigurationError: for any other spec, or ``max_offsets`` below 1.
        """
        refuse_segments_of(before, max_offsets)
        return self._ask(fetch_segment_offsets, list(partitions), before, max_offsets)

    def log_extents(self, partitions: Iterable[TopicPartition]) -> LogExtents:
        """Log start, high watermark and last stable offset, in one round (three ListOffsets, key 2). An element has all
        of them, or is in error.
        """
        return self._ask(fetch_extents, list(partitions))

    def epoch_ends(self, epochs: Iterable[LogEpoch]) -> dict[LogEpoch, EpochEnd]:
        """Where leader epochs end in their logs (OffsetForLeaderEpoch, key 23, KIP-101, KIP-320).

        UNSUPPORTED_VERSION from brokers before 2.1. If an epoch ends before an offset that was read under it, the log
        was truncated there, even if it has grown past that since.

        :param epochs: any number per partition, each 0 or more.
        """
        wanted = {LogEpoch(*epoch) for epoch in epochs}
        if any(epoch.leader_epoch < 0 for epoch in wanted):
            raise ConfigurationError("Leader epochs must be 0 or more; leave out a partition without one.")
        return self._ask(fetch_epoch_ends, wanted)

    def survey(self, topics: Iterable[str]) -> Survey:
        """Everything a snapshot of some topics is made from: cluster id, facts, and log extents, in two rounds.

        For snapshots at instants, call :meth:`look_up` next.

        :raises OffsetsError: naming every topic that is unknown or may not be described.
        :raises ClusterError: when the brokers are too old to have a cluster id.
        """
        return self._ask(fetch_survey, several(topics))

    def look_up(
        self,
        survey: Survey,
        instants: Iterable[datetime | int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, ListedOffsets]:
        """The first record at or after each of several instants, on all partitions of a survey (ListOffsets, key 2).

        Takes one round, and one more if a partition has no record at or after an instant. A partition whose extent is
        in error isn't asked, and its elements have that error. All instants share one deadline, so split a long
        backfill into several calls with the same survey.

        :param survey: the answer of an earlier :meth:`survey`. "No record at or after the instant" stands for its log
            ends (E2).
        :param instants: aware datetimes, or plausible Unix milliseconds; the result's keys are milliseconds.
        :raises InstantError: when one isn't an instant (:meth:`.OffsetSpec.at`).
        """
        specs, level = list(map(OffsetSpec.at, instants)), IsolationLevel.of(isolation_level)
        found = self._ask(look_up_instants, survey.extents, specs, level)
        return {spec.timestamp_ms: listed for spec, listed in found.items() if spec.timestamp_ms is not None}

    def producers(self, partitions: Iterable[TopicPartition]) -> Producers:
        """Producers that write to each partition, and their open transactions (DescribeProducers, key 61, KIP-664).

        UNSUPPORTED_VERSION from brokers before 2.8. Needs the ACL Read on the topic.
        """
        return self._ask(fetch_producers, list(partitions))

    def first_records(
        self,
        positions: Iterable[ReadPosition],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        at_or_after_ms: int | None = None,
    ) -> FirstRecords:
        """The first visible record at or after each position, read from the log (Fetch, key 1). Needs the ACL Read.

        Skips transaction markers, aborted records and gaps left by compaction (E11, E12), even if a timestamp look-up
        matches them (E41). A position below the log start means the log start. Gaps are remembered, so that a poll
        doesn't read the same tail again, until the topic is re-created, which is noticed within a minute.

        :param isolation_level: which records are visible, and where the log ends (E13).
        :param at_or_after_ms: only records with this timestamp or a later one, Unix milliseconds; None for any record.
        """
        level, asked = IsolationLevel.of(isolation_level), [ReadPosition(*position) for position in positions]
        if any(position.offset < 0 for position in asked):
            raise ConfigurationError("Positions to look for records from must have offsets of 0 or more.")
        return self._ask(find_records, asked, level, at_or_after_ms)

    def log_contents(
        self, ranges: Iterable[LogRange], *, isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> LogContents:
        """Counts of records, aborted records, markers, and offsets without any of these, in ranges of logs (Fetch,
        key 1). Needs the ACL Read.

        A range that couldn't be counted to its end is in error. Reads all bytes of the ranges, however long that takes:
        it works in rounds, each with a deadline of its own, while they make progress.
        """
        count = LogCount(ranges, IsolationLevel.of(isolation_level))
        while not count.is_over:
            self._ask(count.go_on)
        return count.contents()

    def mark_truncated(self, commits: GroupsOffsets, extents: LogExtents) -> GroupsOffsets:
        """The commits, with ``truncated_at`` if an unclean election truncated the log below one (OffsetForLeaderEpoch,
        key 23).

        :param commits: the answer of :meth:`committed_offsets`.
        :param extents: the logs' extents, asked after the commits.
        """
        return self._ask(mark_truncated, commits, extents)

    def committed_offsets(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None],
        *,
        topic_ids: Mapping[str, str] | None = None,
    ) -> GroupsOffsets:
        """Committed offsets of groups (FindCoordinator, key 10; OffsetFetch, key 9, KIP-709 and KIP-447).

        When asked for all commits of a group, Kafka silently leaves out topics that may not be described (E32); name
        the partitions to get an error instead. Waits for commits that are part of an open transaction (E31). A group
        without commits is described: it is in error if it is of a kind that commits nothing, such as a share group.

        :param groups: partitions by group id; None for all commits of the group.
        :param topic_ids: expected ids by topic name. If another topic has the name now, brokers from 4.1 on answer
            UNKNOWN_TOPIC_ID; older ones can't tell.
        """
        wanted = {group: None if partitions is None else list(partitions) for group, partitions in groups.items()}
        return self._ask(fetch_commits, wanted, own_topic_ids(topic_ids))

    def zookeeper_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> GroupOffsets:
        """A group's offsets committed to ZooKeeper (OffsetFetch, version 0, which Kafka 4.0 dropped)."""
        return self._ask(fetch_zookeeper_offsets, group, list(partitions))

    def group_lags(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition]],
        *,
        topics: Iterable[str] | None = None,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> GroupLags:
        """Lag of groups, in offsets per partition. Takes three rounds for any number of groups, and a fourth the first
        time it measures a group without given topics.

        Covers all partitions of the topics, committed or not (E18). A partition that no longer exists has its own error
        (E25). A group that doesn't exist is ``unknown`` (E19). A group that exists but has no commits is measured from
        the log starts of ``topics``, or of the topics that its members read; if there are neither, it is in error
        (``NO_COMMIT``). A share group's lag is Kafka's own count (:meth:`share_group_offsets`), up to the high
        watermark at any isolation level.

        :param groups: group ids; or partitions by group id, to measure each group on exactly those. A partition or
            topic that is unknown or may not be described then has its own error.
        :param topics: measure on these topics alone; None for every topic that the group has commits on or reads.
        :param isolation_level: which end counts (E13). Both are part of the answer.
        :raises OffsetsError: naming those of ``topics`` that are unknown or may not be described.
        """
        level = IsolationLevel.of(isolation_level)
        if isinstance(groups, Mapping):
            if topics is not None:
                raise ConfigurationError("Give the groups' partitions or topics= to measure the lag on, not both.")
            partitions = {group: list(dict.fromkeys(partitions)) for group, partitions in groups.items()}
            return self._ask(lags_on_partitions, partitions, level)
        wanted = several(groups)
        if topics is None:
            return self._ask(lags_on_committed, wanted, level)
        return self._ask(lags_on_topics, wanted, several(topics), level)

    def share_group_offsets(self, groups: Mapping[str, Iterable[TopicPartition] | None]) -> ShareGroupsOffsets:
        """How far share groups have come (DescribeShareGroupOffsets, key 90, KIP-932 and KIP-1226).

        UNSUPPORTED_VERSION from brokers before 4.2, which don't count the lag.

        :param groups: partitions by group id; None for all on which the group has members or had some. Topics that may
            not be described are then left out.
        """
        wanted = {group: None if partitions is None else list(partitions) for group, partitions in groups.items()}
        return self._ask(fetch_share_offsets, wanted)

    def describe_groups(self, groups: Iterable[str]) -> GroupDescriptions:
        """Kind, state and members of groups (DescribeGroups, key 15, and a request for each newer kind: versions in
        :mod:`.describe_groups`)."""
        return self._ask(fetch_descriptions, several(groups))

    def all_groups(self) -> list[str]:
        """Ids of all groups that read topics or commit offsets and may be described, in order (ListGroups, key 16).
        Those of Kafka Connect's workers and the like are left out.

        :raises OffsetsError: naming the brokers that couldn't list their groups, without which the list would be
            incomplete.
        """
        return self._ask(fetch_groups)

    def own_epochs(self, offsets: CommittedOffsets) -> CommittedOffsets:
        """Offsets to commit, each with its own leader epoch (OffsetForLeaderEpoch, key 23): inside the log that of its
        record, at the log's end that of the leader.

        Without one if nobody can tell, such as brokers before 2.1. An offset whose leader can't be asked for now is in
        error.

        :param offsets: with the epoch that each was seen under, in one answer with it: the log's, the record's, or
            that of a snapshot's boundary; None if unknown.
        """
        return self._ask(fetch_own_epochs, offsets)

    def commit_offsets(
        self, group: str, offsets: CommittedOffsets, *, topic_ids: Mapping[str, str] | None = None
    ) -> CommittedOffsets:
        """Commit a group's offsets (OffsetCommit, key 8); creates the group if it doesn't exist.

        An element has the offset as committed, or Kafka's error.

        :param offsets: with their own leader epochs, or none (:meth:`own_epochs`).
        :param topic_ids: as for :meth:`committed_offsets`.
        :raises CommitRefusedError: when the group has active members.
        :raises ConfigurationError: when an element has no offset.
        """
        if not len(offsets):
            return offsets
        return self._ask(send_commit, group, offsets, own_topic_ids(topic_ids))


def several(names: Iterable[str]) -> list[str]:
    """Names without duplicates, in order.

    :raises ConfigurationError: for a single string, which is a sequence of letters.
    """
    if isinstance(names, str):
        raise ConfigurationError(f"Expected a list of names, not the single name {names!r}.")
    return list(dict.fromkeys(names))
