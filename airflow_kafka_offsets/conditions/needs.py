"""Needs: what conditions have to know, and the client call that answers each.

A need is a plain value. Needs of one kind and isolation level are united, however many conditions have them, and one
call of :class:`.OffsetsClient` answers them all: :meth:`Need.ask`, in the class of each kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata
from airflow_kafka_offsets.errors import ClusterError
from airflow_kafka_offsets.offsets.answers.groups import GroupDescriptions
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.answers.logs import EpochEnd, LogEpoch, LogExtents, Producers
from airflow_kafka_offsets.offsets.answers.records import FirstRecords
from airflow_kafka_offsets.offsets.answers.topics import TopicFacts
from airflow_kafka_offsets.offsets.groups.lag import GroupLags
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Need(Generic[A]):
    """Something that a condition has to know. Errors about single topics, partitions or groups are part of the answer.

    :param wanted: what it is about; a need of nothing has the answer :attr:`nothing`, and isn't asked.
    :param isolation_level: which records count, if that matters.
    """

    nothing: ClassVar[type[Any]] = dict

    wanted: frozenset[Any]
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    @classmethod
    def of(cls, wanted: Iterable[Any], isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Self:
        """The need to know about all of these."""
        return cls(frozenset(wanted), isolation_level)

    def ask(self, client: OffsetsClient) -> A:
        """The answer, by one client call."""
        raise NotImplementedError

    def part(self, answer: A) -> A:
        """This need's part of the answer to a united one."""
        if isinstance(answer, dict):
            return {key: answer[key] for key in self.wanted & answer.keys()}  # type: ignore[return-value]  # also one
        own: A = answer.of_keys(self.wanted)  # type: ignore[attr-defined]  # all answers but dictionaries have it
        return own


class Topics(Need[TopicsMetadata]):
    """Cluster, ids and partitions of topics. ``wanted``: topic names."""

    nothing = TopicsMetadata

    def ask(self, client: OffsetsClient) -> TopicsMetadata:
        return client.topics(sorted(self.wanted))


class Facts(Need[dict[str, TopicFacts]]):
    """How topics are configured. ``wanted``: names of existing topics."""

    def ask(self, client: OffsetsClient) -> dict[str, TopicFacts]:
        return client.topic_facts(sorted(self.wanted))


class Lags(Need[GroupLags]):
    """How far groups are behind on everything that they touch. ``wanted``: group ids."""

    nothing = GroupLags

    def ask(self, client: OffsetsClient) -> GroupLags:
        return client.group_lags(sorted(self.wanted), isolation_level=self.isolation_level)


class LagsOn(Need[GroupLags]):
    """How far groups are behind on some partitions. ``wanted``: pairs of group id and a tuple of partitions."""

    nothing = GroupLags

    def ask(self, client: OffsetsClient) -> GroupLags:
        groups: dict[str, dict[TopicPartition, None]] = defaultdict(dict)
        for group, partitions in self.wanted:
            groups[group] |= dict.fromkeys(partitions)
        return client.group_lags(groups, isolation_level=self.isolation_level)

    def part(self, answer: GroupLags) -> GroupLags:
        found = ((answer.lookup(group), partitions) for group, partitions in self.wanted)
        return GroupLags(lag.on(partitions) for lag, partitions in found if lag is not None)


class Descriptions(Need[GroupDescriptions]):
    """Kind, state and members of groups. ``wanted``: group ids."""

    nothing = GroupDescriptions

    def ask(self, client: OffsetsClient) -> GroupDescriptions:
        return client.describe_groups(sorted(self.wanted))


class Extents(Need[LogExtents]):
    """Where logs start and end. ``wanted``: partitions."""

    nothing = LogExtents

    def ask(self, client: OffsetsClient) -> LogExtents:
        return client.log_extents(sorted(self.wanted))


class Listed(Need[dict[OffsetSpec, ListedOffsets]]):
    """The offsets that satisfy specs. ``wanted``: pairs of spec and partition."""

    def ask(self, client: OffsetsClient) -> dict[OffsetSpec, ListedOffsets]:
        return client.list_offsets_by(_by_first(self.wanted), isolation_level=self.isolation_level)

    def part(self, answer: dict[OffsetSpec, ListedOffsets]) -> dict[OffsetSpec, ListedOffsets]:
        return {spec: answer[spec].of_keys(keys) for spec, keys in _by_first(self.wanted).items()}


