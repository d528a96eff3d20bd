"""The rule: what is wrong at an offset, against an oracle that knows what became of each record."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.offsets.audits.findings import (
    Finding,
    Known,
    Problem,
    is_only_late,
    problem_at,
    problem_words,
    problems_of,
)

OFFSETS = 40
FATES = st.lists(st.sampled_from(("record", "aborted", "marker", "compacted")), min_size=OFFSETS, max_size=OFFSETS)


def expected(fate: str, rows: int, *, is_gone: bool, is_late: bool, compacted: bool) -> set[str]:
    """What an owner of the table wants to hear of an offset, who knows what became of it."""
    if rows > 1 and (is_gone or fate == "record"):
        return {"doubled"}
    if is_gone:
        return set()
    if fate == "record":
        return set() if rows else {"not_yet" if is_late else "missing"}
    if not rows:
        return set()
    if not compacted:
        return {"foreign"}
    return {"doubled"} if rows > 1 else {"unconfirmed"}


@given(
    fates=FATES,
    rows=st.lists(st.integers(0, 2), min_size=OFFSETS, max_size=OFFSETS),
    log_start=st.integers(0, OFFSETS),
    written_to=st.none() | st.integers(0, OFFSETS),
    compacted=st.booleans(),
)
def test_each_offset_is_judged_as_somebody_would_who_knows_its_fate(
    fates: list[str], rows: list[int], log_start: int, written_to: int | None, compacted: bool
) -> None:
    known = Known(log_start, written_to, compacted)
    for offset, (fate, times) in enumerate(zip(fates, rows, strict=True)):
        found = problem_at(offset, int(fate == "record"), times, known)
        is_late = written_to is not None and offset >= written_to
        of = expected(fate, times, is_gone=offset < log_start, is_late=is_late, compacted=compacted)
        assert {found} - {None} == of, (offset, fate)


@pytest.mark.parametrize("fate", ["aborted", "marker", "compacted"])
def test_an_offset_without_a_record_is_never_missing(fate: str) -> None:
    for compacted in (False, True):
        assert problem_at(5, 0, 0, Known(0, None, compacted)) is None


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
