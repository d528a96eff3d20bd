"""Holes: what no published window has between two that are published, and what a group would miss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.ledger import holes
from airflow_kafka_offsets.ledger.holes import Hole, unloaded_stretches, unpublished_stretches
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.answers.logs import TopicFacts
from airflow_kafka_offsets.offsets.partitions import LogRange, TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import OffsetSnapshot
from tests.integration.ledger.loads import audit, pin, publish, reload as load_again, restart, void
from tests.unit.offsets.builders import HOUR_MS, T0, boundary, snapshot

MINUTE_MS = HOUR_MS // 60
P0 = TopicPartition("t", 0)


def at(minute: int, offset: int | None = None) -> OffsetSnapshot:
    """A log that has a record a minute."""
    return snapshot({0: 1000 + minute if offset is None else offset}, at_ms=T0 + minute * MINUTE_MS)


def pinned(ledger: Ledger, start: int, end: int) -> Window:
    return pin(ledger, at(start), at(end))


def published(ledger: Ledger, start: int, end: int) -> Window:
    return publish(ledger, pinned(ledger, start, end))


def found(hole: Hole) -> tuple[int, int, list[str]]:
    """Offsets, those of them in no window, and the windows that are pinned."""
    return hole.offsets, hole.unpinned, [each.name for each in hole.pinned]


def claims_of_holes(ledger: Ledger) -> list[str]:
    """What a verification says of holes."""
    return [claim.found for claim in verify(ledger) if claim.claim == "hole"]


class TestBetweenPublishedWindows:
    def test_two_snapshots_say_how_many_offsets_are_missing(self, local: Ledger) -> None:
        published(local, 0, 10)
        published(local, 30, 40)
        (hole,) = holes.holes_of(local)
        assert found(hole) == (20, 20, [])
        assert str(hole) == (
            "no window has 20 of the 20 offsets from 2026-11-21T06:10:00.000Z to 2026-11-21T06:30:00.000Z"
        )

    def test_what_is_pinned_there_is_not_loaded_yet(self, local: Ledger) -> None:
        published(local, 0, 10)
        some = pinned(local, 10, 25)
        published(local, 30, 40)
        (hole,) = holes.holes_of(local)
        assert found(hole) == (20, 5, [some.name])
        assert str(hole).endswith(f"not published yet: {some.name}")

    def test_one_that_pinned_windows_fill_has_nothing_that_nobody_loads(self, local: Ledger) -> None:
        published(local, 0, 10)
        filling = [pinned(local, 10, 20), pinned(local, 20, 30)]
        published(local, 30, 40)
        (hole,) = holes.holes_of(local)
        assert found(hole) == (20, 0, [each.name for each in filling])

    def test_what_no_window_has_is_one_from_the_first_window_that_is_known(self, local: Ledger) -> None:
        """Published or not: a backfill pins windows before the published ones, and a stop leaves some after them."""
        early = pinned(local, 0, 10)
        published(local, 30, 40)
        late = pinned(local, 50, 60)
        before, after = holes.holes_of(local)
        assert (found(before), found(after)) == ((30, 20, [early.name]), (20, 10, [late.name]))
        publish(local, early)
        published(local, 10, 30)
        publish(local, pinned(local, 40, 50))
        assert holes.holes_of(local) == [], "the last window is yet to be loaded, and no hole"
        assert claims_of_holes(local) == []

    def test_neighbours_that_meet_have_none(self, local: Ledger) -> None:
        published(local, 0, 10)
        published(local, 10, 20)
        assert holes.between_published(local.state) == []

    @pytest.mark.parametrize(("log_start", "missing"), [(0, 10), (4, 6), (10, 0)])
    def test_a_topic_that_joined_in_time_without_a_window_has_one_from_its_log_start(
        self, local: Ledger, log_start: int, missing: int
    ) -> None:
        published(local, 0, 10)
        pair = [with_another_topic(at(minute, 1010), offset, log_start) for minute, offset in ((20, 10), (30, 15))]
        publish(local, pin(local, *pair))
        assert sum(hole.offsets for hole in holes.holes_of(local)) == missing

    def test_of_a_topic_that_was_made_anew_in_it_there_is_what_the_new_one_has(self, local: Ledger) -> None:
        """What was left of the old one, the restart tells."""
        published(local, 0, 10)
        restart(local)
        anew = [snapshot({0: offset}, at_ms=T0 + offset * MINUTE_MS, topic_id="id-2") for offset in (20, 30)]
        publish(local, pin(local, *anew))
        (hole,) = holes.holes_of(local)
        assert hole.ranges == (LogRange("t", 0, 0, 20),)

    def test_what_a_restart_has_taken_is_none(self, local: Ledger) -> None:
        """The window that had it can't be loaded any more, and the next ones don't wait for it."""
        published(local, 0, 10)
        ended = pinned(local, 10, 30)
        restart(local)
        assert holes.ended_windows(local) == [ended]
        anew = [snapshot({0: each}, at_ms=T0 + (30 + each) * MINUTE_MS, topic_id="id-2") for each in (5, 10)]
        waiting = pin(local, at(30), anew[0])
        last = publish(local, pin(local, *anew))
        (hole,) = holes.holes_of(local)
        assert found(hole) == (5, 0, [waiting.name])
        publish(local, waiting)
        assert holes.holes_of(local) == []
        assert list(holes.missing_since(local, {P0: 3}, last)) == []

    def test_what_other_topics_have_is_still_one_and_can_be_loaded(self, local: Ledger) -> None:
        """Of the window that was voided."""
        pairs = [with_another_topic(at(minute), minute) for minute in (0, 10, 30)]
        publish(local, pin(local, *pairs[:2]))
        gone = pin(local, *pairs[1:])
        restart(local)
        void(local, gone)
        now = with_another_topic(snapshot({0: 4}, at_ms=T0 + 40 * MINUTE_MS, topic_id="id-3"), 40)
        publish(local, pin(local, pairs[2], now))
        (hole,) = holes.holes_of(local)
        assert (hole.ranges, hole.free) == ((LogRange("u", 0, 10, 30),),) * 2
        publish(local, pin(local, *pairs[1:]))
        assert holes.holes_of(local) == []
        assert [each.found for each in verify(local) if not each.holds] == []


def with_another_topic(one: OffsetSnapshot, offset: int, log_start: int = 0) -> OffsetSnapshot:
    facts = TopicFacts("u", "id-2", 1, "delete", -1, -1, "CreateTime")
    other = boundary(0, offset, log_start=log_start, topic="u")
    return replace(one, topics={**one.topics, "u": facts}, boundaries={**one.boundaries, TopicPartition("u", 0): other})


class TestWhoAnswers:
    """Each hole is one window's matter: the one that skipped it when it was pinned."""

    def skipped(self, ledger: Ledger, window: Window) -> list[tuple[LogRange, ...]]:
        return [each.ranges for each in holes.skipped_by(ledger, window)]

    def test_the_window_that_skipped_it_until_it_is_pinned(self, local: Ledger) -> None:
        first, later = pinned(local, 0, 10), pinned(local, 30, 40)
        last = pinned(local, 40, 50)
        assert self.skipped(local, later) == [(LogRange("t", 0, 1010, 1030),)]
        assert self.skipped(local, first) == self.skipped(local, last) == []
        pinned(local, 10, 30)
        assert self.skipped(local, later) == []

    def test_not_one_that_was_pinned_to_fill_it(self, local: Ledger) -> None:
        """What it leaves is still the other one's matter."""
        pinned(local, 0, 10)
        later, filling = pinned(local, 40, 50), pinned(local, 20, 30)
        assert self.skipped(local, filling) == []
        assert self.skipped(local, later) == [(LogRange("t", 0, 1030, 1040),), (LogRange("t", 0, 1010, 1020),)]

    def test_not_the_first_window_for_what_is_pinned_before_it(self, local: Ledger) -> None:
        """A backfill towards the live schedule."""
        live, earlier = pinned(local, 40, 50), pinned(local, 0, 10)
        assert self.skipped(local, live) == self.skipped(local, earlier) == []


