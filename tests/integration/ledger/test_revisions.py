"""Revisions: a window that is resolved anew, or forgotten, while what was pinned before stays where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import ConfigurationError, DataLossError, InstantForgottenError, LedgerError
from airflow_kafka_offsets.ledger import window_folders
from airflow_kafka_offsets.ledger.forgetting import forget_instants, forget_snapshots, forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.storage import StoragePath, create_exclusive, names
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, OffsetSnapshot
from tests.integration.ledger.loads import publish_result, windows_of
from tests.unit.offsets.builders import HOUR_MS, T0, offsets_of, snapshot
from tests.unit.offsets.proof.results import run_result, tallies

pytestmark = pytest.mark.nightly(
    "of revisions in any order; airflow/windows/test_publishing.py has a newer one after an older one"
)

FIRST, SECOND = window_id(T0, T0 + HOUR_MS), window_id(T0 + HOUR_MS, T0 + 2 * HOUR_MS)
LATER = T0 + 9 * HOUR_MS
PathOf = Callable[[str], ObjectStoragePath]


@pytest.fixture
def ledger(root: str) -> Ledger:
    opened = Ledger(ObjectStoragePath(root), "loads")
    opened.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return opened


def pin(ledger: Ledger, hour: int, start: int, end: int) -> PinnedManifest:
    """The window of an hour; the offsets count where its instants weren't resolved before."""
    at_ms = T0 + hour * HOUR_MS
    boundaries = ledger.snapshots.append([snapshot({0: start}, at_ms=at_ms), snapshot({0: end}, at_ms=at_ms + HOUR_MS)])
    return pin_window(ledger, *boundaries)


def offset_of(stored: OffsetSnapshot) -> int:
    (offset,) = offsets_of(stored).values()
    return offset


def publish(ledger: Ledger, pinned: PinnedManifest) -> None:
    publish_result(ledger, pinned, run_result(pinned.manifest, tallies(pinned.manifest)))


class TestForget:
    def test_a_forgotten_window_is_resolved_anew_as_the_next_revision(self, ledger: Ledger) -> None:
        first = pin(ledger, 0, 10, 20)
        assert forget_windows(ledger, [FIRST], "test") == [T0, T0 + HOUR_MS]
        assert windows_of(ledger) == []
        assert ledger.snapshots.entries() == []
        again = pin(ledger, 0, 11, 25)
        assert (first.manifest.revision, again.manifest.revision) == (1, 2)
        assert [each.start_offset for each in again.manifest.ranges] == [11]
        assert f"windows/202611/{FIRST}.r2/manifest.json" in again.uri
        assert [each.revision for each in windows_of(ledger)] == [2]

    def test_what_was_pinned_stays_readable(self, ledger: Ledger) -> None:
        first = pin(ledger, 0, 10, 20)
        forget_windows(ledger, [FIRST], "test")
        assert ledger.pinned(FIRST, 1) == first
        assert offsets_of(ledger.snapshots.read(first.manifest.start_snapshot))

    def test_an_instant_that_another_window_shares_is_kept(self, ledger: Ledger) -> None:
        """Or the two would no longer meet."""
        pin(ledger, 0, 10, 20)
        pin(ledger, 1, 20, 30)
        assert forget_windows(ledger, [FIRST], "test") == [T0]
        again = pin(ledger, 0, 12, 99)
        assert [(each.start_offset, each.end_offset) for each in again.manifest.ranges] == [(12, 20)]

    def test_forgetting_twice_is_forgetting_once(self, ledger: Ledger) -> None:
        pin(ledger, 0, 10, 20)
        forget_windows(ledger, [FIRST], "test")
        assert forget_windows(ledger, [FIRST], "test") == []

    def test_an_instant_can_be_forgotten_and_resolved_again_and_again(self, ledger: Ledger) -> None:
        for offset in (10, 11, 12):
            stored = ledger.snapshots.append([snapshot({0: offset})])[0]
            assert list(offsets_of(stored).values()) == [offset]
            ledger.snapshots.forget(T0)
        assert ledger.snapshots.at_instant(T0) is None
        assert ledger.snapshots.last_number() == 6

    def test_a_forgotten_neighbour_clamps_nobody(self, ledger: Ledger) -> None:
        ledger.snapshots.append([snapshot({0: 500})])
        ledger.snapshots.forget(T0)
        later = ledger.snapshots.append([snapshot({0: 20}, at_ms=T0 + HOUR_MS)])[0]
        assert list(offsets_of(later).values()) == [20]


