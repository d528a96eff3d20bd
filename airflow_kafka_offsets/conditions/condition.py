"""A condition: something to wait for, as a plain value that judges what Kafka has answered.

What a condition has to know is a :class:`Need`, which is a plain value too. :func:`check_all` is the one place where
conditions meet Kafka. A condition reads the answers that it needs, one after the other; the first one that isn't there
ends its judgement, and once what all conditions need is asked, each is judged again from the start. Needs of one kind
and isolation level are united, however many conditions have them, and one call of :class:`.OffsetsClient` answers them
all: :meth:`Need.ask`, in the class of each kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.routing.metadata import TopicsMetadata
from airflow_kafka_offsets.errors import ClusterError
from airflow_kafka_offsets.offsets.answers.groups import GroupDescriptions
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.answers.logs import EpochEnd, EpochEnds, LogEpoch, LogExtents, Producers, TopicFacts
from airflow_kafka_offsets.offsets.answers.records import FirstRecords
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.lag import GroupLags
from airflow_kafka_offsets.offsets.measures import Measure
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a wait has come.

    :param done: whether the condition holds.
    :param summary: one line for people: totals and the worst three.
    :param result: small plain JSON, pushed to XCom when done.
    :param remaining: offsets still to go; None when the condition has no such number, or doesn't know it.
    :param ends: the log ends that it was judged by; None when there are none.
    :param measures: measures that were found on the way.
    """

    done: bool
    summary: str
    result: dict[str, Any]
    remaining: int | None = None
    ends: FixedOffsets | None = None
    measures: tuple[Measure, ...] = ()


Outcome: TypeAlias = Progress | Exception
"""How far a wait has come, or why that is unknown: a ``KafkaOffsetsError``, unless something is broken."""


@dataclass(frozen=True, slots=True)
class Need(Generic[A]):
    """Something that a condition has to know. Errors about single topics, partitions or groups are part of the answer.

    :param wanted: what it is about; a need of nothing has the answer :attr:`nothing`, and isn't asked.
    :param isolation_level: which records count, if that matters.
    :param at_or_after_ms: earliest timestamp of records that count, Unix milliseconds; None if that doesn't matter.
    """

    nothing: ClassVar[type[Any]] = dict

    wanted: frozenset[Any]
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    at_or_after_ms: int | None = None

    @classmethod
    def of(
        cls,
        wanted: Iterable[Any],
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        at_or_after_ms: int | None = None,
    ) -> Self:
        """The need to know about all of these."""
        return cls(frozenset(wanted), isolation_level, at_or_after_ms)

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
        return client.first_records(
            sorted(self.wanted), isolation_level=self.isolation_level, at_or_after_ms=self.at_or_after_ms
        )


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
    """Kafka wasn't asked yet what a condition needs to know: :func:`check_all` asks, and judges it again.

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
        alike: dict[Need[Any], list[Need[Any]]] = defaultdict(list)
        for need in self._missing(dict.fromkeys(needs)):
            alike[replace(need, wanted=frozenset())].append(need)
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


class Condition:
    """Something to wait for: a frozen dataclass, so that equal conditions are checked once."""

    kind: ClassVar[str]
    """Its name in a trigger's JSON."""
    stable_polls: int = 1
    """How many polls in a row it must hold."""

    __slots__ = ()

    @property
    def awaited(self) -> str:
        """What is waited for, in words that follow "Waits until"."""
        raise NotImplementedError

    @property
    def group_ids(self) -> tuple[str, ...]:
        """The groups that it is about; empty when it is about topics only."""
        return ()

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The topics that it is about; empty means all that its groups have committed on or read."""
        return ()

    def judge(self, answers: Answers) -> Progress:
        """How far the wait has come.

        :param answers: what is known in this poll.
        :raises UnansweredError: when more has to be known to tell.
        :raises ConditionFailedError: when a policy that the user chose says that it can't come true.
        :raises KafkaOffsetsError: when nobody can tell; ``retriable`` says whether that may pass.
        """
        raise NotImplementedError

    def check(self, client: OffsetsClient) -> Progress:
        """One check; raises as :meth:`judge` does."""
        outcome = check_all(client, [self])[self]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for a trigger."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # see the class
        return {"kind": self.kind} | {name: _plain(value) for name, value in values.items()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`, for JSON of this kind."""
        return cls(**{name: _argument(name, value) for name, value in fields.items() if name != "kind"})


def _plain(value: Any) -> Any:
    if isinstance(value, FixedOffsets):
        return value.to_json()
    if isinstance(value, IsolationLevel):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _argument(name: str, value: Any) -> Any:
    if name == "isolation_level":
        return IsolationLevel(value)
    if isinstance(value, Mapping):
        return FixedOffsets.from_json(value)
    return tuple(value) if isinstance(value, list) else value


def check_all(client: OffsetsClient, conditions: Iterable[Condition]) -> dict[Condition, Outcome]:
    """Check conditions together: in each round, what all of them need is asked at once."""
    answers = Answers(now_ms())
    outcomes = {condition: _judged(condition, answers) for condition in conditions}
    while waiting := {each: found for each, found in outcomes.items() if isinstance(found, UnansweredError)}:
        answers.ask(client, (need for found in waiting.values() for need in found.needs))
        outcomes |= {condition: _judged(condition, answers) for condition in waiting}
    return outcomes


def _judged(condition: Condition, answers: Answers) -> Outcome:
    try:
        return condition.judge(answers)
    except Exception as error:
        return error


def unknowable_of(seen: FixedOffsets, metadata: TopicsMetadata, answers: Answers) -> list[str]:
    """What nobody can tell about whether logs are still the ones that some offsets were seen in, in words; usually
    nothing. If a log was truncated and has grown again, only leader epochs show it (S15), which takes a request to each
    leader: so this is for waits that would pass.

    :param metadata: the cluster and topics as they are now; offsets on other topics are ignored.
    :raises LogTruncatedError: when a log was truncated below an offset and has grown past it again.
    :raises OffsetsError: when a leader can't be asked, or a log is at a lower epoch than its offset.
    """
    seen = seen.on(metadata.topic_ids)
    epochs = EndsOfEpochs.of(
        LogEpoch(offset.topic, offset.partition, offset.leader_epoch)
        for offset in seen.seen
        if offset.leader_epoch is not None and offset.offset > 0
    )
    return seen.unknowable(EpochEnds(answers[epochs].values()), metadata.leader_epoch)


def note_unknowable(unknowable: Iterable[str]) -> str:
    """For the end of a summary."""
    words = ", ".join(unknowable)
    return f", but Kafka doesn't tell {words}" if words else ""