class TestAGroup:
    """What one would miss if it went on from a window."""

    def since(self, ledger: Ledger, window: Window, commits: dict[TopicPartition, int]) -> list[list[LogRange]]:
        return [list(each.ranges) for each in holes.missing_since(ledger, commits, window)]

    def test_that_has_not_begun_has_all_holes_ahead(self, local: Ledger) -> None:
        published(local, 0, 10)
        published(local, 20, 30)
        last = published(local, 40, 50)
        both = [[LogRange("t", 0, 1030, 1040)], [LogRange("t", 0, 1010, 1020)]]
        assert self.since(local, last, {}) == both
        assert self.since(local, last, {P0: 1005}) == both

    def test_misses_none_that_is_behind_it(self, local: Ledger) -> None:
        published(local, 0, 10)
        published(local, 20, 30)
        last = published(local, 40, 50)
        assert self.since(local, last, {P0: 1020}) == [[LogRange("t", 0, 1030, 1040)]]
        assert self.since(local, last, {P0: 1040}) == []

    def test_is_not_told_of_holes_after_the_window(self, local: Ledger) -> None:
        first = published(local, 0, 10)
        published(local, 20, 30)
        assert self.since(local, first, {}) == []

    def test_that_has_begun_before_the_first_window_would_miss_what_lies_between(self, local: Ledger) -> None:
        window = published(local, 50, 80)
        assert self.since(local, window, {P0: 1020}) == [[LogRange("t", 0, 1020, 1050)]]
        assert self.since(local, window, {P0: 1050}) == []
        assert self.since(local, window, {}) == [], "it begins with the first window"

    def test_that_has_not_begun_begins_with_the_first_window_that_is_pinned(self, local: Ledger) -> None:
        """The newest of several runs that go on side by side is the first to be loaded."""
        earlier = [pinned(local, start, start + 10) for start in (20, 30)]
        window = published(local, 50, 80)
        missing = [found(each) for each in holes.missing_since(local, {}, window)]
        assert missing == [(10, 10, []), *((10, 0, [each.name]) for each in reversed(earlier))]
        assert self.since(local, window, {P0: 1050}) == []
        for each in earlier:
            publish(local, each)
        assert self.since(local, published(local, 80, 90), {P0: 1050}) == []


