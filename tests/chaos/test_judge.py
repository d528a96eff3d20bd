"""What the judge notices, in cases in which the problem is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.judge import LOG_END, MATCHED, Piece, Seen, judge
from tests.chaos.judge_windows import Hole, Remade, holes, judge_holes, judge_remade, judge_runs, judge_windows
from tests.chaos.ledger_files import Counted
from tests.chaos.publications import Holding, judge_apart, judge_kept, judge_lists, judge_publication
from tests.chaos.replay import Kept, Replay

KEY = ("orders", 0)


def piece(window: int, start_offset: int, end_offset: int, lost_offsets: int = 0, evidence: str = MATCHED) -> Piece:
    """The piece of a window of ten milliseconds (counted from 0), in a log whose timestamps are the offsets."""
    published = tuple(range(start_offset, end_offset))
    return Piece(*KEY, 10 * window, 10 * window + 10, start_offset, end_offset, lost_offsets, evidence, published)


WHOLE = (piece(0, 0, 10), piece(1, 10, 20), piece(2, 25, 30, lost_offsets=5), piece(3, 30, 35, evidence=LOG_END))
"""Windows that tile; the third one has lost five offsets."""
LOG = Seen(frozenset(range(35)), {each: each for each in range(35)}, (0, 5, 25))


def problems(pieces: Sequence[Piece], log: Seen = LOG) -> list[str]:
    """The problems, without their stories."""
    return [str(each).partition(";")[0] for each in judge(pieces, {KEY: log})]


def changed(number: int, **fields: object) -> list[Piece]:
    """The windows of ``WHOLE``, one of them changed."""
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


def times(window: int) -> tuple[int, int]:
    """Where a window of ten milliseconds starts and ends."""
    return 10 * window, 10 * window + 10


def test_windows_that_are_not_published_or_not_planned_are_noticed() -> None:
    words = ["window (10, 20) isn't published", "window (15, 25) is published, and isn't planned"]
    assert judge_windows([(0, 10), (15, 25)], [(0, 10), (10, 20)]) == words
    assert judge_windows([(0, 10)], [(0, 10), (10, 20)], shaken=[(10, 20)]) == []


class TestHoles:
    SOME = (WHOLE[0], WHOLE[3])
    HOLE = Hole(10, 30, {KEY: range(10, 30)})

    def test_finds_what_no_window_has_and_nothing_where_they_meet(self) -> None:
        assert holes(self.SOME) == [self.HOLE]
        assert holes(WHOLE) == []
        assert holes([WHOLE[0], piece(3, 10, 30)]) == [], "time without offsets"

    def test_a_partition_that_came_within_a_hole_belongs_to_it_but_for_what_its_first_window_has(self) -> None:
        later = replace(WHOLE[3], partition=1)
        assert holes([*self.SOME, later])[0].offsets == {KEY: range(10, 30), ("orders", 1): range(30)}
        assert holes([*self.SOME, replace(later, lost_offsets=30)]) == [self.HOLE]

    def test_holes_that_are_told_as_they_are_are_in_order(self) -> None:
        assert judge_holes(self.SOME, [self.HOLE]) == []
        assert judge_holes(WHOLE, []) == []

    def test_notices_one_that_is_not_told(self) -> None:
        (missing,) = judge_holes(self.SOME, [])
        assert "isn't told as it is: None" in missing

    def test_notices_one_that_is_told_with_other_offsets(self) -> None:
        (wrong,) = judge_holes(self.SOME, [replace(self.HOLE, offsets={KEY: range(10, 29)})])
        assert "isn't told as it is" in wrong

    def test_notices_one_that_is_told_and_not_there(self) -> None:
        assert judge_holes(WHOLE, [self.HOLE]) == ["a hole (10, 30) is told, and isn't there"]


class TestRuns:
    def test_each_run_has_an_increment_of_its_own_however_often_it_asks(self) -> None:
        assert judge_runs([(0, 5), (5, 9)], [(0, (0, 5)), (1, (5, 9)), (0, (0, 5))]) == []

    @pytest.mark.parametrize(
        ("answers", "complaint"),
        [
            ([(0, (0, 5)), (0, (5, 9))], "run 0 has 2 increments: [(0, 5), (5, 9)]"),
            ([(0, (0, 5)), (1, (0, 5)), (2, (5, 9))], "runs [0, 1] have one increment: (0, 5)"),
            ([(0, (0, 5)), (1, (5, 9)), (2, (9, 11))], "window (9, 11) isn't published"),
            ([(0, (0, 5))], "window (5, 9) is published, and isn't planned"),
        ],
    )
    def test_notices_a_run_without_one_of_its_own(
        self, answers: Sequence[tuple[int, tuple[int, int]]], complaint: str
    ) -> None:
        assert judge_runs([(0, 5), (5, 9)], answers) == [complaint]


class TestRemade:
    """Topics that were re-created, and whose ledger was told."""

    AFTER = replace(piece(1, 0, 8), published=(0, 1, 3, 4))
    RIGHT = Remade([True, True], [AFTER], (0, 10), {KEY: [0, 1, 3, 4]}, {KEY: range(3, 6)}, records=6)

    def test_loads_that_were_refused_and_a_window_with_all_of_the_new_topic_are_in_order(self) -> None:
        assert list(judge_remade(self.RIGHT)) == []

    @pytest.mark.parametrize(
        ("found", "complaint"),
        [
            (replace(RIGHT, refused=[]), "no load was tried after the topic was re-created"),
            (replace(RIGHT, refused=[True, False]), "a window was loaded, though its topic was re-created"),
            (
                replace(RIGHT, pieces=[piece(0, 0, 3), AFTER]),
                "the first window is published, though its topic was re-created",
            ),
            (
                replace(RIGHT, pieces=[replace(AFTER, published=(0, 1, 3))]),
                "after the restart ('orders', 0) has [0, 1, 3, 4], and [0, 1, 3] are published",
            ),
            (
                replace(RIGHT, left={}),
                "the restart says that range(0, 0) of ('orders', 0) was left, which had 6 records",
            ),
        ],
    )
    def test_notices_what_is_wrong(self, found: Remade, complaint: str) -> None:
        assert list(judge_remade(found)) == [complaint]


NAMES = [f"20250101T00{minute:02d}00000Z_20250101T00{minute + 10:02d}00000Z" for minute in (0, 10, 5)]
"""Two windows in a row, and one that crosses both."""
T0 = 1_735_689_600_000
TIMES = [(T0 + minute * 60_000, T0 + (minute + 10) * 60_000) for minute in (0, 10, 5)]


def at(minute: int, offsets: str = "a") -> dict[str, Any]:
    return {"entry": "snapshot", "at_ms": T0 + minute * 60_000, "offsets": offsets}


def entry(kind: str, which: int = 0, **fields: Any) -> dict[str, Any]:
    """An entry about a window."""
    usual = {
        "window": {"manifest": f"m{which}"},
        "attempt": {"lost": []},
        "published": {"apart": True, "run": "r", "result": "res", "outputs": [["", "files", "/out", 5]]},
    }
    return {"entry": kind, "window": NAMES[which]} | usual.get(kind, {}) | fields


PINNED = [[{"entry": "created"}], [*map(at, (0, 5, 10, 15, 20)), entry("window", 0), entry("window", 1)]]
"""Two commits: the ledger, and two windows."""
ATTEMPT, PUBLISHED = [entry("attempt")], [entry("published", attempt=3)]


def replayed(*commits: list[dict[str, Any]]) -> Replay:
    """The two commits, and others after them, from number 3 on."""
    found = Replay()
    for number, entries in enumerate([*PINNED, *commits], start=1):
        found.add(number, entries)
    return found


class TestReplay:
    """A ledger's log."""

    def test_a_window_that_is_loaded_again_and_one_that_is_taken_away_are_in_order(self) -> None:
        again = [[entry("reload")], [entry("attempt", lost=[["orders", 0, 3, 5]])], [entry("published", attempt=6)]]
        found = replayed(ATTEMPT, PUBLISHED, *again, [entry("verified", attempt=6)], [entry("void", 1)])
        assert found.complaints == []
        assert list(found.windows) == [TIMES[0]]
        assert (found.windows[TIMES[0]].by, found.windows[TIMES[0]].lost) == (7, {KEY: range(3, 5)})

    def test_what_is_after_an_instant_may_be_resolved_again_after_a_rewind(self) -> None:
        rewound = [[{"entry": "rewind", "to_ms": T0 + 600_000}], [at(20, "b"), entry("window", 1)]]
        found = replayed(ATTEMPT, PUBLISHED, *rewound)
        assert found.complaints == []
        assert {times: kept.is_loaded for times, kept in found.windows.items()} == {TIMES[0]: True, TIMES[1]: False}

    @pytest.mark.parametrize(
        ("commits", "complaint"),
        [
            ([[at(20, "b")]], f"the snapshot at {T0 + 1_200_000} is resolved again"),
            ([[entry("window", 2)]], f"window {TIMES[2]} crosses {TIMES[:2]}"),
            (
                [[{"entry": "rewind", "to_ms": T0}], [at(10), entry("window", 1)]],
                f"window {TIMES[1]} is between snapshots that don't count",
            ),
            ([[entry("void")], ATTEMPT], f"attempt is about {NAMES[0]}, which doesn't count"),
            ([ATTEMPT, PUBLISHED, ATTEMPT], f"an attempt begins at {NAMES[0]}, which is loaded"),
            ([ATTEMPT, ATTEMPT, PUBLISHED, PUBLISHED], f"{NAMES[0]} is published, and is loaded already"),
            (
                [ATTEMPT, [entry("reload")], PUBLISHED],
                f"attempt 3 at {NAMES[0]} is published, and isn't one of [3]",
            ),
            (
                [ATTEMPT, ATTEMPT, [entry("published", attempt=3, apart=False)]],
                f"attempt 3 at {NAMES[0]} is published, and a later one may have its place",
            ),
            ([ATTEMPT, [entry("verified", attempt=3)]], f"attempt 3 at {NAMES[0]} is verified, and isn't published"),
            ([[{"entry": "created"}]], "the ledger is created again"),
        ],
    )
    def test_notices_what_must_not_have_been_committed(
        self, commits: list[list[dict[str, Any]]], complaint: str
    ) -> None:
        found = replayed(*commits).complaints
        assert [each.partition(": ")[2] for each in found] == [complaint]

    def test_notices_that_a_commit_is_missing(self) -> None:
        found = replayed()
        found.add(4, [])
        assert found.complaints == ["commit 4: it follows 2"]


