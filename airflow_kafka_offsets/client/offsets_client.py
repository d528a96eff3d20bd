"""``OffsetsClient``: the questions that this package asks of Kafka, each as one blocking call.

Every call has one deadline for everything (connecting, retries, back-off). Failures of single partitions and groups are
data on their elements; what is raised is said at each method, and beside that always
:class:`~..errors.ClusterUnreachableError` (no broker answered) and :class:`~..errors.AuthenticationError`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Self, TypeVar

from airflow_kafka_offsets.client.coordinators import Coordinators
from airflow_kafka_offsets.client.deadline import Deadline
from airflow_kafka_offsets.client.group_lags import GroupLagRounds, partitions_of
from airflow_kafka_offsets.client.groups import fetch_groups
from airflow_kafka_offsets.client.leaders import Leaders
from airflow_kafka_offsets.client.list_offsets import fetch_list_offsets
from airflow_kafka_offsets.client.log_extents import fetch_extents
from airflow_kafka_offsets.client.metadata import TopicsMetadata
from airflow_kafka_offsets.client.offset_commit import refuse_active_group, send_commit
from airflow_kafka_offsets.client.offset_fetch import fetch_offsets
from airflow_kafka_offsets.client.response_errors import UNKNOWN_TOPIC_OR_PARTITION
from airflow_kafka_offsets.client.settings import ClientSettings
from airflow_kafka_offsets.client.topic_configs import fetch_topic_configs, topic_facts
from airflow_kafka_offsets.client.transport import Transport
from airflow_kafka_offsets.errors import ClusterError, ConfigurationError, OffsetsError
from airflow_kafka_offsets.offsets.committed import CommittedOffsets, GroupsOffsets
from airflow_kafka_offsets.offsets.extents import LogExtents
from airflow_kafka_offsets.offsets.lag import GroupLags
from airflow_kafka_offsets.offsets.listed import ListedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.snapshots import TopicFacts
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

T = TypeVar("T")


class _Session:
    """What lives from the first request to ``close``: connections, and what was learnt through them."""

    def __init__(self, settings: ClientSettings, timeout_s: float) -> None:
        # Half of the deadline for one answer leaves time to ask the next leader when a broker hangs.
        self.transport = Transport(settings, settings.request_timeout_s or timeout_s / 2)
        self.leaders = Leaders(self.transport)
        self.coordinators = Coordinators(self.transport)
        self.lag_rounds = GroupLagRounds(self.transport, self.leaders, self.coordinators)


class OffsetsClient:
    """Asks one Kafka cluster for offsets. A context manager; connects on the first call, from any one thread at a time.

    :param settings: how to reach the cluster.
    :param timeout_s: deadline of each call, in seconds.
    """

    def __init__(self, settings: ClientSettings, *, timeout_s: float = 30.0) -> None:
        if timeout_s <= 0:
            raise ConfigurationError(f"timeout_s is {timeout_s}; a call needs a deadline above 0 seconds.")
        self._settings = settings
        self._timeout_s = timeout_s
        self._session: _Session | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. The next call opens them anew."""
        session, self._session = self._session, None
        if session is not None:
            session.transport.close()

    def _ask(self, work: Callable[[_Session, Deadline], Coroutine[Any, Any, T]]) -> T:
        if self._session is None:
            self._session = _Session(self._settings, self._timeout_s)
        session, deadline = self._session, Deadline.after(self._timeout_s)
        return session.transport.run(lambda: work(session, deadline), deadline)

    def cluster_id(self) -> str:
        """The cluster's id (Metadata, key 3, v2+).

        :raises ClusterError: when the brokers are too old to have one (before 0.10.1).
        """
        cluster_id = self._ask(lambda session, deadline: session.leaders.describe([], deadline)).cluster_id
        if cluster_id is None:
            raise ClusterError("The cluster has no id: its brokers are older than Kafka 0.10.1.")
        return cluster_id

    def topics(self, names: Iterable[str] | None = None) -> TopicsMetadata:
        """Topics with their id, partitions and leaders (Metadata, key 3), or each topic's own error.

        :param names: topics to ask for; None for all that may be described. Topics are never created by asking.
        """
        wanted = None if names is None else list(names)
        return self._ask(lambda session, deadline: session.leaders.describe(wanted, deadline))

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of some topics, in order (Metadata, key 3).

        :raises OffsetsError: naming every topic that is unknown, may not be described or has an impossible name.
        """
        return partitions_of(self.topics(topics).raise_for_errors())

    def topic_facts(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """Id, partition count and settings by topic (Metadata, key 3; DescribeConfigs, key 32, KIP-133).

        Settings are None where they may not be described. A topic that doesn't exist is absent.

        :raises OffsetsError: naming the topics that are in error for another reason.
        """
        wanted = list(names)

        async def work(session: _Session, deadline: Deadline) -> dict[str, TopicFacts]:
            metadata = await session.leaders.describe(wanted, deadline)
            failures = [(f"topic {each.topic}", each.error) for each in metadata if each.error is not None]
            if any(error.code != UNKNOWN_TOPIC_OR_PARTITION for _, error in failures):
                raise OffsetsError(
                    "Describing topics", [each for each in failures if each[1].code != UNKNOWN_TOPIC_OR_PARTITION]
                )
            found = metadata.ok()
            configs = await fetch_topic_configs(session.transport, [each.topic for each in found], deadline)
            return {each.topic: topic_facts(each, configs.get(each.topic, {})) for each in found}

        return self._ask(work)

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> ListedOffsets:
        """The offset that satisfies a spec, per partition (ListOffsets, key 2; versions in :mod:`.list_offsets`).

        An element for every partition. "No such record" is an outcome; an unknown topic or partition, a missing leader
        or permission, and a spec that a broker is too old for are errors of their partitions alone.

        :param isolation_level: which records are visible (KIP-98): latest is the last stable offset under
            ``read_committed`` and the high watermark under ``read_uncommitted``.
        """
        wanted = list(partitions)
        return self._ask(
            lambda session, deadline: fetch_list_offsets(
                session.transport, session.leaders, wanted, spec, isolation_level, deadline
            )
        )

    def log_extents(self, partitions: Iterable[TopicPartition]) -> LogExtents:
        """Log start, high watermark and last stable offset per partition, in one round (three ListOffsets, key 2).

        An element for every partition: complete, or in error.
        """
        wanted = list(partitions)
        return self._ask(lambda session, deadline: fetch_extents(session.transport, session.leaders, wanted, deadline))

    def committed_offsets(self, groups: Mapping[str, Iterable[TopicPartition] | None]) -> GroupsOffsets:
        """What groups have committed (FindCoordinator, key 10; OffsetFetch, key 9, KIP-709 and KIP-447).

        An element for every group. Kafka leaves topics that may not be described out of "everything that the group has
        committed" without a word (E32); name the partitions to get an error instead.

        :param groups: partitions by group id; None for everything that the group has committed.
        """
        wanted = {group: None if each is None else list(each) for group, each in groups.items()}
        return self._ask(
            lambda session, deadline: fetch_offsets(session.transport, session.coordinators, wanted, deadline)
        )

    def group_lags(
        self,
        groups: Iterable[str],
        *,
        topics: Iterable[str] | None = None,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> GroupLags:
        """How far groups are behind, in offsets per partition, in three rounds for any number of groups.

        Covers all partitions of the topics in question, committed or not (E18). A partition that no longer exists is an
        error of its own (E25). A group that doesn't exist is ``unknown`` (E19); one that exists and has committed
        nothing counts from the log starts of ``topics``, and is in error (``NO_COMMIT``) when no topics are named.

        :param topics: measure on these topics alone; None for every topic that the group has commits on.
        :param isolation_level: which end counts (E13).
        :raises OffsetsError: naming those of ``topics`` that are unknown or may not be described.
        """
        wanted, named = list(dict.fromkeys(groups)), None if topics is None else list(topics)
        if named is None:
            return self._ask(
                lambda session, deadline: session.lag_rounds.on_committed(wanted, isolation_level, deadline)
            )
        return self._ask(
            lambda session, deadline: session.lag_rounds.on_topics(wanted, named, isolation_level, deadline)
        )

    def all_groups(self) -> list[str]:
        """Ids of all consumer groups that may be described, classic and KIP-848, in order (ListGroups, key 16).

        :raises OffsetsError: naming the brokers that could not list theirs: a list without them would be short.
        """

        async def work(session: _Session, deadline: Deadline) -> list[str]:
            await session.leaders.describe([], deadline)
            listed = await fetch_groups(session.transport, session.transport.brokers(), deadline)
            failures = [(f"broker {broker}", each.error) for broker, each in listed.items() if each.error is not None]
            if failures:
                raise OffsetsError("Listing groups", failures)
            return sorted({group.group for each in listed.values() for group in each.groups.values() if group.consumes})

        return self._ask(work)

    def commit_offsets(self, group: str, offsets: CommittedOffsets) -> CommittedOffsets:
        """Write a group's offsets (OffsetCommit, key 8); creates the group when it doesn't exist.

        An element for every partition: the offset as written, or Kafka's error.

        :raises CommitRefusedError: when the group has active members.
        :raises ConfigurationError: when an element has no offset.
        """
        if not len(offsets):
            return offsets
        written = self._ask(
            lambda session, deadline: send_commit(session.transport, session.coordinators, group, offsets, deadline)
        )
        refuse_active_group(group, written)
        return written
