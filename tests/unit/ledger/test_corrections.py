"""Corrections, by example: published windows go by force alone, and topics go on as other logs."""

from __future__ import annotations

from functools import partial

import pytest

from airflow_kafka_offsets.errors import LedgerConflictError
from airflow_kafka_offsets.ledger import corrections, decisions, load_decisions
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.decisions import ResolvedOffsets
from airflow_kafka_offsets.ledger.entries import Attempted, Restarted
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.offsets.partitions import SeenOffset
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind
from tests.unit.ledger.memory import CREATED, MemoryFiles
from tests.unit.ledger.states import AT, BEGUN, NAME, NOW, after, asked, attempted, both, pinned, publish
from tests.unit.offsets.builders import HOUR_MS, snapshot


@pytest.fixture
def contents() -> Contents:
    return Contents(MemoryFiles(), "memory")


class TestPublishedWindows:
    def test_stop_counting_only_by_force_that_names_their_rows(self, contents: Contents) -> None:
        state = attempted(pinned(contents, 0, 10))
        state = after(state, publish(state, state.number))
        for decide in (partial(corrections.void, windows=[NAME]), partial(corrections.rewind, to_ms=AT[0])):
            with pytest.raises(LedgerConflictError, match=r"10 rows of .* in s3://lake/t"):
                decide(state)  # type: ignore[operator]
            assert after(state, decide(state, force=True)).windows == {}  # type: ignore[operator]

    def test_are_remembered_by_name_where_an_attempt_may_have_left_rows(self, contents: Contents) -> None:
        """A window without offsets of that name needs a driver then."""
        state = pinned(contents, 0, 0, 10, 20)
        first, second, third = state.windows.values()
        assert not state.needs_driver(first)
        for each in (first, second):
            wish = Attempted(each.name, {})
            state = after(state, load_decisions.begin(state, wish, each.manifest))
        voided = after(state, corrections.void(state, [second.name]))
        assert voided.rows_left == {second.name}
        rewound = after(voided, corrections.rewind(voided, AT[0]))
        assert rewound.rows_left == {second.name}, "no attempt has written rows of the others"
        assert rewound.needs_driver(first._replace(name=second.name))
        assert third.name not in rewound.windows


class TestUnloaded:
    """What snapshots had seen of the logs that end, and no published window had."""

    AHEAD = 1000
    """By how much logs end after a snapshot's offsets."""

    def unloaded(self, state: State, wish: Restarted, contents: Contents) -> list[tuple[int, int, int]]:
        (entry,) = corrections.restart(state, wish, contents)
        assert isinstance(entry, Restarted)
        assert ("in no published window" in str(entry)) == bool(entry.unloaded)
        return [each[1:] for each in entry.unloaded]

    def test_is_told_by_the_restart_whatever_becomes_of_windows_later(self, contents: Contents) -> None:
        state = attempted(pinned(contents, 0, 10, 30))
        state = after(state, publish(state, state.number))
        wish = Restarted(NOW, ("t",), "re-created")
        assert self.unloaded(state, wish, contents) == [(0, 10, 30 + self.AHEAD)]
        state = after(state, corrections.restart(state, wish, contents))
        voided = after(state, corrections.void(state, list(state.windows)[1:]))
        assert voided.restarts == state.restarts

    def test_is_also_of_partitions_that_no_window_has(self, contents: Contents) -> None:
        later = snapshot({0: 13, 1: 7}, at_ms=AT[0])
        state = after(BEGUN, decisions.place(BEGUN, asked(contents, later), contents))
        wish = Restarted(NOW, ("t",), "moved", "cluster-2")
        assert self.unloaded(state, wish, contents) == [(0, 13, 13 + self.AHEAD), (1, 7, 7 + self.AHEAD)]

    def test_of_a_log_that_was_truncated_is_what_was_above_that(self, contents: Contents) -> None:
        both = [snapshot({0: offset, 1: offset}, at_ms=AT[hour]) for hour, offset in enumerate((10, 30))]
        state = after(BEGUN, decisions.place(BEGUN, asked(contents, *both), contents))
        cut = Restarted(NOW, ("t",), "truncated", truncated=(SeenOffset("t", 0, 20, 1),))
        assert self.unloaded(state, cut, contents) == [(0, 20, 30 + self.AHEAD)]
        state = after(state, corrections.restart(state, cut, contents))
        grown = asked(contents, snapshot({0: 25, 1: 40}, at_ms=AT[2]))
        state = after(state, decisions.place(state, grown, contents))
        wish = Restarted(NOW, ("t",), "re-created")
        assert self.unloaded(state, wish, contents) == [(0, 10, 25 + self.AHEAD), (1, 10, 40 + self.AHEAD)]