class TestStretches:
    """What isn't loaded, from the first window to the last."""

    def test_are_windows_that_are_pinned_and_time_that_no_window_has(self, local: Ledger) -> None:
        first, _, last = pinned(local, 0, 10), published(local, 20, 30), pinned(local, 30, 40)
        parts = list(unpublished_stretches(local.state))
        assert [each.window for each in parts] == [first, None, last]
        assert [sum(part.span for part in local.between(*each[:2])) for each in parts] == [10, 10, 10]

    def test_are_not_windows_whose_tables_something_else_writes_and_audits_have_found_complete(
        self, local: Ledger
    ) -> None:
        """All windows that Connect wrote, and of which one lacks a record; one that is published is judged by that."""
        complete, lacking, unaudited = (pinned(local, start, start + 10) for start in (0, 10, 20))
        both, ours = pinned(local, 30, 40), published(local, 40, 50)
        for window, table, counts in [
            (complete, "lake.orders", {}),
            (lacking, "lake.orders", {"missing": 1}),
            (both, "lake.orders", {}),
            (both, "lake.copies", {"not_yet": 10}),
            (ours, "lake.orders", {"missing": 1}),
        ]:
            audit(local, window, table, counts)
        assert [each.window and each.window.name for each in unloaded_stretches(local.state)] == [
            each.name for each in (lacking, unaudited, both)
        ]
        (claim,) = (each for each in verify(local) if each.claim == "unpublished")
        assert complete.name not in claim.found
        assert lacking.name in claim.found
        load_again(local, ours)
        assert [each.window for each in unloaded_stretches(local.state)][-1] == local.window(ours.name)

    def test_of_a_topic_that_was_made_anew_since_nothing_can_be_loaded(self, local: Ledger) -> None:
        pinned(local, 0, 10)
        restart(local)
        assert [local.between(*each[:2]) for each in unpublished_stretches(local.state)] == [[]]