class TestRaces:
    def test_who_pins_with_a_snapshot_that_was_forgotten_meanwhile_is_told(self, ledger: Ledger) -> None:
        start, end = ledger.snapshots.append([snapshot({0: 10}), snapshot({0: 20}, at_ms=T0 + HOUR_MS)])
        ledger.snapshots.forget(T0)
        with pytest.raises(InstantForgottenError, match="Resolve it again") as failed:
            pin_window(ledger, start, end)
        assert failed.value.retriable

    def test_and_nothing_is_pinned_before_the_next_try(self, ledger: Ledger) -> None:
        start, end = ledger.snapshots.append([snapshot({0: 10}), snapshot({0: 20}, at_ms=T0 + HOUR_MS)])
        ledger.snapshots.forget(T0)
        with pytest.raises(InstantForgottenError):
            pin_window(ledger, start, end)
        fresh = ledger.snapshots.append([snapshot({0: 15})])[0]
        again = pin_window(ledger, fresh, end)
        assert (again.manifest.revision, again.manifest.start_snapshot) == (1, fresh.number)

    def test_an_instant_that_was_forgotten_under_a_window_gets_its_offsets_back(self, ledger: Ledger) -> None:
        """Somebody forgot it for two windows, and died before he had resolved both anew; or one of them was pinned in
        the moment before."""
        pin(ledger, 0, 10, 20)
        pin(ledger, 1, 20, 30)
        forget_instants(ledger, [FIRST, SECOND])
        assert ledger.snapshots.entries() == []
        fresh = [snapshot({0: each}, at_ms=T0 + hour * HOUR_MS) for hour, each in enumerate((11, 25, 35))]
        start, end = ledger.snapshots.append(fresh[:2], revising=[FIRST])
        assert [offset_of(each) for each in (start, end)] == [11, 20]
        second = ledger.pinned(SECOND)
        assert pin_window(ledger, end, ledger.snapshots.append(fresh[2:])[0]) == second, (
            "the same ranges are no new revision"
        )

    @pytest.mark.parametrize("times", [1, 2])
    def test_and_so_it_does_when_it_is_forgotten_again(self, ledger: Ledger, times: int) -> None:
        """The window keeps the snapshots that it was made from, whatever numbers its offsets came back under."""
        pin(ledger, 0, 10, 20)
        fresh = [snapshot({0: each}, at_ms=T0 + hour * HOUR_MS) for hour, each in enumerate((11, 25, 35))]
        for _ in range(times):
            forget_instants(ledger, [FIRST])
            assert [offset_of(each) for each in ledger.snapshots.append(fresh[:2])] == [10, 20]
        forget_instants(ledger, [FIRST])
        late = snapshot({0: 22}, at_ms=T0 + HOUR_MS // 2)
        assert [offset_of(each) for each in ledger.snapshots.append([late, *fresh[1:]])] == [20, 20, 35]

    def test_even_if_others_that_no_window_has_were_forgotten_since(self, ledger: Ledger) -> None:
        """Resolving it again was refused, or killed, before it was pinned."""
        pin(ledger, 0, 10, 20)
        fresh = [snapshot({0: each}, at_ms=T0 + hour * HOUR_MS) for hour, each in enumerate((11, 25, 35))]
        forget_instants(ledger, [FIRST])
        assert [offset_of(each) for each in ledger.snapshots.append(fresh[:2], revising=[FIRST])] == [11, 25]
        forget_instants(ledger, [FIRST])
        assert [offset_of(each) for each in ledger.snapshots.append(fresh[1:])] == [20, 35]

    def test_a_forgotten_instant_bounds_others_as_long_as_a_window_was_made_from_it(self, ledger: Ledger) -> None:
        """Found by the chaos run: a cut began behind the end that it brought back, and failed for good."""
        pin(ledger, 0, 10, 20)
        forget_instants(ledger, [FIRST])
        cut = [snapshot({0: each}, at_ms=T0 + at_ms) for at_ms, each in ((HOUR_MS // 2, 25), (HOUR_MS, 26))]
        start, end = ledger.snapshots.append(cut)
        assert [offset_of(each) for each in (start, end)] == [20, 20]
        before, after = (
            snapshot({0: each}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER) for hour, each in ((-1, 15), (3, 5))
        )
        assert [offset_of(each) for each in ledger.snapshots.append([after, before])] == [20, 10]

    def test_and_bounds_nobody_where_what_counts_contradicts_it(self, ledger: Ledger) -> None:
        """Three windows were resolved anew together, with late records, and the task died after the first."""
        windows = [pin(ledger, hour, 10, 10).manifest.window for hour in (0, 1, 2)]
        forget_instants(ledger, windows)
        fresh = [snapshot({0: 25}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER) for hour in range(5)]
        ledger.snapshots.append(fresh[:2], revising=windows)
        assert [offset_of(each) for each in ledger.snapshots.append(fresh[3:])] == [25, 25], (
            "the third ends where they do"
        )
        assert [offset_of(each) for each in ledger.snapshots.append(fresh[1:3])] == [25, 25]
        assert pin_window(ledger, *ledger.snapshots.append(fresh[1:3])).manifest.revision == 2

    def test_windows_of_months_after_it_are_not_looked_at(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A window that was forgotten for good made every later one list all months."""
        pin(ledger, 0, 10, 20)
        forget_windows(ledger, [FIRST], "test")
        pin(ledger, 60 * 24, 30, 40)
        listed: list[str] = []

        def noted(folder: StoragePath) -> list[str]:
            listed.append(folder.name)
            return names(folder)

        monkeypatch.setattr(window_folders, "names", noted)
        ledger.snapshots.append([snapshot({0: 35}, at_ms=T0 + 60 * 24 * HOUR_MS + HOUR_MS // 2)])
        assert "202611" in listed
        assert "202701" not in listed

    def test_and_not_whom_it_is_resolved_anew_with(self, ledger: Ledger) -> None:
        pin(ledger, 0, 10, 20)
        forget_instants(ledger, [FIRST])
        fresh = [snapshot({0: each}, at_ms=T0 + hour * HOUR_MS) for hour, each in enumerate((25, 26))]
        assert [offset_of(each) for each in ledger.snapshots.append(fresh, revising=[FIRST])] == [25, 26]

    def test_an_instant_does_not_come_back_behind_what_was_stored_without_it(self, ledger: Ledger) -> None:
        """A window was pinned from it at the very moment, by a task that is told so; or resolved anew beside it."""
        pin(ledger, 0, 10, 20)
        pin(ledger, 1, 20, 30)
        forget_instants(ledger, [FIRST, SECOND])
        fresh = [
            snapshot({0: each}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER)
            for hour, each in enumerate((11, 25, 15))
        ]
        (end,) = ledger.snapshots.append(fresh[2:], revising=[FIRST, SECOND])
        start, middle = ledger.snapshots.append(fresh[:2])
        assert [offset_of(each) for each in (start, middle, end)] == [10, 15, 15]

    def test_and_both_move_where_both_are_being_resolved_anew(self, ledger: Ledger) -> None:
        pin(ledger, 0, 10, 20)
        pin(ledger, 1, 20, 30)
        forget_instants(ledger, [FIRST, SECOND])
        fresh = [snapshot({0: each}, at_ms=T0 + hour * HOUR_MS) for hour, each in enumerate((11, 25, 35))]
        stored = ledger.snapshots.append(fresh, revising=[FIRST, SECOND])
        assert [offset_of(each) for each in stored] == [11, 25, 35]

    def test_what_was_deleted_since_is_a_loss_and_no_smaller_window(self, ledger: Ledger) -> None:
        """The look-up finds what is left; the window begins where it began."""
        first = pin(ledger, 0, 10, 20)
        publish(ledger, first)
        forget_instants(ledger, [FIRST])
        gone = [snapshot({0: each}, at_ms=T0 + hour * HOUR_MS, log_start=15) for hour, each in enumerate((15, 25))]
        stored = ledger.snapshots.append(gone, revising=[FIRST])
        with pytest.raises(DataLossError, match="5 from 10 on"):
            pin_window(ledger, *stored)
        again = pin_window(ledger, *stored, on_data_loss="load_rest")
        assert [(each.window_start, each.start_offset, each.lost_offsets) for each in again.manifest.ranges] == [
            (10, 15, 5)
        ]


class TestPublished:
    def test_an_older_revision_counts_until_a_newer_one_is_published(self, ledger: Ledger) -> None:
        first = pin(ledger, 0, 10, 20)
        publish(ledger, first)
        second = ledger.window_folders.pin_again(replace(first.manifest, start_snapshot=7))
        assert [each.revision for each in ledger.window_folders.current()] == [1, 2]
        published = ledger.window_folders.publication(FIRST)
        assert published is not None
        assert published.revision == 1
        publish(ledger, second)
        assert [each.revision for each in ledger.window_folders.current()] == [2]

    def test_a_forgotten_one_gives_way_to_the_publication_before(self, ledger: Ledger) -> None:
        first = pin(ledger, 0, 10, 20)
        publish(ledger, first)
        second = ledger.window_folders.pin_again(replace(first.manifest, start_snapshot=7))
        publish(ledger, second)
        create_exclusive(ledger.window_folders._folder / "202611" / f"{FIRST}.r2.forgotten", b"test")
        published = ledger.window_folders.publication(FIRST)
        assert published is not None
        assert (published.number, published.revision) == (1, 1)

    def test_one_that_a_crash_left_without_a_manifest_is_passed_over(self, ledger: Ledger) -> None:
        """Found by the chaos run: a load of what was left died, and no other one found the window."""
        first = pin(ledger, 0, 10, 20)
        folders = ledger.window_folders
        create_exclusive(folders.folder(FIRST, 2)._folder / "draft.json", b"{")
        assert ledger.pinned(FIRST) == first == ledger.last_pinned()
        assert [(each.window, each.revision) for each in ledger.summaries()] == [(FIRST, 1)]
        third = folders.pin_again(replace(first.manifest, start_snapshot=7))
        assert third.manifest.revision == 3
        assert ledger.pinned(FIRST) == third

    def test_pinning_the_same_again_makes_no_revision(self, ledger: Ledger) -> None:
        first = pin(ledger, 0, 10, 20)
        assert ledger.window_folders.pin_again(first.manifest) == first


class TestIncrements:
    def append(self, ledger: Ledger, run: str, offset: int, follows: int) -> None:
        fresh = replace(snapshot({0: offset}), as_of=AsOf(AsOfKind.INCREMENT, run=run, follows=follows))
        ledger.snapshots.append([fresh])

    def test_each_follows_the_one_before_it_whatever_it_was_told(self, ledger: Ledger) -> None:
        """Two runs that both saw an empty ledger."""
        first = ledger.snapshots.append([snapshot({0: 0}, kind=AsOfKind.EARLIEST)])[0]
        other = ledger.snapshots.append([snapshot({0: 0}, kind=AsOfKind.EARLIEST)])[0]
        self.append(ledger, "aa", 10, first.number or 0)
        self.append(ledger, "bb", 15, other.number or 0)
        increments = [ledger.snapshots.increment(run) for run in ("aa", "bb")]
        ends = [[next(iter(offsets_of(each).values())) for each in found] for found in increments if found is not None]
        assert ends == [[0, 10], [10, 15]]

    def test_a_run_has_one(self, ledger: Ledger) -> None:
        first = ledger.snapshots.append([snapshot({0: 0}, kind=AsOfKind.EARLIEST)])[0]
        self.append(ledger, "aa", 10, first.number or 0)
        self.append(ledger, "aa", 99, first.number or 0)
        found = ledger.snapshots.increment("aa")
        assert found is not None
        assert list(offsets_of(found[1]).values()) == [10]
        assert ledger.snapshots.increment("bb") is None

    def test_no_two_snapshots_have_one_time(self, ledger: Ledger) -> None:
        """Or two windows would have one name."""
        stored = ledger.snapshots.append([snapshot({0: 0}, kind=AsOfKind.EARLIEST) for _ in range(3)])
        assert [each.timestamp_ms - T0 for each in stored] == [0, 1, 2]


class TestClocks:
    """A worker whose clock was a year ahead has stored a snapshot as of latest."""

    @pytest.fixture
    def ahead(self, ledger: Ledger) -> OffsetSnapshot:
        ledger.snapshots.append([snapshot({0: 10})])
        return ledger.snapshots.append([snapshot({0: 20}, at_ms=T0 + 8760 * HOUR_MS, kind=AsOfKind.LATEST)])[0]

    @pytest.mark.parametrize("kind", [AsOfKind.INSTANT, AsOfKind.LATEST])
    def test_nothing_is_stored_beside_it_and_the_way_on_is_named(
        self, ledger: Ledger, ahead: OffsetSnapshot, kind: AsOfKind
    ) -> None:
        """Each window up to then would end at offset 20."""
        with pytest.raises(LedgerError, match=r"365 days ahead of this machine.*forget-snapshots loads --after 2026"):
            ledger.snapshots.append([snapshot({0: 50}, at_ms=T0 + HOUR_MS, kind=kind)])
        assert len(ledger.snapshots.entries()) == 2

    def test_what_stands_between_others_is_stored(self, ledger: Ledger, ahead: OffsetSnapshot) -> None:
        between = ledger.snapshots.append([snapshot({0: 5}, at_ms=T0 - HOUR_MS)])[0]
        assert list(offsets_of(between).values()) == [5]

    def test_taken_back_it_holds_nothing_down(self, ledger: Ledger, ahead: OffsetSnapshot) -> None:
        (taken,) = forget_snapshots(ledger, T0 + HOUR_MS)
        assert taken.number == ahead.number
        assert ledger.snapshots.forgotten([ahead]) == [ahead]
        assert forget_snapshots(ledger, T0 + HOUR_MS) == []
        later = ledger.snapshots.append([snapshot({0: 50}, at_ms=T0 + 2 * HOUR_MS)])[0]
        assert list(offsets_of(later).values()) == [50]
        assert [each.number for each in ledger.snapshots.entries()] == [1, later.number]

    def test_one_that_a_window_was_made_from_stays(self, ledger: Ledger, ahead: OffsetSnapshot) -> None:
        pinned = pin_window(ledger, ledger.snapshots.read(1), ahead)
        with pytest.raises(ConfigurationError, match=f"ledger forget loads {pinned.manifest.window}$"):
            forget_snapshots(ledger, T0 + HOUR_MS)
        publish(ledger, pinned)
        with pytest.raises(
            ConfigurationError, match=r"--force. Windows with other names would load the same records again"
        ):
            forget_snapshots(ledger, T0 + HOUR_MS)
        forget_windows(ledger, [pinned.manifest.window], "test")
        assert len(forget_snapshots(ledger, T0 + HOUR_MS)) == 1

    def test_a_window_is_not_pinned_with_one_that_was_taken_back(self, ledger: Ledger, ahead: OffsetSnapshot) -> None:
        forget_snapshots(ledger, T0 + HOUR_MS)
        with pytest.raises(InstantForgottenError):
            pin_window(ledger, ledger.snapshots.read(1), ahead)

    def test_one_of_the_same_time_as_an_instant_is_not_taken_for_it(self, ledger: Ledger) -> None:
        ledger.snapshots.append([snapshot({0: 10}, kind=AsOfKind.LATEST)])
        ledger.snapshots.append([snapshot({0: 10})])
        ledger.snapshots.forget(T0)
        assert [each.kind for each in ledger.snapshots.entries()] == [AsOfKind.LATEST]
