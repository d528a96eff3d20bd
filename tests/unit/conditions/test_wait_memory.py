"""A wait: when it ends, when it is patient, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.conditions.wait_memory import WaitMemory, WaitStatus
from airflow_kafka_offsets.errors import (
    AuthenticationError,
    ClusterUnreachableError,
    ConditionFailedError,
    OffsetsError,
    ResponseError,
    TopicChangedError,
)

NOT_ALLOWED = OffsetsError("Asking", [("t-0", ResponseError("TOPIC_AUTHORIZATION_FAILED", 29, False))])
NO_ANSWER = ClusterUnreachableError("no broker answered")


def progress(remaining: int | None = 5, *, done: bool = False) -> Progress:
    return Progress(done, f"{remaining} to go", {"left": remaining}, remaining)


DONE = progress(0, done=True)


class TestEnding:
    def test_it_ends_when_the_condition_holds(self) -> None:
        verdict = WaitMemory(10).take(DONE)
        assert (verdict.status, verdict.result, verdict.line) == ("done", {"left": 0}, "0 to go")

    def test_it_waits_until_the_condition_has_held_so_many_polls_in_a_row(self) -> None:
        wait = WaitMemory(10, stable_polls=2)
        outcomes = [DONE, progress(), DONE, NO_ANSWER, DONE, DONE]
        verdicts = [wait.take(each) for each in outcomes]
        assert [each.status for each in verdicts] == ["waiting"] * 5 + ["done"]
        assert verdicts[0].line == "0 to go; held 1 of 2 polls"

    @pytest.mark.parametrize(
        "error", [NOT_ALLOWED, AuthenticationError("wrong password"), ConditionFailedError("misspelt")]
    )
    def test_a_fault_that_is_there_from_the_start_fails_at_once(self, error: Exception) -> None:
        verdict = WaitMemory(10).take(error)
        assert (verdict.status, verdict.message) == ("failed", str(error))

    def test_a_passing_fault_never_fails(self) -> None:
        wait = WaitMemory(10)
        assert {wait.take(NO_ANSWER).status for _ in range(100)} == {"waiting"}

    @pytest.mark.parametrize("error", [NOT_ALLOWED, AuthenticationError("wrong password")])
    def test_what_was_good_before_may_be_gone_for_five_polls(self, error: Exception) -> None:
        wait = WaitMemory(10)
        wait.take(progress())
        assert [wait.take(error).status for _ in range(6)] == ["waiting"] * 5 + ["failed"]

    def test_when_it_comes_back_patience_starts_anew(self) -> None:
        wait = WaitMemory(10)
        outcomes = [progress(), *[NOT_ALLOWED] * 5, progress(), *[NOT_ALLOWED] * 5, DONE]
        assert [wait.take(each).status for each in outcomes][-1] == "done"

    @pytest.mark.parametrize("error", [ConditionFailedError("by policy"), TopicChangedError("re-created")])
    def test_what_can_not_come_true_any_more_fails_at_once_at_any_time(self, error: Exception) -> None:
        wait = WaitMemory(10)
        wait.take(progress())
        assert wait.take(error).status == "failed"

    def test_a_fault_of_our_own_is_no_outcome(self) -> None:
        with pytest.raises(ZeroDivisionError):
            WaitMemory(10).take(ZeroDivisionError())


def test_it_says_something_only_when_something_has_changed() -> None:
    wait = WaitMemory(10)
    lines = [wait.take(each).line for each in (progress(5), progress(5), NO_ANSWER, NO_ANSWER, progress(5), DONE)]
    assert lines == ["5 to go", "", "Asking again in 10 s: no broker answered", "", "5 to go", "0 to go"]


class TestMemory:
    def test_a_wait_goes_on_in_another_process(self) -> None:
        here = WaitMemory(10, stable_polls=2)
        verdicts: list[WaitStatus] = []
        for each in (progress(100), progress(50), NOT_ALLOWED, DONE, DONE):
            here = WaitMemory(10, stable_polls=2, memory=json.loads(json.dumps(here.to_json())))
            verdicts.append(here.take(each))
        assert [each.status for each in verdicts] == ["waiting"] * 4 + ["done"]
        assert [each.line for each in verdicts[:2]] == ["100 to go", "50 to go"]

    @pytest.mark.parametrize(
        "memory",
        [
            {"held": "twice"},
            {"faults": None},
            ["said"],
        ],
    )
    def test_what_another_version_remembered_in_another_way_is_dropped_as_a_whole(self, memory: Any) -> None:
        kept = {"answered": True, "held": 1} | memory if isinstance(memory, dict) else memory
        assert WaitMemory(10, stable_polls=2, memory=kept).to_json() == WaitMemory(10).to_json()
