"""What the judge notices, in cases in which the problem is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.judge import (
    LOG_END,
    MATCHED,
    Cut,
    Hole,
    Piece,
    Seen,
    Trial,
    holes,
    judge,
    judge_cuts,
    judge_holes,
    judge_runs,
    judge_trials,
    judge_windows,
)
from tests.chaos.publications import Counted, Holding, Shelf, judge_apart, judge_kept, judge_lists, judge_publications

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


def times(window: int, other: int | None = None) -> tuple[int, int]:
    """Where a window of ten milliseconds starts, and where it or another one ends."""
    return 10 * window, 10 * (window if other is None else other) + 10


CUT = Cut((15, 25), {KEY: range(15, 25)}, {times(0), times(1)}, refused_by=times(1))
"""A cut that shares five offsets with the second window, and five lost ones with the third."""


class TestCuts:
    @pytest.mark.parametrize(
        "cut",
        [
            CUT,
            replace(CUT, refused_by=times(2)),
            replace(CUT, refused_by=None, before={times(0)}),
            replace(CUT, refused_by=None, offsets={KEY: range(15, 15)}, stands=True),
            replace(CUT, refused_by=(12, 22), offsets={}),
            replace(CUT, refused_by=None, offsets={("orders", 1): range(40)}),
        ],
    )
    def test_a_refused_one_and_one_that_came_first_and_one_without_offsets_are_in_order(self, cut: Cut) -> None:
        assert judge_cuts(WHOLE, [cut]) == []

    def test_notices_one_that_was_pinned_beside_a_window_with_some_of_its_offsets(self) -> None:
        words = "cut (15, 25) was pinned, though (10, 20) had some of its offsets before"
        assert judge_cuts(WHOLE, [replace(CUT, refused_by=None)]) == [words]
        lost = replace(CUT, refused_by=None, offsets={KEY: range(21, 23)}, before={times(2)})
        assert judge_cuts(WHOLE, [lost]) == ["cut (15, 25) was pinned, though (20, 30) had some of its offsets before"]

    def test_notices_one_that_was_pinned_at_the_same_time_and_still_stands(self) -> None:
        cut = replace(CUT, refused_by=None, before=(), stands=True)
        words = "cut (15, 25) stands beside (10, 20), which is published with its offsets"
        assert judge_cuts(WHOLE, [cut]) == [words]

    def test_notices_one_that_was_refused_for_nothing(self) -> None:
        words = "cut (15, 25) was refused for (30, 40), which has none of its offsets"
        assert judge_cuts(WHOLE, [replace(CUT, refused_by=times(3))]) == [words]

    def test_notices_one_that_is_published(self) -> None:
        published = replace(WHOLE[1], start_ms=15, end_ms=25)
        assert judge_cuts([*WHOLE, published], [CUT]) == ["cut (15, 25) is published"]
        words = ["window (10, 20) isn't published", "window (15, 25) is published, and isn't planned"]
        assert judge_windows([(0, 10), (15, 25)], [(0, 10), (10, 20)]) == words


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

    def test_holes_that_are_listed_and_told_as_they_are_are_in_order(self) -> None:
        assert judge_holes(self.SOME, [self.HOLE.times], [self.HOLE]) == []
        assert judge_holes(WHOLE, [], []) == []

    def test_notices_one_that_is_not_told(self) -> None:
        (missing,) = judge_holes(self.SOME, [], [self.HOLE])
        assert "isn't listed" in missing
        (missing,) = judge_holes(self.SOME, [self.HOLE.times], [])
        assert "isn't told as it is: None" in missing

    def test_notices_one_that_is_told_with_other_offsets(self) -> None:
        (wrong,) = judge_holes(self.SOME, [self.HOLE.times], [replace(self.HOLE, offsets={KEY: range(10, 29)})])
        assert "isn't told as it is" in wrong

    def test_notices_one_that_is_told_and_not_there(self) -> None:
        assert judge_holes(WHOLE, [(10, 30)], []) == ["a hole (10, 30) is listed, and isn't there"]
        assert judge_holes(WHOLE, [], [self.HOLE]) == ["a hole (10, 30) is told, and isn't there"]


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


class TestTrials:
    """Loads of topics that were re-created."""

    WHY = "though its topic was re-created"

    def test_loads_that_were_refused_and_left_nothing_are_in_order(self) -> None:
        assert judge_trials([], [Trial(times(0), refused=True)], self.WHY) == []

    def test_notices_one_that_went_through(self) -> None:
        trials = [Trial(times(0), refused=False), Trial(times(0), refused=True)]
        assert judge_trials([], trials, self.WHY) == ["window (0, 10) was loaded, though its topic was re-created"]

    def test_notices_one_that_was_refused_and_published_all_the_same(self) -> None:
        complaints = judge_trials([times(0)], [Trial(times(0), refused=True)], self.WHY)
        assert complaints == ["window (0, 10) is published, though its topic was re-created"]

    def test_notices_that_nobody_tried(self) -> None:
        assert judge_trials([], [], self.WHY) == ["no load was tried, though its topic was re-created"]


def says(number: int, revision: int, **fields: object) -> dict[str, Any]:
    """The contents of a publication of five rows that replaces the one before it."""
    return {
        "number": number,
        "revision": revision,
        "attempt": f"a-{revision}",
        "result_sha256": f"result {revision}",
        "manifest_sha256": f"manifest {revision}",
        "replaces": number - 1 or None,
        "rows": 5,
        "output": f"/out/a-{revision}",
        "start_snapshot": 1,
        "end_snapshot": 1 + revision,
    } | fields


def shelf(*publications: dict[str, Any], **fields: Any) -> Shelf:
    """A window whose revisions 1 to 3 have been loaded, each from its own snapshots."""
    counted = {
        (each, f"a-{each}"): Counted(f"result {each}", 5, f"/out/a-{each}", f"manifest {each}") for each in (1, 2, 3)
    }
    usual = {
        "publications": {each["number"]: each for each in publications},
        "results": counted,
        "manifests": {each: f"manifest {each}" for each in (1, 2, 3)},
    }
    return Shelf(**usual | fields)


def complaints(window: Shelf, told: int | None = None, held: int = 5) -> list[str]:
    """What is wrong with a window. By default, the ledger reports the publication that counts."""
    return judge_publications(window, told or window.counts, dict.fromkeys(window.publications, held))


class TestPublications:
    """A window's publications, which follow one another."""

    @pytest.mark.parametrize(
        "publications",
        [
            (),
            (says(1, 1),),
            (says(1, 2),),
            (says(1, 1), says(2, 2), says(3, 3)),
            (says(1, 1), says(2, 3)),
            (says(1, 1, started_ms=1), says(2, 1, apart=False, started_ms=2)),
        ],
    )
    def test_newer_revisions_that_replace_the_one_before_are_in_order(
        self, publications: Sequence[dict[str, Any]]
    ) -> None:
        assert complaints(shelf(*publications)) == []

    @pytest.mark.parametrize(
        ("publications", "complaint"),
        [
            ((says(2, 1, replaces=None),), "publications [2] aren't numbered from 1 on without a hole"),
            (
                (says(1, 1), says(3, 2, replaces=1)),
                "publications [1, 3] aren't numbered from 1 on without a hole",
            ),
            ((says(1, 2), says(2, 1)), "publication 2 is of revision 1, and the one before it of revision 2"),
            ((says(1, 1), says(2, 1, end_snapshot=9)), "publications 1 and 2 are both of revision 1"),
            ((says(1, 1), says(2, 2, replaces=None)), "publication 2 replaces None, and 1 counted before"),
            ((says(1, 1), says(2, 2), says(3, 3, replaces=1)), "publication 3 replaces 1, and 2 counted before"),
            ((says(1, 1, replaces=1),), "publication 1 replaces 1, and None counted before"),
            (
                (says(1, 1), says(2, 2, end_snapshot=2)),
                "publication 2 has what was left of the window, and replaces the whole of it",
            ),
            ((says(1, 1, attempt="a-9"),), "publication 1 is of attempt a-9, which has counted nothing"),
            ((says(1, 2, attempt="a-1"),), "publication 1 is of attempt a-1, which has counted nothing"),
            ((says(1, 1, result_sha256="0"),), "publication 1 was made of another result of attempt a-1 than there is"),
            (
                (says(1, 1, manifest_sha256="0"),),
                "publication 1 is of another manifest than revision 1 or its attempt",
            ),
            ((says(1, 1, output="/out"),), "publication 1 is in /out, and its attempt has written to /out/a-1"),
            (
                (says(1, 1, rows=4),),
                "publication 1 says 4 rows, of which its attempt has counted 5, and there are 5",
            ),
        ],
    )
    def test_notices_a_wrong_one(self, publications: Sequence[dict[str, Any]], complaint: str) -> None:
        assert complaint in complaints(shelf(*publications))

    def test_notices_that_a_file_has_another_number_than_it_says(self) -> None:
        assert complaints(shelf(publications={1: says(2, 1, replaces=None)})) == ["publication 1 says that it is 2"]

    def test_notices_rows_that_are_missing_or_doubled_where_they_are_said_to_be(self) -> None:
        (fewer,), (more,) = (complaints(shelf(says(1, 1)), held=each) for each in (4, 10))
        assert (fewer[-11:], more[-12:]) == ("there are 4", "there are 10")

    def test_notices_that_an_attempt_read_another_manifest_than_its_revision(self) -> None:
        (words,) = complaints(shelf(says(1, 1), manifests={1: "another"}))
        assert words == "publication 1 is of another manifest than revision 1 or its attempt"

    def test_notices_that_the_ledger_tells_of_another_one_than_the_newest_that_was_not_forgotten(self) -> None:
        twice = shelf(says(1, 1), says(2, 2))
        assert complaints(twice, told=1) == ["publication 2 counts, and the ledger tells of 1"]
        assert complaints(replace(twice, forgotten={2}), told=1) == []
        words = "publication None counts, and the ledger tells of 2"
        assert complaints(replace(twice, forgotten={1, 2}), told=2) == [words]

    def test_one_that_follows_a_forgotten_one_replaces_nothing(self) -> None:
        assert complaints(shelf(says(1, 1), says(2, 2, replaces=None), forgotten={1})) == []


