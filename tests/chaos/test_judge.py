"""What the judge notices, where everybody knows what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.chaos.judge import LOG_END, MATCHED, Piece, Seen, judge

KEY = ("orders", 0)


def piece(window: int, start_offset: int, end_offset: int, lost_offsets: int = 0, evidence: str = MATCHED) -> Piece:
    """What the window of ten milliseconds, counted from 0, has of a log whose timestamps are the offsets."""
    published = tuple(range(start_offset, end_offset))
    return Piece(*KEY, 10 * window, 10 * window + 10, start_offset, end_offset, lost_offsets, evidence, published)


WHOLE = (piece(0, 0, 10), piece(1, 10, 20), piece(2, 25, 30, lost_offsets=5), piece(3, 30, 35, evidence=LOG_END))
"""Windows that tile, of which the third lost five offsets."""
LOG = Seen(frozenset(range(35)), {each: each for each in range(35)}, (0, 5, 25))


def problems(pieces: Sequence[Piece], log: Seen = LOG) -> list[str]:
    """What is wrong, up to where the story begins."""
    return [str(each).partition(";")[0] for each in judge(pieces, {KEY: log})]


def changed(number: int, **fields: object) -> list[Piece]:
    """The whole windows, one of them changed."""
    return [replace(each, **fields) if place == number else each for place, each in enumerate(WHOLE)]  # type: ignore[arg-type]


class TestJudge:
    def test_finds_nothing_wrong_with_windows_that_tile(self) -> None:
        assert problems(WHOLE) == []
        assert problems(WHOLE[::-1]) == []

    def test_leaves_gaps_in_the_log_and_records_before_the_first_window_alone(self) -> None:
        log = replace(LOG, visible=LOG.visible - {12, 13}, timestamps={each: each for each in range(35) if each != 12})
        published = tuple(each for each in range(10, 20) if each not in (12, 13))
        later = [replace(each, start_ms=each.start_ms + 1) for each in changed(1, published=published)[1:]]
        assert problems(later, log) == []

    @pytest.mark.parametrize(
        ("pieces", "problem"),
        [
            ([*WHOLE, WHOLE[1]], "orders-0 offset 10: in two windows, as 10 are"),
            ([WHOLE[0], *WHOLE[2:]], "orders-0 offset 10: in no window, and not reported as lost, as 10 are"),
            (changed(1, start_offset=9, published=tuple(range(9, 20))), "orders-0 offset 9: in two windows, as 1 are"),
            (changed(2, lost_offsets=4), "orders-0 offset 20: in no window, and not reported as lost, as 1 are"),
            (changed(2, lost_offsets=0), "orders-0 offset 20: in no window, and not reported as lost, as 5 are"),
            (changed(2, lost_offsets=6), "orders-0 offset 19: in two windows, as 1 are"),
            (changed(1, published=tuple(range(11, 20))), "orders-0 offset 10: in the log, and not in the output"),
            (changed(1, published=(*range(10, 20), 15)), "orders-0 offset 15: twice in the output"),
            (
                changed(1, published=tuple(range(10, 21))),
                "orders-0 offset 20: in the output, and not among the window's",
            ),
        ],
    )
    def test_notices_a_change(self, pieces: list[Piece], problem: str) -> None:
        assert problems(pieces)[0].startswith(problem)

    def test_notices_that_an_offset_that_is_there_is_reported_as_lost(self) -> None:
        pieces = [*WHOLE[:2], piece(2, 27, 30, lost_offsets=7), WHOLE[3]]
        assert problems(pieces)[0] == "orders-0 offset 25: reported as lost, and still in the log"
        early = [piece(0, 3, 10, lost_offsets=3), *WHOLE[1:]]
        assert problems(early)[0].startswith("orders-0 offset 2: reported as lost, though the log never began after it")

    def test_notices_that_later_windows_leave_a_partition_out(self) -> None:
        other = replace(WHOLE[0], partition=1, end_ms=40, end_offset=0, published=())
        found = judge([*WHOLE[:3], other], {KEY: LOG, ("orders", 1): LOG})
        assert "orders-0 offset 30: later windows leave its partition out" in str(found[0])

    def test_notices_that_a_partition_that_came_later_does_not_begin_with_its_first_record(self) -> None:
        later = [replace(each, partition=1) for each in WHOLE[1:]]
        seen = {KEY: LOG, ("orders", 1): replace(LOG, log_starts=(0, 10, 25))}
        (problem,) = judge([*WHOLE, *later], seen)
        assert "orders-1 offset 9: in no window, and not reported as lost" in str(problem)
        assert judge([*WHOLE, replace(later[0], lost_offsets=10), *later[1:]], seen) == []

    def test_notices_an_end_that_is_not_the_first_record_at_or_after_the_instant(self) -> None:
        late = [piece(0, 0, 11), piece(1, 11, 20), *WHOLE[2:]]
        assert problems(late) == ["orders-0 offset 10: has timestamp 10, at or after the window's end"]
        early = [piece(0, 0, 9), piece(1, 9, 20), *WHOLE[2:]]
        assert problems(early) == ["orders-0 offset 9: has timestamp 9, and was matched as the window's end"]