class TestPublications:
    """What a publication says, and what is there."""

    KEPT = Kept("m0", {3: ATTEMPT[0]}, published=PUBLISHED[0], by=4)
    COUNTED = Counted("res", 5, "/out", "m0")

    def test_one_that_says_what_was_counted_is_in_order(self) -> None:
        assert list(judge_publication(self.KEPT, self.COUNTED, 5)) == []
        assert list(judge_publication(self.KEPT, self.COUNTED, 5, held_by=3)) == []

    @pytest.mark.parametrize(
        ("counted", "held", "held_by", "complaint"),
        [
            (None, 5, None, "is published, and has counted nothing"),
            (replace(COUNTED, sha256="0"), 5, None, "is published with another result than there is"),
            (replace(COUNTED, manifest="m1"), 5, None, "has read another manifest than the window's"),
            (replace(COUNTED, output="/else"), 5, None, "is published in /out, and has written to /else"),
            (replace(COUNTED, rows=4), 5, None, "is published with 5 rows, of which it has counted 4, and there are 5"),
            (COUNTED, 10, None, "is published with 5 rows, of which it has counted 5, and there are 10"),
            (COUNTED, 5, 9, "is published, and the table has the rows of attempt 9"),
        ],
    )
    def test_notices_a_wrong_one(self, counted: Counted | None, held: int, held_by: int | None, complaint: str) -> None:
        assert list(judge_publication(self.KEPT, counted, held, held_by)) == [f"attempt 3-r {complaint}"]

    def test_notices_that_two_ledgers_have_published_one_place(self) -> None:
        elsewhere = replace(self.KEPT, published=entry("published", attempt=3, outputs=[["", "files", "/else", 5]]))
        nowhere = replace(self.KEPT, published=entry("published", attempt=3, outputs=[["", "none", None, 0]]))
        assert judge_apart({times(0): self.KEPT}, {times(0): elsewhere}) == []
        assert judge_apart({times(0): nowhere}, {times(0): nowhere}) == []
        assert judge_apart({times(0): self.KEPT}, {times(1): self.KEPT}) == ["both ledgers have published /out"]


