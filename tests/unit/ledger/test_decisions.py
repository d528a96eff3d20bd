"""What may follow a state, one example for each rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_offsets.errors import (
    CommitConflictError,
    ConfigurationError,
    InstantError,
    LedgerConflictError,
    OutdatedSurveyError,
    TopicChangedError,
    WindowOverlapError,
)
from airflow_kafka_offsets.ledger import corrections, decisions, load_decisions
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.decisions import ResolvedOffsets
from airflow_kafka_offsets.ledger.entries import Pinned, Restarted, Snapshotted, Verified
from airflow_kafka_offsets.ledger.log import checkpoint_of, state_of
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, OffsetSnapshot
from tests.unit.ledger.memory import CREATED, MemoryFiles
from tests.unit.ledger.states import AT, BEGUN, NAME, NOW, after, asked, attempted, pinned, publish, refused
from tests.unit.offsets.builders import snapshot


@pytest.fixture
def contents() -> Contents:
    return Contents(MemoryFiles(), "memory")


class TestCreate:
    def test_a_ledger_belongs_to_one_cluster_and_one_isolation_level(self) -> None:
        assert decisions.create(BEGUN, CREATED._replace(ledger_id="other")) == ()
        with pytest.raises(TopicChangedError, match="kafka-offsets ledger restart p"):
            decisions.create(BEGUN, CREATED._replace(cluster_id="cluster-2"))
        with pytest.raises(ConfigurationError, match="use another pipeline name"):
            decisions.create(BEGUN, CREATED._replace(isolation_level="read_uncommitted"))


class TestPlace:
    def test_one_as_of_latest_comes_after_all_others_whatever_the_clock_says(self, contents: Contents) -> None:
        state = pinned(contents, 0, 10)
        latest = snapshot({0: 20}, at_ms=AT[0], kind=AsOfKind.LATEST)
        (placed,) = decisions.place(state, ResolvedOffsets(99, NOW, latest=latest), contents)
        assert isinstance(placed, Snapshotted)
        assert placed.at_ms == AT[1] + 1

    def test_what_contradicts_a_later_answer_is_asked_for_again(self, contents: Contents) -> None:
        state = pinned(contents, 0, 5_000)
        shorter = snapshot({0: 10}, at_ms=AT[2])
        with pytest.raises(OutdatedSurveyError):
            decisions.place(state, asked(contents, shorter, known=1), contents)

    def test_a_clock_more_than_five_minutes_ahead_is_named(self, contents: Contents) -> None:
        state = pinned(contents, 0, 10)
        tolerated, refused = (
            asked(contents, snapshot({0: 5}, at_ms=AT[0] + 1), now_ms=AT[1] - minutes * 60_000) for minutes in (5, 6)
        )
        assert decisions.place(state, tolerated, contents)
        with pytest.raises(InstantError, match="kafka-offsets ledger rewind"):
            decisions.place(state, refused, contents)

    def test_what_kafka_said_before_a_rewind_or_a_restart_is_asked_for_again(self, contents: Contents) -> None:
        state = pinned(contents, 0, 10)
        wish = asked(contents, snapshot({0: 20}, at_ms=AT[2]), known=state.number)
        restarted = after(state, corrections.restart(state, Restarted(NOW, ("t",), "re-created"), contents))
        rewound = after(state, corrections.rewind(state, AT[0]))
        for turned in (restarted, rewound):
            with pytest.raises(OutdatedSurveyError):
                decisions.place(turned, wish, contents)


class TestPin:
    def test_windows_of_a_backfill_are_one_commit(self, contents: Contents) -> None:
        state = pinned(contents, 0, 10, 30, 30)
        assert [(window.offsets, window.number) for window in state.windows.values()] == [(10, 2), (20, 2), (0, 2)]

    def test_one_that_crosses_another_in_time_is_refused(self, contents: Contents) -> None:
        state = pinned(contents, 0, 10, 30)
        wish = asked(contents, snapshot({0: 40}, at_ms=AT[3]))
        with pytest.raises(WindowOverlapError, match=f"kafka-offsets ledger void p {window_id(AT[1], AT[2])}"):
            decisions.pin(state, [(AT[1], AT[3])], wish, contents)

    def test_two_of_one_wish_that_cross_are_refused(self, contents: Contents) -> None:
        taken = asked(contents, *(snapshot({0: hour}, at_ms=AT[hour]) for hour in range(3)))
        with pytest.raises(WindowOverlapError):
            decisions.pin(BEGUN, [(AT[0], AT[2]), (AT[1], AT[2])], taken, contents)

    def test_its_time_is_free_again_once_it_is_voided_and_gets_the_same_snapshots(self, contents: Contents) -> None:
        state = pinned(contents, 0, 10)
        again = after(state, corrections.void(state, [NAME]))
        assert again.windows == {}
        wish = asked(contents, snapshot({0: 7}, at_ms=AT[0]), snapshot({0: 77}, at_ms=AT[1]))
        assert decisions.pin(again, [(AT[0], AT[1])], wish, contents) == (
            Pinned(NAME, state.windows[NAME].manifest, 10),
        )


class TestIncrements:
    def test_one_begins_where_the_last_window_ends(self, contents: Contents) -> None:
        state = pinned(contents, 0, 10)
        wish = ResolvedOffsets(99, NOW, latest=snapshot({0: 25}, at_ms=NOW, kind=AsOfKind.LATEST))
        entries = decisions.pin_increment(state, "run", wish, contents)
        assert entries[-1] == Pinned(window_id(AT[1], NOW), entries[-1].manifest, 15, "run")  # type: ignore[union-attr]
        assert decisions.pin_increment(after(state, entries), "run", wish, contents) == ()

    def test_the_first_one_begins_at_the_origin_below_everything(self, contents: Contents) -> None:
        state = after(BEGUN, decisions.place(BEGUN, asked(contents, snapshot({0: 12}, at_ms=AT[2])), contents))
        origin = snapshot({0: 3}, at_ms=NOW - 5, kind=AsOfKind.EARLIEST)
        wish = ResolvedOffsets(99, NOW, latest=snapshot({0: 25}, at_ms=NOW, kind=AsOfKind.LATEST), origin=origin)
        state = after(state, decisions.pin_increment(state, "run", wish, contents))
        (window,) = state.windows.values()
        assert (window.start_ms, window.offsets) == (AT[2] - 1, 22)
        with pytest.raises(InstantError, match="before the pipeline's origin"):
            decisions.place(state, asked(contents, snapshot({0: 1}, at_ms=AT[0])), contents)


class TestOrigin:
    """Where the first increment begins, in a pipeline that has snapshots: nowhere else than where the user says."""

    @staticmethod
    def begun(contents: Contents, origin: OffsetSnapshot, *taken: OffsetSnapshot) -> tuple[State, Manifest]:
        """The state after the first increment, and what that has."""
        state = after(BEGUN, decisions.place(BEGUN, asked(contents, *taken), contents))
        latest = snapshot({0: 70, 1: 70}, at_ms=NOW, kind=AsOfKind.LATEST)
        wish = ResolvedOffsets(state.number, NOW, latest=latest, origin=origin)
        state = after(state, decisions.pin_increment(state, "run", wish, contents))
        (window,) = state.windows.values()
        manifest = contents.manifest(window)
        assert manifest.window == window.name
        assert (manifest.start_ms, manifest.end_ms) == (window.start_ms, window.end_ms)
        return state, manifest

    @pytest.mark.parametrize("kind", [AsOfKind.GROUP, AsOfKind.LATEST, AsOfKind.EARLIEST])
    @pytest.mark.parametrize(
        ("offset", "start_ms"),
        [(3, AT[1] - 1), (10, AT[2] - 1), (15, AT[2] - 1), (40, NOW - 5), (55, NOW - 5)],
    )
    def test_what_has_no_time_of_its_own_lies_where_its_offsets_fit(
        self, contents: Contents, offset: int, start_ms: int, kind: AsOfKind
    ) -> None:
        origin = snapshot({0: offset, 1: offset}, at_ms=NOW - 5, kind=kind)
        taken = (snapshot({0: place, 1: place}, at_ms=at_ms) for at_ms, place in ((AT[1], 10), (AT[2], 40)))
        _, manifest = self.begun(contents, origin, *taken)
        assert [each.start_offset for each in manifest.ranges] == [offset, offset]
        assert manifest.start_ms == start_ms

    @pytest.mark.parametrize(("hour", "start"), [(0, 0), (2, 30), (3, 60)])
    def test_an_instant_lies_at_its_own_time(self, contents: Contents, hour: int, start: int) -> None:
        origin = snapshot({0: start, 1: start}, at_ms=AT[hour])
        taken = (snapshot({0: place, 1: place}, at_ms=at_ms) for at_ms, place in ((AT[1], 10), (AT[3], 60)))
        _, manifest = self.begun(contents, origin, *taken)
        assert manifest.start_ms == AT[hour]
        assert [each.start_offset for each in manifest.ranges] == [start, start]

    def test_an_instant_that_has_a_snapshot_keeps_it(self, contents: Contents) -> None:
        stored = snapshot({0: 10, 1: 10}, at_ms=AT[1])
        state, manifest = self.begun(contents, snapshot({0: 4, 1: 4}, at_ms=AT[1]), stored)
        assert [each.start_offset for each in manifest.ranges] == [10, 10]
        voided = after(state, corrections.void(state, [manifest.window]))
        assert decisions.increment_start_ms(voided) == AT[1]

    @pytest.mark.parametrize("commits", [{0: 5, 1: 50}, {0: 15, 1: 41}])
    def test_what_fits_nowhere_is_refused_with_a_way_out(self, contents: Contents, commits: dict[int, int]) -> None:
        origin = snapshot(commits, at_ms=NOW - 5, kind=AsOfKind.GROUP)
        taken = (snapshot({0: place, 1: place}, at_ms=at_ms) for at_ms, place in ((AT[1], 10), (AT[2], 40)))
        with pytest.raises(LedgerConflictError, match=r"group g.*kafka-offsets ledger rewind p"):
            self.begun(contents, origin, *taken)

    def test_a_partition_that_was_added_after_a_snapshot_is_not_left_out_silently(self, contents: Contents) -> None:
        origin = snapshot({0: 3, 1: 55}, at_ms=NOW - 5, kind=AsOfKind.GROUP)
        with pytest.raises(LedgerConflictError, match="t-1"):
            self.begun(contents, origin, snapshot({0: 10}, at_ms=AT[1]))

    def test_lies_after_a_restart(self, contents: Contents) -> None:
        old = snapshot({0: 10, 1: 10}, at_ms=AT[1])
        state = after(BEGUN, decisions.place(BEGUN, asked(contents, old), contents))
        state = restarted = after(state, corrections.restart(state, Restarted(NOW, ("t",), "re-created"), contents))
        origin, latest = (
            snapshot({0: each, 1: each}, at_ms=NOW, kind=kind, topic_id="id-2")
            for each, kind in ((0, AsOfKind.EARLIEST), (5, AsOfKind.LATEST))
        )
        wish = ResolvedOffsets(state.number, NOW, latest=latest, origin=origin)
        state = after(state, decisions.pin_increment(state, "run", wish, contents))
        assert [window.offsets for window in state.windows.values()] == [10]
        begun = replace(wish, origin=snapshot({0: 0, 1: 0}, at_ms=AT[1], topic_id="id-2"), commit=99)
        with pytest.raises(LedgerConflictError, match="can't begin as of 2026-11-21T07:00"):
            decisions.pin_increment(restarted, "run", begun, contents)


class TestLoads:
    def test_in_a_table_the_last_attempt_to_begin_counts(self, contents: Contents) -> None:
        state = attempted(pinned(contents, 0, 10))
        first, state = state.number, attempted(state, "b")
        with pytest.raises(CommitConflictError, match=rf"attempt {state.number} began later"):
            publish(state, first)
        assert after(state, publish(state, state.number)).windows[NAME].loaded is not None

    def test_the_first_publication_stands_also_over_another_driver_of_its_attempt(self, contents: Contents) -> None:
        state = attempted(pinned(contents, 0, 10))
        number, state = state.number, after(state, publish(state, state.number))
        assert publish(state, number) == publish(state, number, result="other") == ()

    def test_each_run_reloads_once_also_when_others_have_since(self, contents: Contents) -> None:
        state = attempted(pinned(contents, 0, 10))
        for by in ("run", "other run", None):
            assert load_decisions.reload(state, [NAME], by)
            state = attempted(after(state, load_decisions.reload(state, [NAME], by)))
        state = state_of(checkpoint_of(state))
        assert load_decisions.reload(state, [NAME], "run") == load_decisions.reload(state, [NAME], "other run") == ()

    def test_a_window_that_is_named_twice_is_changed_once(self, contents: Contents) -> None:
        state = attempted(pinned(contents, 0, 10))
        for decide in (load_decisions.reload, corrections.void):
            entries = decide(state, [NAME, NAME])  # type: ignore[operator]
            assert len(entries) == 1

    def test_they_know_it_also_where_there_was_nothing_to_reload(self, contents: Contents) -> None:
        state = pinned(contents, 0, 10)
        assert load_decisions.reload(state, [NAME]) == ()
        state = after(state, load_decisions.reload(state, [NAME], by="run"))
        state = attempted(state)
        assert load_decisions.reload(state, [NAME], by="run") == ()

    def test_of_before_a_reload_does_not_count_and_readers_keep_its_rows(self, contents: Contents) -> None:
        state = attempted(pinned(contents, 0, 10))
        number, state = state.number, after(state, publish(state, state.number))
        state = after(state, load_decisions.reload(state, [NAME]))
        assert state.windows[NAME].loaded is None
        assert state.windows[NAME].publication is not None
        with pytest.raises(CommitConflictError, match="to be loaded again since"):
            publish(state, number)
        state = attempted(state, "b")
        state = after(state, publish(state, state.number))
        assert state.windows[NAME].loaded is not None

    @pytest.mark.parametrize("apart", [True, False])
    def test_a_reload_may_be_taken_back_unless_the_rows_may_have_been_replaced_since(
        self, contents: Contents, apart: bool
    ) -> None:
        state = attempted(pinned(contents, 0, 10))
        with pytest.raises(LedgerConflictError, match="never published"):
            load_decisions.take_back(state, [NAME])
        state = after(state, publish(state, state.number, apart=apart))
        assert load_decisions.take_back(state, [NAME]) == (), "it is loaded"
        before = state.windows[NAME].publication
        state = after(state, load_decisions.reload(state, [NAME]))
        back = after(state, load_decisions.take_back(state, [NAME]))
        loaded = back.windows[NAME].loaded
        assert before is not None
        assert loaded == before._replace(number=back.number)
        state = attempted(state, "b")
        if apart:
            assert after(state, load_decisions.take_back(state, [NAME])).windows[NAME].loaded is not None
        else:
            with pytest.raises(LedgerConflictError, match=f"Attempt {state.number} at window .* may have replaced"):
                load_decisions.take_back(state, [NAME])

    def test_that_are_refused_before_they_begin_are_known_until_one_begins(self, contents: Contents) -> None:
        """Once for a run, as its retries are told the same; another run has another address to clear."""
        state = refused(pinned(contents, 0, 10))
        known = state.windows[NAME].refused
        assert known is not None
        assert (known.error, known.number) == ("DataLossError", state.number)
        assert refused(state, try_number=2) is state
        other = refused(state, run_id="b")
        assert (other.windows[NAME].refused or known).who["run_id"] == "b"
        assert state_of(checkpoint_of(other)) == other
        begun = attempted(other)
        assert begun.windows[NAME].refused is None
        again = refused(begun, run_id="b")
        assert again.windows[NAME].refused is not None, "the newest try says why"
        published = after(again, publish(again, begun.number))
        assert published.windows[NAME].refused is None
        assert refused(published) is published

    def test_that_were_refused_before_a_reload_say_nothing_of_what_comes_after(self, contents: Contents) -> None:
        state = refused(pinned(contents, 0, 10))
        assert after(state, load_decisions.reload(state, [NAME], "r")).windows[NAME].refused is None

    def test_a_verdict_is_on_what_is_published(self, contents: Contents) -> None:
        state = attempted(pinned(contents, 0, 10))
        number, state = state.number, after(state, publish(state, state.number))
        with pytest.raises(LedgerConflictError, match=f"attempt {number} is published now"):
            load_decisions.record_verdict(state, Verified(NAME, number + 1, {}))
        state = after(state, load_decisions.record_verdict(state, Verified(NAME, number, {"gaps": 0})))
        assert load_decisions.record_verdict(state, Verified(NAME, number, {"gaps": 1})) == ()
