"""What the oracle holds for right, where everybody knows it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.integration.fuzz.oracle import (
    COMMITTED,
    UNCOMMITTED,
    PartitionLog,
    Record,
    Verdict,
    group_is_caught_up,
    has_new_data,
    target_is_reached,
    window_is_complete,
)


def log_of(committed: Iterable[int], every: Iterable[int], *, start: int, stable: int, end: int) -> PartitionLog:
    """A log with records at these offsets, whose timestamps are ten times the offset."""
    both = (tuple(Record(each, 10 * each) for each in offsets) for offsets in (committed, every))
    return PartitionLog(start, stable, end, *both)


PLAIN_LOG = log_of((0, 1, 2), (0, 1, 2), start=0, stable=3, end=3)
MARKED_LOG = log_of((0, 1), (0, 1, 3), start=0, stable=5, end=5)
"""Two records, a marker, an aborted record, and a marker."""
HELD_LOG = log_of((0,), (0, 1, 2), start=0, stable=1, end=3)
"""A record, and two behind it that aren't decided."""
EMPTIED_LOG = log_of((), (), start=3, stable=3, end=3)


class TestJudgements:
    """What is right, where everybody knows it."""

    @pytest.mark.parametrize(
        ("log", "commit", "level", "right"),
        [
            (PLAIN_LOG, 3, COMMITTED, Verdict.DONE),
            (PLAIN_LOG, 2, COMMITTED, Verdict.WAITING),
            (PLAIN_LOG, 4, COMMITTED, Verdict.ERROR),
            (PLAIN_LOG, None, COMMITTED, Verdict.WAITING),
            (MARKED_LOG, 2, COMMITTED, Verdict.DONE),
            (MARKED_LOG, 2, UNCOMMITTED, Verdict.WAITING),
            (MARKED_LOG, 4, UNCOMMITTED, Verdict.DONE),
            (HELD_LOG, 1, COMMITTED, Verdict.DONE),
            (HELD_LOG, 1, UNCOMMITTED, Verdict.WAITING),
            (EMPTIED_LOG, 3, COMMITTED, Verdict.DONE),
            (EMPTIED_LOG, 1, COMMITTED, Verdict.WAITING),  # nobody knows any more what was there
            (EMPTIED_LOG, None, COMMITTED, Verdict.DONE),
        ],
    )
    def test_group_is_caught_up(self, log: PartitionLog, commit: int | None, level: str, right: Verdict) -> None:
        commits = {} if commit is None else {0: commit}
        assert group_is_caught_up({0: log}, commits, level) is right

    def test_group_is_caught_up_by_the_policies(self) -> None:
        logs = {0: PLAIN_LOG, 1: PLAIN_LOG}
        assert group_is_caught_up(logs, {0: 3}, COMMITTED, no_commit="ignore") is Verdict.DONE
        assert group_is_caught_up({**logs, 1: EMPTIED_LOG}, {0: 3}, COMMITTED, no_commit="wait") is Verdict.WAITING
        assert group_is_caught_up(logs, {0: 3, 1: 4}, COMMITTED) is Verdict.ERROR

    @pytest.mark.parametrize(
        ("log", "instant_ms", "level", "right"),
        [
            (PLAIN_LOG, 20, COMMITTED, Verdict.DONE),
            (PLAIN_LOG, 21, COMMITTED, Verdict.WAITING),
            (MARKED_LOG, 30, COMMITTED, Verdict.WAITING),
            (MARKED_LOG, 30, UNCOMMITTED, Verdict.DONE),
            (HELD_LOG, 20, COMMITTED, Verdict.WAITING),
            (HELD_LOG, 20, UNCOMMITTED, Verdict.DONE),
        ],
    )
    def test_window_is_complete(self, log: PartitionLog, instant_ms: int, level: str, right: Verdict) -> None:
        for logs, expected in (({0: log}, right), ({0: log, 1: EMPTIED_LOG}, Verdict.WAITING)):
            found = window_is_complete(logs, instant_ms, level, now_ms=10**9, append_grace_ms=None)
            assert found == {expected}

    def test_window_is_complete_by_the_clock(self) -> None:
        """Of LogAppendTime topics, unless a transaction is open."""

        def found(log: PartitionLog, now_ms: int) -> frozenset[Verdict]:
            return window_is_complete({0: log}, 100, COMMITTED, now_ms=now_ms, append_grace_ms=60_000)

        assert found(PLAIN_LOG, 70_000) == {Verdict.DONE}
        assert found(PLAIN_LOG, 60_100) == {Verdict.DONE, Verdict.WAITING}
        assert found(PLAIN_LOG, 50_000) == {Verdict.WAITING}
        assert found(HELD_LOG, 70_000) == {Verdict.WAITING}

    def test_target_is_reached_and_new_data(self) -> None:
        assert target_is_reached({0: PLAIN_LOG}, {0: 2}, {0: 2}, COMMITTED) is Verdict.DONE
        assert target_is_reached({0: PLAIN_LOG}, {0: 1}, {0: 2}, COMMITTED) is Verdict.WAITING
        assert target_is_reached({0: MARKED_LOG}, {0: 2}, {0: 5}, COMMITTED) is Verdict.DONE
        assert target_is_reached({0: MARKED_LOG}, {0: 2}, {0: 5}, UNCOMMITTED) is Verdict.WAITING
        assert has_new_data({0: MARKED_LOG}, {0: 2}, COMMITTED) is Verdict.WAITING
        assert has_new_data({0: MARKED_LOG}, {0: 2}, UNCOMMITTED) is Verdict.DONE
        assert has_new_data({0: EMPTIED_LOG, 1: PLAIN_LOG}, {0: 0}, COMMITTED) is Verdict.DONE
