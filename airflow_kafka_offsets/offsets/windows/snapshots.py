"""Offset snapshots: one offset for each partition of a set of topics, as of one thing. Immutable once stored.

Its file is a row for each partition, which the ledger compresses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_kafka_offsets.compat.python_versions import Self, StrEnum
from airflow_kafka_offsets.errors import ConfigurationError, shorten
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts
from airflow_kafka_offsets.offsets.instants import is_from_future, iso_instant
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.plain_json import Row
from airflow_kafka_offsets.offsets.specs import IsolationLevel


class Evidence(StrEnum):
    """Why a boundary is believed."""

    MATCHED = "matched"
    """A record at or after the instant is at this offset."""
    LOG_END = "log_end"
    """There is no record at or after the instant: the log end, requested before the instant was looked up (E2)."""
    LOG_START = "log_start"
    """The log start; records before it, if any, are gone (E9)."""
    NEW_PARTITION = "new_partition"
    """The log start of a partition that was added later."""
    CLAMPED = "clamped"
    """A neighbouring snapshot, stored earlier, takes precedence: late or deleted records moved the look-up (S2)."""
    MATCHED_MARKER = "matched_marker"
    """A transaction marker or an aborted record is at this offset; timestamp look-ups match them too (E41). Records
    after it may be older than the instant."""
    COMMITTED = "committed"
    """A group's committed offset."""


class AsOfKind(StrEnum):
    """What a snapshot can be as of."""

    INSTANT = "instant"
    LATEST = "latest"
    EARLIEST = "earliest"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class AsOf:
    """What a snapshot is as of.

    :param kind: instant, latest, earliest, or a group's commits.
    :param timestamp_ms: Unix milliseconds; for an instant only.
    :param group: group id; for a group's commits only.
    """

    kind: AsOfKind
    timestamp_ms: int | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        for kind, value in ((AsOfKind.INSTANT, self.timestamp_ms), (AsOfKind.GROUP, self.group)):
            if (self.kind is kind) != (value is not None):
                raise ConfigurationError(f"A snapshot as of {self.kind} can't have {value!r} as its {kind}.")

    def __str__(self) -> str:
        if self.timestamp_ms is not None:
            return iso_instant(self.timestamp_ms)
        return f"group {self.group}" if self.group is not None else self.kind


@dataclass(frozen=True, slots=True)
class Boundary(Row):
    """One partition's offset in a snapshot.

    :param offset: first offset that belongs after the boundary.
    :param evidence: why this offset is believed.
    :param matched_timestamp_ms: timestamp of the matched record, Unix milliseconds; None when none was matched.
    :param leader_epoch: epoch of the matched record, or of the leader that answered when none was; None when unknown.
    :param log_start_offset: the log start when the snapshot was resolved.
    :param high_watermark: the high watermark at that time.
    :param last_stable_offset: the last stable offset at that time.
    :param ends_leader_epoch: epoch of the leader that reported these two; None when unknown.
    """

    topic: str
    partition: int
    offset: int
    evidence: Evidence
    matched_timestamp_ms: int | None
    leader_epoch: int | None
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    ends_leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetSnapshot:
    """One offset per partition, as of one thing.

    :param as_of: what the offsets are as of.
    :param cluster_id: the cluster that answered.
    :param isolation_level: which records counted as visible.
    :param resolved_at_ms: when it was resolved, Unix milliseconds by this machine's clock.
    :param topics: facts by topic name.
    :param boundaries: offsets by partition.
    """

    as_of: AsOf
    cluster_id: str
    isolation_level: IsolationLevel
    resolved_at_ms: int
    topics: Mapping[str, TopicFacts]
    boundaries: Mapping[TopicPartition, Boundary]

    @property
    def timestamp_ms(self) -> int:
        """Its place in time: its instant, or when it was resolved."""
        return self.resolved_at_ms if self.as_of.timestamp_ms is None else self.as_of.timestamp_ms

    @property
    def title(self) -> str:
        return f"the snapshot as of {self.as_of}"

    def without(self, topics: Collection[str]) -> Self:
        """The same offsets without those of some topics."""
        if not topics:
            return self
        kept = {key: boundary for key, boundary in self.boundaries.items() if key.topic not in topics}
        facts = {topic: facts for topic, facts in self.topics.items() if topic not in topics}
        return replace(self, topics=facts, boundaries=kept)

    def begun_anew(
        self,
        topics: Collection[str],
        truncated: Iterable[SeenOffset],
        cluster_id: str | None,
        resumed: OffsetSnapshot | None = None,
    ) -> Self:
        """The same offsets after some topics have become other logs: cut where logs were truncated, and without those
        of the other topics, unless it is known where these go on.

        :param cluster_id: the cluster since then; None if it is the same.
        :param resumed: where logs go on that were known before.
        """
        places = {TopicPartition(each.topic, each.partition): each for each in truncated}
        left = self.without(set(topics) - {key.topic for key in places})
        cut = {
            key: replace(boundary, offset=place.offset, leader_epoch=place.leader_epoch)
            for key, boundary in left.boundaries.items()
            if (place := places.get(key)) is not None and place.offset < boundary.offset
        }
        facts, boundaries = ({}, {}) if resumed is None else (resumed.topics, resumed.boundaries)
        return replace(
            left,
            topics={**left.topics, **facts},
            boundaries={**left.boundaries, **cut, **boundaries},
            cluster_id=cluster_id or self.cluster_id,
        )


def snapshot_warnings(snapshot: OffsetSnapshot) -> Iterator[str]:
    """Anything unexpected about a snapshot."""
    if future := future_warning(snapshot):
        yield future
    at: dict[Evidence, list[str]] = defaultdict(list)
    for boundary in snapshot.boundaries.values():
        at[boundary.evidence].append(f"{boundary.topic}-{boundary.partition} at {boundary.offset}")
    if clamped := at[Evidence.CLAMPED]:
        why = "late or deleted records, or a clock that was ahead"
        yield f"In {snapshot.title}, snapshots stored earlier take precedence on {shorten(clamped)}: {why}."
    if markers := at[Evidence.MATCHED_MARKER]:
        why = "records after them may be older"
        yield f"In {snapshot.title}, transaction markers were matched on {shorten(markers)}: {why}."


def future_warning(snapshot: OffsetSnapshot) -> str | None:
    """A warning about records with future timestamps at a snapshot's offsets. They freeze every later window until they
    age out (E5, S7). None when there are none."""
    worst = [
        f"{key} at offset {boundary.offset} ({iso_instant(boundary.matched_timestamp_ms or 0)})"
        for key, boundary in sorted(snapshot.boundaries.items())
        if is_from_future(boundary.matched_timestamp_ms, snapshot.resolved_at_ms)
    ]
    if not worst:
        return None
    return f"There are records from the future, {shorten(worst)}: there, windows up to their time will be empty."