class TestWhatIsKept:
    """Rows that were published, by one or two ledgers with the same output."""

    BEFORE: Holding = {((0, 10), 1): {KEY: [1, 2]}}

    def test_rows_that_are_the_same_are_in_order_whatever_comes_beside_them(self) -> None:
        assert judge_kept(self.BEFORE, self.BEFORE | {((0, 10), 2): {KEY: [1, 2, 3]}}) == []
        assert judge_kept(self.BEFORE, {((0, 10), 1): {KEY: [2, 1], ("orders", 1): []}}) == []

    @pytest.mark.parametrize("offsets", [[1], [1, 2, 2], [1, 3]])
    def test_notices_that_they_changed_or_doubled(self, offsets: list[int]) -> None:
        words = ["publication 1 of window (0, 10) has other rows by now"]
        assert judge_kept(self.BEFORE, {((0, 10), 1): {KEY: offsets}}) == words

    def test_notices_that_a_publication_is_gone(self) -> None:
        assert judge_kept(self.BEFORE, {}) == ["publication 1 of window (0, 10) is gone"]

    def test_lists_that_name_the_files_of_what_counts_are_in_order(self) -> None:
        shelves = {(0, 10): shelf(says(1, 1)), (10, 20): Shelf()}
        assert judge_lists(shelves, self.BEFORE, self.BEFORE) == []
        assert judge_lists(shelves, {((0, 10), 1): {}}, {}) == [], "a window without rows needs no list"
        assert judge_lists(shelves, self.BEFORE, self.BEFORE | {((10, 20), None): {}}) == []

    @pytest.mark.parametrize(
        ("listed", "complaint"),
        [
            ({}, "the list of window (0, 10) names other rows than publication 1 has"),
            ({((0, 10), 1): {KEY: [1]}}, "the list of window (0, 10) names other rows than publication 1 has"),
            (
                BEFORE | {((10, 20), None): {KEY: [3]}},
                "the list of window (10, 20) names other rows than publication None has",
            ),
        ],
    )
    def test_notices_a_list_that_names_others(self, listed: Holding, complaint: str) -> None:
        shelves = {(0, 10): shelf(says(1, 1)), (10, 20): Shelf()}
        assert judge_lists(shelves, self.BEFORE, listed) == [complaint]

    def test_notices_that_two_ledgers_have_published_one_place(self) -> None:
        first, second = shelf(says(1, 1)), shelf(says(1, 2))
        assert judge_apart({times(0): first}, {times(0): second}) == []
        assert judge_apart({times(0): first}, {times(1): first}) == ["both ledgers have published /out/a-1"]
        empty = shelf(says(1, 1, output=None))
        assert judge_apart({times(0): empty}, {times(0): empty}) == []