class TestRestart:
    def test_the_next_snapshot_begins_the_new_log(self, contents: Contents) -> None:
        state = pinned(contents, 0, 10)
        state = after(state, corrections.restart(state, Restarted(NOW, ("t",), "re-created"), contents))
        later = snapshot({0: 4}, at_ms=NOW + HOUR_MS, topic_id="id-2", log_start=2)
        wish = asked(contents, later, now_ms=NOW + HOUR_MS)
        state = after(state, decisions.pin(state, [(AT[1], NOW + HOUR_MS)], wish, contents))
        (manifest,) = (contents.manifest(each) for each in list(state.windows.values())[1:])
        assert [(each.start_offset, each.end_offset) for each in manifest.ranges] == [(2, 4)]

    def test_where_a_log_was_truncated_the_next_window_goes_on_from_there(self, contents: Contents) -> None:
        """S15: what was loaded isn't loaded again, and what came in the place of what was lost is in a window."""
        state = pinned(contents, 0, 100)
        wish = Restarted(NOW, ("t",), "truncated", truncated=(SeenOffset("t", 0, 60, 1),))
        (entry,) = corrections.restart(state, wish, contents)
        assert isinstance(entry, Restarted)
        assert entry.at_ms == AT[1] + 1
        state = after(state, (entry,))
        grown = asked(contents, snapshot({0: 75}, at_ms=AT[2]))
        state = after(state, decisions.pin(state, [(AT[1], AT[2])], grown, contents))
        manifest = contents.manifest(state.windows[window_id(AT[1], AT[2])])
        assert [(each.start_offset, each.end_offset) for each in manifest.ranges] == [(60, 75)]

    def test_a_cluster_that_was_replaced_goes_on_in_the_same_pipeline(self, contents: Contents) -> None:
        state = pinned(contents, 0, 100)
        moved = Restarted(NOW, ("t",), "another cluster", "cluster-2")
        state = after(state, corrections.restart(state, moved, contents))
        decisions.create(state, CREATED._replace(cluster_id="cluster-2"))
        other = snapshot({0: 7}, at_ms=AT[2], cluster_id="cluster-2", topic_id="id-2", log_start=3)
        state = after(state, decisions.pin(state, [(AT[1], AT[2])], asked(contents, other), contents))
        manifest = contents.manifest(state.windows[window_id(AT[1], AT[2])])
        assert manifest.cluster_id == "cluster-2"
        assert [(each.start_offset, each.end_offset) for each in manifest.ranges] == [(3, 7)]

    def test_before_it_there_is_what_the_other_topics_have(self, contents: Contents) -> None:
        """Their records are still there; what the restart has taken is no part of windows any more."""
        state = after(
            BEGUN, decisions.pin(BEGUN, [(AT[0], AT[2])], asked(contents, both(0, 0, 0), both(2, 20, 50)), contents)
        )
        name = window_id(AT[0], AT[2])
        state = after(state, corrections.restart(state, Restarted(NOW, ("t",), "re-created"), contents))
        state = after(state, corrections.void(state, [name]))
        now = both(1, 3, 30, topic_id="id-2")
        wish = asked(contents, now)
        state = after(state, decisions.pin(state, [(AT[0], AT[1]), (AT[1], AT[2])], wish, contents))
        found = [contents.manifest(each).ranges for each in state.windows.values()]
        assert [[(each.topic, each.start_offset, each.end_offset) for each in ranges] for ranges in found] == [
            [("u", 0, 30)],
            [("u", 30, 50)],
        ]

    def test_an_increment_begins_after_snapshots_of_logs_that_are_gone(self, contents: Contents) -> None:
        """The pipeline had no window when its topic was re-created."""
        state = after(BEGUN, decisions.place(BEGUN, asked(contents, snapshot({0: 50}, at_ms=AT[1])), contents))
        state = after(state, corrections.restart(state, Restarted(NOW, ("t",), "re-created"), contents))
        origin = snapshot({0: 2}, at_ms=AT[3], kind=AsOfKind.EARLIEST, topic_id="id-2", log_start=2)
        latest = snapshot({0: 9}, at_ms=AT[3], kind=AsOfKind.LATEST, topic_id="id-2", log_start=2)
        wish = ResolvedOffsets(99, NOW, latest=latest, origin=origin)
        state = after(state, decisions.pin_increment(state, "r", wish, contents))
        (window,) = state.windows.values()
        assert [(each.start_offset, each.end_offset) for each in contents.manifest(window).ranges] == [(2, 9)]

    def test_on_a_cluster_that_was_left_logs_go_on_where_they_were(self, contents: Contents) -> None:
        """What was loaded there before isn't loaded again."""
        state = pinned(contents, 0, 100)
        state = after(state, corrections.restart(state, Restarted(NOW, ("t",), "moved", "cluster-2"), contents))
        other = snapshot({0: 7}, at_ms=AT[2], cluster_id="cluster-2", topic_id="id-2")
        state = after(state, decisions.pin(state, [(AT[1], AT[2])], asked(contents, other), contents))
        seen = corrections.ends_on(state, "cluster-1", contents)
        assert seen is not None
        assert (seen.cluster_id, {key.partition: each.offset for key, each in seen.boundaries.items()}) == (
            "cluster-1",
            {0: 100},
        )
        assert corrections.ends_on(state, "cluster-3", contents) is None
        back = Restarted(NOW, ("t",), "moved back", "cluster-1", resumed=seen)
        state = after(state, corrections.restart(state, back, contents))
        again = asked(contents, snapshot({0: 130}, at_ms=AT[3]))
        state = after(state, decisions.pin(state, [(AT[2], AT[3])], again, contents))
        manifest = contents.manifest(state.windows[window_id(AT[2], AT[3])])
        assert [(each.start_offset, each.end_offset) for each in manifest.ranges] == [(100, 130)]
        with pytest.raises(LedgerConflictError, match="on cluster cluster-1 already"):
            corrections.restart(state, back, contents)

    def test_one_that_was_wrong_can_be_called_off(self, contents: Contents) -> None:
        """By the way back to the old cluster, or by a rewind, which takes away what was decided after it."""
        state = pinned(contents, 0, 100)
        wrong = after(state, corrections.restart(state, Restarted(NOW, ("t",), "moved", "cluster-2"), contents))
        seen = corrections.ends_on(wrong, "cluster-1", contents)
        back = Restarted(NOW, ("t",), "moved back", "cluster-1", resumed=seen)
        called_off = after(wrong, corrections.restart(wrong, back, contents))
        before = contents.snapshot(state.snapshots[AT[1]].offsets)
        assert called_off.anew(before, AT[1]) == before
        rewound = after(wrong, corrections.rewind(wrong, AT[1]))
        assert (rewound.restarts, rewound.cluster_id, rewound.windows) == ((), "cluster-1", state.windows)

    def test_a_rewind_of_it_takes_away_what_was_decided_after_it(self, contents: Contents) -> None:
        state = after(BEGUN, decisions.place(BEGUN, asked(contents, both(0, 0, 0), both(2, 20, 50)), contents))
        state = after(state, corrections.restart(state, Restarted(NOW, ("t",), "re-created"), contents))
        wish = asked(contents, both(1, 3, 30, topic_id="id-2"))
        state = after(state, decisions.pin(state, [(AT[0], AT[1])], wish, contents))
        assert list(state.windows) == [NAME]
        state = after(state, corrections.rewind(state, AT[2]))
        assert (list(state.snapshots), list(state.windows), state.restarts) == ([AT[0], AT[2]], [], ())

    def test_of_a_topic_that_no_snapshot_has_is_refused(self, contents: Contents) -> None:
        with pytest.raises(LedgerConflictError, match="nothing to restart"):
            corrections.restart(pinned(contents, 0, 10), Restarted(NOW, ("other",), "re-created"), contents)
