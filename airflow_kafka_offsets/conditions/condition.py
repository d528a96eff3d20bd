"""A condition: something to wait for, how to check it, and how many checks share their requests.

A check is a generator of client calls. Calls that differ only in what they are about are merged into one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ClusterError
from airflow_kafka_offsets.offsets.measures import Measure
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class ClientCall(Generic[A]):
    """A client call. Errors about single topics, partitions or groups are part of the answer, if it has a place for
    them. When one is raised, merged calls are made again one by one, so that one wait's misspelt topic doesn't fail
    another wait.

    :param wanted: what the call is about.
    :param isolation_level: which records count, if that matters.
    """

    wanted: frozenset[Any]
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED

    def make(self, client: OffsetsClient) -> A:
        raise NotImplementedError

    def part(self, answer: A) -> A:
        """This call's part of the answer to a merged call. By default all of it, if a look-up finds the part anyway."""
        return answer


Asking: TypeAlias = Generator[ClientCall[Any], Any, A]
"""A part of a check that calls the client and returns an answer of its own."""


def ask(
    kind: type[ClientCall[A]],
    wanted: Iterable[Any],
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> Asking[A]:
    """Within a check: call the client, and return its answer."""
    answer: A = yield kind(frozenset(wanted), isolation_level)
    return answer


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


class Condition:
    """Something to wait for: a frozen dataclass, so that equal conditions are checked once."""

    kind: ClassVar[str]
    """Its name in a trigger's JSON."""
    sensor: ClassVar[str | None]
    """The class name of the sensor that waits for it; None for a condition that only finds what another one needs."""
    group_argument: ClassVar[str | None] = None
    """The sensor's argument that names groups; None when it has none."""
    awaited_in_general: ClassVar[str]
    """What such a sensor waits for, in words, where its arguments aren't known."""
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

    def steps(self) -> Asking[Progress]:
        """One check.

        :raises ConditionFailedError: when a policy that the user chose says that it can't come true.
        :raises KafkaOffsetsError: when nobody can tell; ``retriable`` says whether that may pass.
        """
        raise NotImplementedError

    def check(self, client: OffsetsClient) -> Progress:
        """One check, all at once; raises as :meth:`steps` does."""
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
    """Check conditions together: in each round, calls of the same kind are merged into one."""
    outcomes: dict[Condition, Outcome] = {}
    running = {condition: condition.steps() for condition in conditions}
    calls = _advance(running, {}, outcomes)
    while calls:
        answers = _answers(client, set(calls.values()))
        calls = _advance(
            {condition: running[condition] for condition in calls},
            {condition: answers[call] for condition, call in calls.items()},
            outcomes,
        )
    return outcomes


def _advance(
    running: Mapping[Condition, Asking[Progress]], answers: Mapping[Condition, Any], outcomes: dict[Condition, Outcome]
) -> dict[Condition, ClientCall[Any]]:
    """Advance each check to its next call, or to its end."""
    calls: dict[Condition, ClientCall[Any]] = {}
    for condition, steps in running.items():
        answer = answers.get(condition)
        try:
            if isinstance(answer, Exception):  # may be shared by many checks: drop the frames of the others
                calls[condition] = steps.throw(answer.with_traceback(None))
            else:
                calls[condition] = steps.send(answer)
        except StopIteration as ended:
            outcomes[condition] = ended.value
        except Exception as error:
            outcomes[condition] = error
    return calls


def _answers(client: OffsetsClient, calls: Iterable[ClientCall[Any]]) -> dict[ClientCall[Any], Any]:
    """The answer to each call, or the error raised instead."""
    alike: dict[ClientCall[Any], list[ClientCall[Any]]] = defaultdict(list)
    for call in calls:
        alike[replace(call, wanted=frozenset())].append(call)
    answers: dict[ClientCall[Any], Any] = {}
    for of_a_kind in alike.values():
        answers |= _made_as_one(client, of_a_kind)
    return answers


def _made_as_one(client: OffsetsClient, calls: list[ClientCall[Any]]) -> dict[ClientCall[Any], Any]:
    union = replace(calls[0], wanted=frozenset().union(*(call.wanted for call in calls)))
    try:
        answer = union.make(client)
    except Exception as error:
        if len(calls) == 1 or isinstance(error, ClusterError):
            return dict.fromkeys(calls, error)
        # The error is about one of the calls: make each alone, so that each gets its own answer.
        return {call: found for alone in calls for call, found in _made_as_one(client, [alone]).items()}
    return {call: answer if call == union else call.part(answer) for call in calls}