class Records(Need[FirstRecords]):
    """The first visible records at or after some positions. ``wanted``: positions."""

    nothing = FirstRecords

    def ask(self, client: OffsetsClient) -> FirstRecords:
        return client.first_records(sorted(self.wanted), isolation_level=self.isolation_level)


class LateRecords(Need[dict[int, FirstRecords]]):
    """The first visible records at or after some positions with a timestamp at or after an instant. ``wanted``: pairs
    of the instant, in Unix milliseconds, and a position.
    """

    def ask(self, client: OffsetsClient) -> dict[int, FirstRecords]:
        found = client.first_records_by(_by_first(self.wanted), isolation_level=self.isolation_level)
        return {instant_ms: records for instant_ms, records in found.items() if instant_ms is not None}

    def part(self, answer: dict[int, FirstRecords]) -> dict[int, FirstRecords]:
        return {instant_ms: answer[instant_ms].of_keys(keys) for instant_ms, keys in _by_first(self.wanted).items()}


class Writers(Need[Producers]):
    """Who writes to partitions. ``wanted``: partitions."""

    nothing = Producers

    def ask(self, client: OffsetsClient) -> Producers:
        return client.producers(sorted(self.wanted))


class EndsOfEpochs(Need[dict[LogEpoch, EpochEnd]]):
    """Where leader epochs end in their logs. ``wanted``: epochs."""

    def ask(self, client: OffsetsClient) -> dict[LogEpoch, EpochEnd]:
        return client.epoch_ends(self.wanted)


def _by_first(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for first, second in sorted(pairs, key=lambda pair: pair[1]):
        found[first].append(second)
    return found


class UnansweredError(Exception):
    """Kafka wasn't asked yet what a condition needs to know: :func:`.condition.check_all` asks, and judges it again.

    :param needs: those that aren't answered yet.
    """

    def __init__(self, needs: tuple[Need[Any], ...]) -> None:
        super().__init__(f"Not answered yet: {needs}")
        self.needs = needs


class Answers:
    """What Kafka has answered in one poll.

    :param at_ms: when the poll began, by this machine's clock, Unix milliseconds.
    :param found: answers by need; an error stands for the answer that it prevented.
    """

    def __init__(self, at_ms: int, found: Mapping[Need[Any], Any] | None = None) -> None:
        self.at_ms = at_ms
        self._found = dict(found or {})

    def __getitem__(self, need: Need[A]) -> A:
        """The answer to a need; raises the error that stands for it.

        :raises UnansweredError: when Kafka has to be asked first.
        """
        self.require(need)
        answer: Any = self._found[need] if need.wanted else need.nothing()
        if isinstance(answer, Exception):
            raise answer.with_traceback(None)  # of others who had the same need
        return answer  # type: ignore[no-any-return]  # each kind of need has its kind of answer

    def require(self, *needs: Need[Any]) -> None:
        """Have all of these answered, before the first one is read: they are asked in one round then.

        :raises UnansweredError: when Kafka has to be asked first.
        """
        missing = self._missing(needs)
        if missing:
            raise UnansweredError(missing)

    def _missing(self, needs: Iterable[Need[Any]]) -> tuple[Need[Any], ...]:
        return tuple(need for need in needs if need.wanted and need not in self._found)

    def ask(self, client: OffsetsClient, needs: Iterable[Need[Any]]) -> None:
        """Have needs answered, with one client call for all of a kind."""
        alike: dict[Any, list[Need[Any]]] = defaultdict(list)
        for need in self._missing(dict.fromkeys(needs)):
            alike[type(need), need.isolation_level].append(need)
        for of_a_kind in alike.values():
            self._found |= _asked_as_one(client, of_a_kind)


def _asked_as_one(client: OffsetsClient, needs: list[Need[Any]]) -> dict[Need[Any], Any]:
    """The answers to needs of a kind. An error about one of them, such as a misspelt name, is that one's alone."""
    united = replace(needs[0], wanted=frozenset().union(*(need.wanted for need in needs)))
    try:
        answer = united.ask(client)
    except Exception as error:
        if len(needs) == 1 or isinstance(error, ClusterError):
            return dict.fromkeys(needs, error)
        return {need: found for alone in needs for need, found in _asked_as_one(client, [alone]).items()}
    return {need: answer if need == united else need.part(answer) for need in needs}
