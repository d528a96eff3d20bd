"""A condition: something to wait for, how a check of it goes, and how many checks go out with the requests of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.questions import Asking, Question, ask_as_one
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a wait has come.

    :param done: the condition holds.
    :param summary: one line for people: totals and the worst three.
    :param result: small plain JSON, pushed to XCom when done.
    :param remaining: offsets that are still to go; None where the condition has no such number, or doesn't know it.
    :param ends: the log ends that it was judged by; None where it wasn't judged by any.
    """

    done: bool
    summary: str
    result: dict[str, Any]
    remaining: int | None = None
    ends: FixedOffsets | None = None


Steps: TypeAlias = Asking[Progress]
"""A check, from question to question; each question comes back as its answer."""


class Condition:
    """Something to wait for: a frozen dataclass, so that equal conditions are one and are checked once."""

    kind: ClassVar[str]
    """Its name in a trigger's JSON."""
    stable_polls: int = 1
    """How many polls in a row it has to hold."""

    __slots__ = ()

    def steps(self) -> Steps:
        """One check.

        :raises ConditionFailedError: when it can't come true, by a policy that the user chose.
        :raises KafkaOffsetsError: when it can't be told; ``retriable`` says whether that may pass.
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
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]  # see the class
        return {"kind": self.kind} | {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, FixedOffsets):
        return value.to_json()
    if isinstance(value, IsolationLevel):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


Outcome: TypeAlias = Progress | Exception
"""How far a wait has come, or why that can't be told: a ``KafkaOffsetsError``, unless something is broken."""


def check_all(client: OffsetsClient, conditions: Iterable[Condition]) -> dict[Condition, Outcome]:
    """Check conditions side by side: in each round, equal kinds of questions go out as one."""
    outcomes: dict[Condition, Outcome] = {}
    running = {condition: condition.steps() for condition in conditions}
    questions: dict[Condition, Question[Any]] = {}
    _advance(running, {}, questions, outcomes)
    while questions:
        answers = ask_as_one(client, questions.values())
        _advance({each: running[each] for each in questions}, answers, questions, outcomes)
    return outcomes


def _advance(
    running: Mapping[Condition, Steps],
    answers: Mapping[Question[Any], Any],
    questions: dict[Condition, Question[Any]],
    outcomes: dict[Condition, Outcome],
) -> None:
    """Take each check to its next question, or to its end."""
    for condition, steps in running.items():
        question = questions.pop(condition, None)
        answer = None if question is None else answers[question]
        try:
            if isinstance(answer, Exception):  # the same one for many: without the frames of the others
                questions[condition] = steps.throw(answer.with_traceback(None))
            else:
                questions[condition] = steps.send(answer)
        except StopIteration as ended:
            outcomes[condition] = ended.value
        except Exception as error:
            outcomes[condition] = error
