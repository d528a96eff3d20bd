"""A condition: something to wait for, as a plain value that judges what Kafka has answered.

:func:`check_all` is the one place where conditions meet Kafka. A condition reads the answers that it needs, one after
the other; the first one that isn't there ends its judgement, and once what all conditions need is asked, each is judged
again from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeAlias

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.needs import Answers, UnansweredError
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.measures import Measure
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets


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
