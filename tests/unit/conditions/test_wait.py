"""A wait: when it ends, when it is patient, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_kafka_offsets.conditions.condition import Progress
from airflow_kafka_offsets.conditions.wait import Wait, WaitStatus
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
        verdict = Wait(10).take(DONE, 0)
        assert (verdict.status, verdict.result, verdict.line) == ("done", {"left": 0}, "0 to go")

    def test_it_waits_until_the_condition_has_held_so_many_polls_in_a_row(self) -> None:
        wait = Wait(10, stable_polls=2)
        outcomes = [DONE, progress(), DONE, NO_ANSWER, DONE, DONE]
        assert [wait.take(each, n).status for n, each in enumerate(outcomes)] == ["waiting"] * 5 + ["done"]

    @pytest.mark.parametrize(
        "error", [NOT_ALLOWED, AuthenticationError("wrong password"), ConditionFailedError("misspelt")]
    )
    def test_a_fault_that_is_there_from_the_start_fails_at_once(self, error: Exception) -> None:
        verdict = Wait(10).take(error, 0)
        assert (verdict.status, verdict.message) == ("failed", str(error))

    def test_a_passing_fault_never_fails(self) -> None:
        wait = Wait(10)
        assert {wait.take(NO_ANSWER, n).status for n in range(100)} == {"waiting"}

    @pytest.mark.parametrize("error", [NOT_ALLOWED, AuthenticationError("wrong password")])
    def test_what_was_good_before_may_be_gone_for_five_polls(self, error: Exception) -> None:
        wait = Wait(10)
        wait.take(progress(), 0)
        assert [wait.take(error, n).status for n in range(6)] == ["waiting"] * 5 + ["failed"]

    def test_when_it_comes_back_patience_starts_anew(self) -> None:
        wait = Wait(10)
        outcomes = [progress(), *[NOT_ALLOWED] * 5, progress(), *[NOT_ALLOWED] * 5, DONE]
        assert [wait.take(each, 0).status for each in outcomes][-1] == "done"

    @pytest.mark.parametrize("error", [ConditionFailedError("by policy"), TopicChangedError("re-created")])
    def test_what_can_not_come_true_any_more_fails_at_once_at_any_time(self, error: Exception) -> None:
        wait = Wait(10)
        wait.take(progress(), 0)
        assert wait.take(error, 1).status == "failed"

    def test_a_fault_of_our_own_is_no_outcome(self) -> None:
        with pytest.raises(ZeroDivisionError):
            Wait(10).take(ZeroDivisionError(), 0)


class TestLines:
    def lines(self, wait: Wait, *outcomes: Progress | Exception, step_s: float = 10) -> list[str]:
        return [wait.take(each, n * step_s).line for n, each in enumerate(outcomes)]

    def test_it_says_something_only_when_something_has_changed(self) -> None:
        lines = self.lines(Wait(10), progress(5), progress(5), NO_ANSWER, NO_ANSWER, progress(5), DONE)
        asking = "Asking again in 10 s: no broker answered"
        assert lines == ["5 to go", "", asking, "", "5 to go", "0 to go"]

    def test_it_says_how_fast_it_goes_and_when_that_will_be_done(self) -> None:
        lines = self.lines(Wait(10), progress(1000), progress(900), progress(800))
        assert lines[1:] == [
            "900 to go; falling by 10/s, done in about 90 s",
            "800 to go; falling by 10/s, done in about 80 s",
        ]

    def test_it_says_when_it_grows(self) -> None:
        assert self.lines(Wait(10), progress(100), progress(150))[1] == "150 to go; growing by 5/s"

    @pytest.mark.parametrize(
        ("left", "words"), [(600, "60 s"), (30_000, "50 minutes"), (180_000, "5 hours"), (9_000_000, "10 days")]
    )
    def test_it_says_it_in_fitting_units(self, left: int, words: str) -> None:
        assert self.lines(Wait(10), progress(left + 100), progress(left))[1].endswith(f"done in about {words}")

    def test_without_numbers_it_says_nothing_of_a_pace(self) -> None:
        assert self.lines(Wait(10), progress(None), DONE) == ["None to go", "0 to go"]


class TestMemory:
    def test_a_wait_goes_on_in_another_process(self) -> None:
        here = Wait(10, stable_polls=2)
        verdicts: list[WaitStatus] = []
        for n, each in enumerate([progress(100), progress(50), NOT_ALLOWED, DONE, DONE]):
            here = Wait(10, stable_polls=2, memory=json.loads(json.dumps(here.to_json())))
            verdicts.append(here.take(each, n * 10))
        assert [each.status for each in verdicts] == ["waiting"] * 4 + ["done"]
        assert verdicts[1].line == "50 to go; falling by 5/s, done in about 10 s"

    @pytest.mark.parametrize(
        "memory",
        [
            {"history": [[1.0, 2, {}]]},
            {"history": [["noon", 2]]},
            {"history": [[1.0, float("inf")]]},
            {"history": 1},
            {"held": "twice"},
            {"faults": None},
            ["said"],
        ],
    )
    def test_what_another_version_remembered_in_another_way_is_dropped_as_a_whole(self, memory: Any) -> None:
        kept = {"answered": True, "held": 1} | memory if isinstance(memory, dict) else memory
        assert Wait(10, stable_polls=2, memory=kept).to_json() == Wait(10).to_json()
