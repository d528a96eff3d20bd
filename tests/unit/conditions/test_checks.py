"""Checks: any number of conditions are checked with the calls of one, and none suffers from another one's fault."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_offsets.conditions import CONDITIONS
from airflow_kafka_offsets.conditions.condition import Asking, ClientCall, Condition, Progress, ask, check_all
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.log_ends_found import LogEndsFound
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets

ASKED: list[tuple[frozenset[int], str]] = []


@dataclass(frozen=True, slots=True)
class Squares(ClientCall[dict[int, int]]):
    """The squares of ``wanted``, from a service that answers many at once; ``mood`` is a kind of its own."""

    mood: str = "good"

    def make(self, client: Any) -> dict[int, int]:
        ASKED.append((self.wanted, self.mood))
        if self.mood == "bad":
            raise KafkaOffsetsError("not today")
        return {each: each * each for each in self.wanted}

    def part(self, answer: dict[int, int]) -> dict[int, int]:
        return {each: answer[each] for each in self.wanted}


@dataclass(frozen=True, slots=True)
class Sum(Condition):
    """Asks for squares as often as it has sets of numbers; its result is all of the answers."""

    kind: ClassVar[str] = "sum"

    numbers: tuple[frozenset[int], ...]
    mood: str = "good"

    def steps(self) -> Asking[Progress]:
        answers = []
        for each in self.numbers:
            answers.append((yield Squares(each, mood=self.mood)))
        return Progress(True, "", {"answers": answers})


@dataclass(frozen=True, slots=True)
class Broken(Condition):
    kind: ClassVar[str] = "broken"

    def steps(self) -> Asking[Progress]:
        yield from ask(Squares, [1])
        raise ZeroDivisionError


def check(*conditions: Condition) -> dict[Condition, Any]:
    ASKED.clear()
    return check_all(None, conditions)  # type: ignore[arg-type]  # these calls need no client


def sums(*numbers: Iterable[int], mood: str = "good") -> Sum:
    return Sum(tuple(map(frozenset, numbers)), mood)


class TestAskingAsOne:
    def test_equal_kinds_of_calls_go_out_as_one_each_round(self) -> None:
        check(sums([1, 2], [5]), sums([2, 3], [6]), sums([9]))
        assert [(frozenset({1, 2, 3, 9}), "good"), (frozenset({5, 6}), "good")] == ASKED

    def test_calls_that_differ_in_more_than_what_they_are_about_do_not(self) -> None:
        check(sums([1]), sums([1], mood="fine"))
        assert sorted(mood for _, mood in ASKED) == ["fine", "good"]

    def test_equal_conditions_are_one(self) -> None:
        assert len(check(sums([1]), sums([1]))) == 1
        assert len(ASKED) == 1

    def test_each_gets_its_own_part_of_the_answer(self) -> None:
        outcomes = check(sums([1, 2]), sums([2, 3]))
        assert outcomes[sums([1, 2])].result == {"answers": [{1: 1, 2: 4}]}

    @given(st.lists(st.lists(st.frozensets(st.integers(0, 9)), max_size=3), max_size=6))
    def test_many_are_told_what_each_would_be_told_alone(self, several: list[list[frozenset[int]]]) -> None:
        conditions = [Sum(tuple(each)) for each in several]
        together = check(*conditions)
        assert together == {each: check(each)[each] for each in conditions}
        check(*conditions)
        assert len(ASKED) <= max(map(len, several), default=0)


class TestFaults:
    def test_a_failed_call_is_the_outcome_of_those_that_made_it_alone(self) -> None:
        outcomes = check(sums([1], mood="bad"), sums([1]))
        assert isinstance(outcomes[sums([1], mood="bad")], KafkaOffsetsError)
        assert outcomes[sums([1])].done

    def test_a_broken_check_is_its_own_outcome(self) -> None:
        outcomes = check(Broken(), sums([1]))
        assert isinstance(outcomes[Broken()], ZeroDivisionError)
        assert outcomes[sums([1])].done


POSITIONS = FixedOffsets.of(
    "snapshot 1",
    [SeenOffset("t", 0, 5), SeenOffset("t", 1, 7, 4)],
    {"t": "id-1"},
    "s3://l/p",
    cluster_id="cluster-1",
)


class TestJson:
    @pytest.mark.parametrize(
        "condition",
        [
            GroupsCaughtUp(("a", "b"), ("t",), max_lag=3, no_commit="wait", stable_polls=2),
            GroupsCaughtUp(("a",), max_age_ms=60_000, isolation_level=IsolationLevel.READ_UNCOMMITTED),
            OffsetsReached("g", POSITIONS),
            LogEndsFound("g"),
            LogEndsFound("g", ("t",), IsolationLevel.READ_UNCOMMITTED),
            WindowComplete(("t",), 1_795_240_800_000, idle="assume_after", idle_after_ms=1000),
            NewData(("t",), POSITIONS, 10),
            NewData(("t",), FixedOffsets("the log starts")),
        ],
    )
    def test_a_condition_survives_the_way_to_the_triggerer(self, condition: Condition) -> None:
        fields = json.loads(json.dumps(condition.to_json()))
        assert CONDITIONS[fields["kind"]].from_json(fields) == condition


class TestArguments:
    @pytest.mark.parametrize(
        "arguments",
        [
            {"groups": ()},
            {"max_lag": -1},
            {"max_age_ms": -1},
            {"stable_polls": 0},
            {"no_commit": "skip"},
            {"unknown_group": "pass"},
        ],
    )
    def test_a_group_condition_refuses_what_makes_no_sense(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError):
            GroupsCaughtUp(**{"groups": ("g",)} | arguments)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"topics": ()},
            {"idle": "assume"},
            {"idle": "assume_after"},
            {"idle": "wait", "idle_after_ms": 5},
            {"idle": "fail", "idle_after_ms": -1},
            {"allowed_lateness_ms": -1},
        ],
    )
    def test_a_window_condition_does_too(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError):
            WindowComplete(**{"topics": ("t",), "instant_ms": 1_795_240_800_000} | arguments)

    def test_nothing_to_reach_and_nothing_to_count_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="nothing to reach"):
            OffsetsReached("g", FixedOffsets("nothing"))
        with pytest.raises(ConfigurationError):
            NewData(("t",), POSITIONS, 0)
        with pytest.raises(ConfigurationError):
            NewData((), POSITIONS)
