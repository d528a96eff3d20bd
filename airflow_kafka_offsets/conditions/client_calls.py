"""The client calls that checks make, and what several conditions share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata, partitions_of
from airflow_kafka_offsets.conditions.condition import Asking, ClientCall, ask
from airflow_kafka_offsets.errors import ConditionFailedError, ConfigurationError, OffsetsError, shorten
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.answers.logs import EpochEnd, EpochEnds, LogEpoch, LogExtents, Producers
from airflow_kafka_offsets.offsets.answers.records import FirstRecord, FirstRecords, ReadPosition
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.groups.lag import GroupLags, LagStatus, PartitionLag
from airflow_kafka_offsets.offsets.instants import is_from_future, iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from airflow_kafka_offsets.offsets.windows.truncation import not_known, refuse_later_epochs, refuse_unanswered

_CAN_NOT_READ = {
    "TOPIC_AUTHORIZATION_FAILED": "(the ACL Read is missing)",
    "MESSAGE_TOO_LARGE": "(a batch unpacks to too much)",
    "UNSUPPORTED_COMPRESSION_TYPE": "(a codec is missing: pip install 'airflow-kafka-offsets[codecs]')",
}
"""Errors after which offsets are still counted, as an upper bound on records."""


class Topics(ClientCall[TopicsMetadata]):
    """The partitions of topics. ``wanted``: topic names."""

    def make(self, client: OffsetsClient) -> TopicsMetadata:
        return client.topics(sorted(self.wanted))

    def part(self, answer: TopicsMetadata) -> TopicsMetadata:
        return answer.of_keys(self.wanted)


class Facts(ClientCall[dict[str, TopicFacts]]):
    """How topics are configured. ``wanted``: names of existing topics."""

    def make(self, client: OffsetsClient) -> dict[str, TopicFacts]:
        return client.topic_facts(sorted(self.wanted))


class Lags(ClientCall[GroupLags]):
    """How far groups are behind on everything that they touch. ``wanted``: group ids."""

    def make(self, client: OffsetsClient) -> GroupLags:
        return client.group_lags(sorted(self.wanted), isolation_level=self.isolation_level)

    def part(self, answer: GroupLags) -> GroupLags:
        return answer.of_keys(self.wanted)


class LagsOn(ClientCall[GroupLags]):
    """How far groups are behind on some partitions. ``wanted``: pairs of group id and a tuple of partitions."""

    def make(self, client: OffsetsClient) -> GroupLags:
        groups: dict[str, dict[TopicPartition, None]] = defaultdict(dict)
        for group, partitions in self.wanted:
            groups[group] |= dict.fromkeys(partitions)
        return client.group_lags(groups, isolation_level=self.isolation_level)

    def part(self, answer: GroupLags) -> GroupLags:
        found = ((answer.lookup(group), partitions) for group, partitions in self.wanted)
        return GroupLags(lag.on(partitions) for lag, partitions in found if lag is not None)


class Extents(ClientCall[LogExtents]):
    """Where logs start and end. ``wanted``: partitions."""

    def make(self, client: OffsetsClient) -> LogExtents:
        return client.log_extents(sorted(self.wanted))

    def part(self, answer: LogExtents) -> LogExtents:
        return answer.of_keys(self.wanted)


class Listed(ClientCall[dict[OffsetSpec, ListedOffsets]]):
    """The offsets that satisfy specs. ``wanted``: pairs of spec and partition."""

    def make(self, client: OffsetsClient) -> dict[OffsetSpec, ListedOffsets]:
        return client.list_offsets_by(_by_first(self.wanted), isolation_level=self.isolation_level)

    def part(self, answer: dict[OffsetSpec, ListedOffsets]) -> dict[OffsetSpec, ListedOffsets]:
        return {spec: answer[spec].of_keys(keys) for spec, keys in _by_first(self.wanted).items()}


class Records(ClientCall[dict[int | None, FirstRecords]]):
    """The first visible records at or after some positions. ``wanted``: pairs of the lowest timestamp that counts (None
    for any) and a position.
    """

    def make(self, client: OffsetsClient) -> dict[int | None, FirstRecords]:
        return client.first_records_by(_by_first(self.wanted), isolation_level=self.isolation_level)

    def part(self, answer: dict[int | None, FirstRecords]) -> dict[int | None, FirstRecords]:
        return {since_ms: answer[since_ms].of_keys(keys) for since_ms, keys in _by_first(self.wanted).items()}


class Writers(ClientCall[Producers]):
    """Who writes to partitions. ``wanted``: partitions."""

    def make(self, client: OffsetsClient) -> Producers:
        return client.producers(sorted(self.wanted))


class EndsOfEpochs(ClientCall[dict[LogEpoch, EpochEnd]]):
    """Where leader epochs end in their logs. ``wanted``: epochs."""

    def make(self, client: OffsetsClient) -> dict[LogEpoch, EpochEnd]:
        return client.epoch_ends(self.wanted)

    def part(self, answer: dict[LogEpoch, EpochEnd]) -> dict[LogEpoch, EpochEnd]:
        return {epoch: answer[epoch] for epoch in self.wanted}


def _by_first(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for first, second in sorted(pairs, key=lambda pair: pair[1]):
        found[first].append(second)
    return found


def ask_topics(topics: Iterable[str]) -> Asking[TopicsMetadata]:
    """Within a check: cluster, ids and partitions of some topics.

    :raises OffsetsError: naming topics that are unknown or may not be described.
    """
    return (yield from ask(Topics, topics)).raise_for_errors()


def ask_partitions(topics: Iterable[str]) -> Asking[tuple[TopicPartition, ...]]:
    """Within a check: all partitions of some topics, in order; raises as :func:`ask_topics` does."""
    return tuple(partitions_of((yield from ask_topics(topics))))


def ask_records(
    positions: Iterable[ReadPosition], isolation_level: IsolationLevel, at_or_after_ms: int | None = None
) -> Asking[FirstRecords]:
    """Within a check: the first visible record at or after each position and, if one is given, an instant."""
    wanted = [(at_or_after_ms, position) for position in positions]
    return (yield from ask(Records, wanted, isolation_level))[at_or_after_ms] if wanted else FirstRecords()


class Behind(NamedTuple):
    """A partition that a group is behind on.

    :param position: where it would continue reading.
    :param lag: offsets between its commit and the end.
    :param lost: how many of them were deleted before it read them (E9).
    """

    position: ReadPosition
    lag: int
    lost: int = 0

    @property
    def end_offset(self) -> int:
        """The end that its lag was measured against."""
        return self.position.offset + self.lag - self.lost

    def __str__(self) -> str:
        return f"{self.position.topic}-{self.position.partition}"


def refuse_commits_of_other_logs(group: str, partitions: Iterable[PartitionLag]) -> None:
    """Refuse to wait on commits that don't say what the group has read of the present logs (E17, S15).

    :raises ConditionFailedError: naming a partition.
    """
    for own in partitions:
        if own.status is LagStatus.AHEAD_OF_LOG:
            raise ConditionFailedError(
                f"The commit of group {group} on {own.topic}-{own.partition} is past the log's end "
                "(OFFSET_OUT_OF_RANGE): the topic was truncated or re-created, or the commit was copied. It doesn't "
                "say what the group has read. Use kafka-offsets reset to move the group."
            )


@dataclass(frozen=True, slots=True)
class LeftToRead:
    """Which partitions have a visible record left, and not only transaction markers or aborted records (E12, E13).

    :param records: the records that were found.
    :param unreadable: topics that can't be read, and why, in words.
    """

    records: FirstRecords = field(default_factory=FirstRecords)
    unreadable: tuple[str, ...] = ()

    def is_clear(self, behind: Behind) -> bool:
        """Whether it is known that nothing is left to read and nothing was lost."""
        return not behind.lost and self.records.nothing_before(behind.position, behind.end_offset)

    def note(self) -> str:
        """For the end of a summary; empty when all topics could be read."""
        return f"; transaction markers count as lag on {', '.join(self.unreadable)}" if self.unreadable else ""


def read_left(
    groups: Sequence[Sequence[Behind]], isolation_level: IsolationLevel, allowed: Callable[[Sequence[Behind]], bool]
) -> Asking[LeftToRead]:
    """Within a check: read logs where that may change the result.

    First the partition of each group that is furthest behind: it usually has a record, and that settles it.

    :param groups: the partitions that each group is behind on.
    :param allowed: whether it is acceptable to be behind on just these partitions.
    :raises OffsetsError: when a log can't be read for a reason that may pass.
    """
    doubtful = [group for group in groups if group and not allowed(group)]
    furthest = [max(group, key=lambda behind: behind.lag) for group in doubtful]
    first = yield from read_at(furthest, isolation_level)
    rest = [
        behind
        for group, top in zip(doubtful, furthest, strict=True)
        if first.is_clear(top) or allowed([top])
        for behind in group
        if behind is not top
    ]
    more = yield from read_at(rest, isolation_level)
    unreadable = tuple(sorted({*first.unreadable, *more.unreadable}))
    return LeftToRead(FirstRecords([*first.records, *more.records]), unreadable)


def read_at(partitions: Sequence[Behind], isolation_level: IsolationLevel) -> Asking[LeftToRead]:
    """Within a check: read all of these partitions; raises as :func:`read_left` does."""
    records = yield from ask_records((behind.position for behind in partitions), isolation_level)
    failures = [(what, error) for what, error in records.failures() if error.name not in _CAN_NOT_READ]
    if failures:
        raise OffsetsError("Reading from the group's position", failures)
    why = {f"{found.topic} {_CAN_NOT_READ[found.error.name]}" for found in records if found.error is not None}
    return LeftToRead(records, tuple(sorted(why)))


@dataclass(frozen=True, slots=True)
class RecordAges:
    """How old some first records are, by their timestamps and this machine's clock.

    :param oldest_ms: the highest known age, in milliseconds; None when none is known.
    :param unknown: partitions whose age nobody can tell, and why, in words.
    """

    oldest_ms: int | None = None
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, records: Iterable[FirstRecord], now_ms: int) -> RecordAges:
        """The ages of records, to compare with a limit.

        :param records: without errors. If none was found although the log ends further on, the age is unknown too.
        :raises ConfigurationError: when a timestamp can't be read because a codec isn't installed on this machine.
        """
        ages, unknown = [], []
        for record in records:
            why = _why_ageless(record, now_ms)
            if why:
                unknown.append(f"{record.topic}-{record.partition} ({why})")
            else:
                assert record.timestamp_ms is not None, "or there would be a reason"
                ages.append(max(0, now_ms - record.timestamp_ms))
        return cls(max(ages, default=None), tuple(unknown))

    @classmethod
    def together(cls, parts: Iterable[RecordAges]) -> RecordAges:
        """The ages of several parts combined: unknown when nothing is known about one of them; 0 without any parts."""
        ages = list(parts)
        if RecordAges() in ages:
            return cls()
        oldest = max((age.oldest_ms for age in ages if age.oldest_ms is not None), default=None if ages else 0)
        return cls(oldest, tuple(why for age in ages for why in age.unknown))

    @property
    def known_ms(self) -> int | None:
        """Age of the oldest record; None when nobody can tell."""
        return None if self.unknown else self.oldest_ms

    def note(self, what: str) -> str:
        """For the end of a summary; empty when all ages are known."""
        return f"; the age of {what} is unknown on {shorten(self.unknown)}" if self.unknown else ""


def _why_ageless(record: FirstRecord, now_ms: int) -> str:
    """Why a record's timestamp doesn't give its age, in words; empty when it does."""
    if record.missing_codec:
        raise ConfigurationError(
            f"max_age needs the timestamp of the record at {record.topic}-{record.partition} offset {record.offset}, "
            f"which is compressed with {record.missing_codec}: its library isn't installed on this machine (pip "
            "install 'airflow-kafka-offsets[codecs]')."
        )
    if record.offset is None:
        return "its leader hasn't returned a record yet"
    if record.timestamp_ms is None:
        return "it has no timestamp"
    if is_from_future(record.timestamp_ms, now_ms):
        return f"its timestamp lies in the future: {iso_instant(record.timestamp_ms)}"
    return ""


def worst(partitions: Iterable[Behind]) -> str:
    """The three partitions that are furthest behind, in words."""
    furthest = sorted(partitions, key=lambda behind: -behind.lag)[:3]
    return ", ".join(f"{behind} {behind.lag}" for behind in furthest)


def ask_same_logs(seen: FixedOffsets, metadata: TopicsMetadata) -> Asking[list[str]]:
    """Within a check, right before it passes: check that logs are still the ones that some offsets were seen in. Return
    what nobody can tell about that, in words; usually nothing.

    If a log was truncated and has grown again, only leader epochs show it. Asking where they end takes a request to
    each leader, which a wait that goes on is spared.

    :param metadata: the cluster and topics as they are now; offsets on other topics are ignored.
    :raises LogTruncatedError: when a log was truncated below an offset and has grown past it again.
    :raises OffsetsError: when a leader can't be asked, or a log is at a lower epoch than its offset.
    """
    seen = seen.on(metadata.topic_ids)
    epochs = [
        LogEpoch(offset.topic, offset.partition, offset.leader_epoch)
        for offset in seen.seen
        if offset.leader_epoch is not None and offset.offset > 0
    ]
    answers = (yield from ask(EndsOfEpochs, epochs)) if epochs else {}
    ends = EpochEnds(answers.values())
    seen.refuse_truncated_below(ends)
    refuse_unanswered(ends)
    refuse_later_epochs(not_known(seen.seen, ends), metadata.leader_epoch)
    return seen.unknowable(ends)


def note_unknowable(unknowable: Iterable[str]) -> str:
    """For the end of a summary."""
    words = ", ".join(unknowable)
    return f", but Kafka doesn't tell {words}" if words else ""