class TestWhatIsKept:
    """Rows that were published."""

    BEFORE: Holding = {(0, 10): {KEY: [1, 2]}}

    def test_rows_that_are_the_same_are_in_order_whatever_comes_beside_them(self) -> None:
        assert judge_kept(self.BEFORE, {**self.BEFORE, (10, 20): {KEY: [1, 2, 3]}}) == []
        assert judge_kept(self.BEFORE, {(0, 10): {KEY: [2, 1], ("orders", 1): []}}) == []

    @pytest.mark.parametrize("offsets", [[1], [1, 2, 2], [1, 3]])
    def test_notices_that_they_changed_or_doubled(self, offsets: list[int]) -> None:
        assert judge_kept(self.BEFORE, {(0, 10): {KEY: offsets}}) == ["window (0, 10) has other rows by now"]

    def test_notices_that_a_window_is_gone(self) -> None:
        assert judge_kept(self.BEFORE, {}) == ["window (0, 10) is gone"]

    def test_lists_that_name_the_files_of_what_counts_are_in_order(self) -> None:
        assert judge_lists(self.BEFORE, self.BEFORE) == []
        assert judge_lists({(0, 10): {}}, {}) == [], "a window without rows needs no list"
        assert judge_lists(self.BEFORE, {**self.BEFORE, (10, 20): {}}) == []

    @pytest.mark.parametrize(
        ("listed", "window"),
        [({}, (0, 10)), ({(0, 10): {KEY: [1]}}, (0, 10)), ({**BEFORE, (10, 20): {KEY: [3]}}, (10, 20))],
    )
    def test_notices_a_list_that_names_others(self, listed: Holding, window: tuple[int, int]) -> None:
        words = f"the list of window {window} names other rows than are published"
        assert judge_lists(self.BEFORE, listed) == [words]
