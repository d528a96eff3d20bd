"""Checks: any number of conditions are checked with the calls of one, and none suffers from another one's fault."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.conditions import CONDITIONS
from airflow_kafka_offsets.conditions.condition import Answers, Condition, Need, Progress, check_all
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.new_data import NewData
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.conditions.window_complete import WindowComplete
from airflow_kafka_offsets.errors import ClusterUnreachableError, ConfigurationError, KafkaOffsetsError
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets

ASKED: list[tuple[frozenset[int], IsolationLevel]] = []


class Squares(Need[dict[int, int]]):
    """The squares of numbers, from a service that answers many at once, but not for 13."""

    def ask(self, client: Any) -> dict[int, int]:
        ASKED.append((self.wanted, self.isolation_level))
        if 13 in self.wanted:
            raise KafkaOffsetsError("not today")
        return {each: each * each for each in self.wanted}

    def part(self, answer: dict[int, int]) -> dict[int, int]:
        return {each: answer[each] for each in self.wanted}


@dataclass(frozen=True, slots=True)
class Sum(Condition):
    """Needs to know the squares of one set of numbers after the other; its result is all of the answers."""

    kind: ClassVar[str] = "sum"

    numbers: tuple[frozenset[int], ...]
    level: IsolationLevel = IsolationLevel.READ_COMMITTED

    def judge(self, answers: Answers) -> Progress:
        squares = [answers[Squares(each, self.level)] for each in self.numbers]
        return Progress(True, "", {"answers": squares})


@dataclass(frozen=True, slots=True)
class Broken(Condition):
    kind: ClassVar[str] = "broken"

    def judge(self, answers: Answers) -> NoReturn:
        raise ZeroDivisionError


def check(*conditions: Condition) -> dict[Condition, Any]:
    ASKED.clear()
    return check_all(None, conditions)  # type: ignore[arg-type]  # these needs take no client


def sums(*numbers: Iterable[int], level: IsolationLevel = IsolationLevel.READ_COMMITTED) -> Sum:
    return Sum(tuple(map(frozenset, numbers)), level)


class TestAskingAsOne:
    def test_what_many_need_is_asked_once_each_round(self) -> None:
        check(sums([1, 2], [5]), sums([2, 3], [6]), sums([9]))
        assert [wanted for wanted, _ in ASKED] == [{1, 2, 3, 9}, {5, 6}]

    def test_what_another_one_has_asked_before_is_known(self) -> None:
        outcomes = check(sums([1], [2]), sums([2], [1]))
        assert [wanted for wanted, _ in ASKED] == [{1, 2}]
        assert outcomes[sums([2], [1])].result == {"answers": [{2: 4}, {1: 1}]}

    def test_each_isolation_level_is_asked_for_itself(self) -> None:
        check(*(sums([1], level=level) for level in IsolationLevel))
        assert {level for _, level in ASKED} == set(IsolationLevel)

    def test_equal_conditions_are_one(self) -> None:
        assert len(check(sums([1]), sums([1]))) == 1
        assert len(ASKED) == 1

    def test_nothing_is_asked_about_nothing(self) -> None:
        assert check(sums([]))[sums([])].result == {"answers": [{}]}
        assert ASKED == []

    @given(st.lists(st.lists(st.frozensets(st.integers(0, 9)), max_size=3), max_size=6))
    def test_many_are_told_what_each_would_be_told_alone(self, several: list[list[frozenset[int]]]) -> None:
        conditions = [Sum(tuple(each)) for each in several]
        together = check(*conditions)
        assert len(ASKED) <= max(map(len, several), default=0)
        assert together == {each: check(each)[each] for each in conditions}


class TestFaults:
    def test_one_that_names_something_unknown_is_no_other_ones_fault(self) -> None:
        outcomes = check(sums([13]), sums([1, 2]), sums([2]))
        assert isinstance(outcomes[sums([13])], KafkaOffsetsError)
        assert outcomes[sums([1, 2])].done
        assert outcomes[sums([2])].done

    def test_what_failed_for_another_one_before_is_not_asked_again(self) -> None:
        outcomes = check(sums([13]), sums([2], [13]))
        assert isinstance(outcomes[sums([2], [13])], KafkaOffsetsError)
        assert [wanted for wanted, _ in ASKED] == [{2, 13}, {13}, {2}]

    def test_a_cluster_that_does_not_answer_is_asked_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(need: Squares, client: Any) -> NoReturn:
            ASKED.append((need.wanted, need.isolation_level))
            raise ClusterUnreachableError("no broker answered")

        monkeypatch.setattr(Squares, "ask", fail)
        outcomes = check(sums([1]), sums([2]))
        assert [type(each) for each in outcomes.values()] == [ClusterUnreachableError] * 2
        assert len(ASKED) == 1

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
