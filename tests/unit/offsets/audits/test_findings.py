"""Findings in words. The rule that finds them: tests/integration/spark/audits/test_rule.py."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.offsets.audits.findings import (
    Finding,
    Problem,
    is_only_late,
    problem_words,
    problems_of,
)


class TestWords:
    FOUND = (
        Finding(Problem.FOREIGN, "t", 0, 7, 8, 2),
        Finding(Problem.MISSING, "t", 0, 3, 5, 2),
        Finding(Problem.MISSING, "t", 1, 9, 10, 1),
        Finding("unconfirmed", "t", 1, 11, 12, 1),
    )

    def test_amounts_are_in_the_order_of_problems(self) -> None:
        counts = problems_of(self.FOUND)
        assert counts == {"missing": 3, "foreign": 2}
        assert problem_words(counts) == "3 records missing, 2 rows foreign"
        assert problem_words({}) == ""

    @pytest.mark.parametrize(
        ("counts", "late"), [({}, False), ({"not_yet": 1}, True), ({"not_yet": 1, "missing": 1}, False)]
    )
    def test_only_what_is_merely_late_may_come_by_itself(self, counts: dict[str, int], late: bool) -> None:
        assert is_only_late(counts) is late

    def test_a_place_is_one_offset_or_the_first_and_the_last(self) -> None:
        assert list(map(str, self.FOUND[:2])) == ["t-0 at 7", "t-0 at 3 to 4"]
