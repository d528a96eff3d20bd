"""Questions: what conditions ask a cluster, in a form in which the questions of many waits become one request.

Questions that differ only in what they are about (``wanted``) are asked as one about all of it. Nothing that concerns
single topics, partitions or groups is raised for it: it is data, so that one wait's misspelt topic is no other's fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeAlias, TypeVar

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata, partitions_of
from airflow_kafka_offsets.errors import ClusterError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.answers.logs import EpochEnd, LogEpoch, LogExtents, Producers
from airflow_kafka_offsets.offsets.answers.records import FirstRecords
from airflow_kafka_offsets.offsets.groups.lag import GroupLags
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.snapshots import TopicFacts

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Question(Generic[A]):
    """Something to ask.

    :param wanted: what it is about.
    """

    wanted: frozenset[Any]

    @classmethod
    def about(cls, wanted: Iterable[Any], **rest: Any) -> Self:
        """A question about these."""
        return cls(frozenset(wanted), **rest)

    def ask(self, client: OffsetsClient) -> A:
        """The answer."""
        raise NotImplementedError

    def part(self, answer: A) -> A:
        """What belongs to this question in the answer to one about more. By default the whole: a look-up finds it."""
        return answer


@dataclass(frozen=True, slots=True)
class Topics(Question[TopicsMetadata]):
    """Which partitions topics have. ``wanted``: names."""

    def ask(self, client: OffsetsClient) -> TopicsMetadata:
        return client.topics(sorted(self.wanted))

    def part(self, answer: TopicsMetadata) -> TopicsMetadata:
        found = (answer.lookup(name) for name in self.wanted)
        return TopicsMetadata((each for each in found if each is not None), answer.cluster_id)


@dataclass(frozen=True, slots=True)
class Facts(Question[dict[str, TopicFacts]]):
    """How topics are configured. ``wanted``: names of topics that exist."""

    def ask(self, client: OffsetsClient) -> dict[str, TopicFacts]:
        return client.topic_facts(sorted(self.wanted))


@dataclass(frozen=True, slots=True)
class Lags(Question[GroupLags]):
    """How far groups are behind on all that they touch. ``wanted``: group ids."""

    isolation_level: IsolationLevel

    def ask(self, client: OffsetsClient) -> GroupLags:
        return client.group_lags(sorted(self.wanted), isolation_level=self.isolation_level)

    def part(self, answer: GroupLags) -> GroupLags:
        found = (answer.lookup(group) for group in self.wanted)
        return GroupLags(each for each in found if each is not None)


@dataclass(frozen=True, slots=True)
class LagsOn(Question[GroupLags]):
    """How far groups are behind on some partitions. ``wanted``: pairs of group id and a tuple of partitions."""

    isolation_level: IsolationLevel

    def ask(self, client: OffsetsClient) -> GroupLags:
        partitions: dict[str, dict[TopicPartition, None]] = defaultdict(dict)
        for group, each in self.wanted:
            partitions[group] |= dict.fromkeys(each)
        return client.group_lags(partitions, isolation_level=self.isolation_level)

    def part(self, answer: GroupLags) -> GroupLags:
        found = ((answer.lookup(group), partitions) for group, partitions in self.wanted)
        return GroupLags(lag.on(partitions) for lag, partitions in found if lag is not None)


@dataclass(frozen=True, slots=True)
class Extents(Question[LogExtents]):
    """Where logs start and end. ``wanted``: partitions."""

    def ask(self, client: OffsetsClient) -> LogExtents:
        return client.log_extents(sorted(self.wanted))

    def part(self, answer: LogExtents) -> LogExtents:
        return LogExtents(each for each in answer.unordered() if (each.topic, each.partition) in self.wanted)


@dataclass(frozen=True, slots=True)
class Listed(Question[dict[OffsetSpec, ListedOffsets]]):
    """Which offsets satisfy specs. ``wanted``: pairs of spec and partition."""

    isolation_level: IsolationLevel

    def ask(self, client: OffsetsClient) -> dict[OffsetSpec, ListedOffsets]:
        return client.list_offsets_by(_by_first(self.wanted), isolation_level=self.isolation_level)

    def part(self, answer: dict[OffsetSpec, ListedOffsets]) -> dict[OffsetSpec, ListedOffsets]:
        return {
            spec: ListedOffsets(each for key in keys if (each := answer[spec].lookup(*key)) is not None)
            for spec, keys in _by_first(self.wanted).items()
        }


@dataclass(frozen=True, slots=True)
class Records(Question[dict[int | None, FirstRecords]]):
    """The first visible records at or after some positions. ``wanted``: pairs of the timestamp from which on records
    count (None for all) and a position.
    """

    isolation_level: IsolationLevel

    def ask(self, client: OffsetsClient) -> dict[int | None, FirstRecords]:
        return client.first_records_by(_by_first(self.wanted), isolation_level=self.isolation_level)

    def part(self, answer: dict[int | None, FirstRecords]) -> dict[int | None, FirstRecords]:
        return {
            timestamp_ms: FirstRecords(each for key in keys if (each := answer[timestamp_ms].lookup(*key)) is not None)
            for timestamp_ms, keys in _by_first(self.wanted).items()
        }


@dataclass(frozen=True, slots=True)
class Writers(Question[Producers]):
    """Who writes to partitions. ``wanted``: partitions."""

    def ask(self, client: OffsetsClient) -> Producers:
        return client.producers(sorted(self.wanted))


@dataclass(frozen=True, slots=True)
class Ends(Question[dict[LogEpoch, EpochEnd]]):
    """Where leader epochs end in their logs. ``wanted``: epochs."""

    def ask(self, client: OffsetsClient) -> dict[LogEpoch, EpochEnd]:
        return client.ends_of(self.wanted)

    def part(self, answer: dict[LogEpoch, EpochEnd]) -> dict[LogEpoch, EpochEnd]:
        return {each: answer[each] for each in self.wanted}


def _by_first(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for first, second in sorted(pairs, key=lambda pair: pair[1]):
        found[first].append(second)
    return found


Asking: TypeAlias = Generator[Question[Any], Any, A]
"""A part of a check that asks questions, and comes to an answer of its own."""


def ask(question: Question[A]) -> Asking[A]:
    """Within a check: ask, and go on with the answer."""
    answer: A = yield question
    return answer


def ask_topics(topics: Iterable[str]) -> Asking[TopicsMetadata]:
    """Within a check: cluster, ids and partitions of some topics.

    :raises OffsetsError: naming those that are unknown or may not be described.
    """
    return (yield from ask(Topics.about(topics))).raise_for_errors()


def ask_partitions(topics: Iterable[str]) -> Asking[tuple[TopicPartition, ...]]:
    """Within a check: all partitions of some topics, in order; raises as :func:`ask_topics` does."""
    return tuple(partitions_of((yield from ask_topics(topics))))


def ask_as_one(client: OffsetsClient, questions: Iterable[Question[Any]]) -> dict[Question[Any], Any]:
    """The answer to each question, or the error that came instead; questions of one kind go out as one."""
    alike: dict[Question[Any], set[Question[Any]]] = defaultdict(set)
    for each in questions:
        alike[replace(each, wanted=frozenset())].add(each)
    answers: dict[Question[Any], Any] = {}
    for kind, several in alike.items():
        answers |= _answers(client, kind, several)
    return answers


def _answers(client: OffsetsClient, kind: Question[Any], several: set[Question[Any]]) -> dict[Question[Any], Any]:
    union = replace(kind, wanted=frozenset().union(*(each.wanted for each in several)))
    try:
        answer = union.ask(client)
    except Exception as error:
        if len(several) == 1 or isinstance(error, ClusterError):
            return dict.fromkeys(several, error)
        # Something about one of them: each is to learn its own.
        return {each: found for one in several for each, found in _answers(client, kind, {one}).items()}
    return {each: answer if each == union else each.part(answer) for each in several}
