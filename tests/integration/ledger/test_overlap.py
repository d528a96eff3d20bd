"""Windows that share offsets: at most one of them is ever in the ledger, whoever pins at one moment and dies of it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath
from upath import UPath

from airflow_kafka_offsets.errors import WindowOverlapError
from airflow_kafka_offsets.ledger import storage
from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.overlaps import Look
from airflow_kafka_offsets.ledger.pinning import Pinning, pin_window
from airflow_kafka_offsets.ledger.storage import StoragePath, create_exclusive
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind, OffsetSnapshot
from airflow_kafka_offsets.offsets.windows.tiling import shared
from tests.integration.airflow.windows.test_every_moment import before_look
from tests.integration.ledger.loads import publish, windows_of
from tests.patience import PATIENCE_S
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

MINUTE_MS = HOUR_MS // 60


@pytest.fixture
def ledger(root: str) -> Ledger:
    return opened(Ledger(ObjectStoragePath(root), "loads"))


@pytest.fixture
def local(tmp_path: Path) -> Ledger:
    return opened(Ledger(UPath(tmp_path), "loads"))


def opened(ledger: Ledger) -> Ledger:
    ledger.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return ledger


def at(ledger: Ledger, *minutes: float) -> list[OffsetSnapshot]:
    """Stored snapshots so many minutes after T0, with a record a minute before each of them."""
    wanted = [
        snapshot({0: 1000 + int(each)}, at_ms=T0 + int(each * MINUTE_MS), resolved_at_ms=T0 + 12 * HOUR_MS)
        for each in minutes
    ]
    return ledger.snapshots.append(wanted)


def names(ledger: Ledger) -> list[str]:
    return [each.id for each in windows_of(ledger)]


class TestRefused:
    @pytest.mark.parametrize(
        ("start", "end"),
        [(17, 77), (30, 40), (-10, 70), (59, 61), (-30, 1)],
        ids=["cross", "in", "round", "end", "start"],
    )
    def test_a_window_with_offsets_of_a_pinned_one(self, ledger: Ledger, start: int, end: int) -> None:
        standing = pin_window(ledger, *at(ledger, 0, 60))
        with pytest.raises(
            WindowOverlapError, match=f"window {standing.manifest.window} too, which is pinned"
        ) as refused:
            pin_window(ledger, *at(ledger, start, end))
        assert not refused.value.retriable
        assert names(ledger) == [standing.manifest.window]
        assert all(each.holds for each in verify(ledger))

    def test_its_neighbours_are_not(self, local: Ledger) -> None:
        for minutes in ((60, 120), (0, 60), (120, 180)):
            pin_window(local, *at(local, *minutes))
        assert len(names(local)) == 3

    def test_one_that_shares_time_alone_is_not(self, local: Ledger) -> None:
        """An idle topic: no record is in both."""
        idle = [snapshot({0: 1000}, at_ms=T0 + each * MINUTE_MS) for each in (0, 17, 60, 77)]
        zero, seventeen, sixty, late = local.snapshots.append(idle)
        pin_window(local, zero, sixty)
        pin_window(local, seventeen, late)
        assert len(names(local)) == 2

    def test_one_that_was_published_is_named_so_with_the_command_that_forgets_it(self, local: Ledger) -> None:
        standing = pin_window(local, *at(local, 0, 60))
        publish(local, standing)
        forget = f"kafka-offsets ledger forget loads {standing.manifest.window} --force"
        with pytest.raises(WindowOverlapError, match=f"published .t-0: 43 offsets from 1017 on.*{forget}"):
            pin_window(local, *at(local, 17, 77))

    def test_one_that_may_be_loading_is_named_with_its_run_and_is_to_be_ended_first(self, local: Ledger) -> None:
        folder = local.window_folders.of(pin_window(local, *at(local, 0, 60)))
        run = {"dag_id": "hourly", "run_id": "manual__1", "task_id": "load", "try_number": 1}
        folder.record_attempt("try-1", {"started_at": "2026-11-21T08:00:00.000Z", "airflow": run})
        with pytest.raises(WindowOverlapError) as refused:
            pin_window(local, *at(local, 17, 77))
        said = (
            "may be loading at this moment: attempt try-1, submitted at 2026-11-21T08:00:00.000Z by run manual__1 "
            "of Dag hourly"
        )
        assert said in str(refused.value)
        assert "stop its load first, and then run kafka-offsets ledger forget" in str(refused.value)

    def test_one_whose_attempts_have_failed_may_be_forgotten(self, local: Ledger) -> None:
        folder = local.window_folders.of(pin_window(local, *at(local, 0, 60)))
        folder.record_attempt("try-1", {})
        create_exclusive(folder._folder / "failures" / "try-1.json", FailureNote("UnprovenError", "no").to_bytes())
        with pytest.raises(WindowOverlapError, match=r"pinned, not loaded .*ledger forget loads"):
            pin_window(local, *at(local, 17, 77))

    def test_one_that_is_asked_for_by_name_is_pinned(self, local: Ledger) -> None:
        pin_window(local, *at(local, 0, 60))
        pin_window(local, *at(local, 17, 77), on_overlap="allow")
        assert len(names(local)) == 2
        pin_window(local, *at(local, 0, 60))  # what stands stays, when its run is cleared

    def test_a_forgotten_one_is_in_nobodys_way(self, local: Ledger) -> None:
        standing = pin_window(local, *at(local, 0, 60))
        forget_windows(local, [standing.manifest.window], "test")
        pin_window(local, *at(local, 17, 77))
        assert len(names(local)) == 1


class TestOutOfTheChain:
    """Windows from a log start or from a group's commits reach where their offsets say, not their time."""

    def stored(self, ledger: Ledger, offset: int, minute: int, kind: AsOfKind) -> OffsetSnapshot:
        (found,) = ledger.snapshots.append([snapshot({0: offset}, at_ms=T0 + minute * MINUTE_MS, kind=kind)])
        return found

    def test_a_later_window_from_the_log_start_is_compared_with_all(self, local: Ledger) -> None:
        for minutes in ((0, 60), (60, 120)):
            pin_window(local, *at(local, *minutes))
        start, end = self.stored(local, 0, 200, AsOfKind.EARLIEST), self.stored(local, 1200, 201, AsOfKind.LATEST)
        with pytest.raises(WindowOverlapError, match="60 of its offsets"):
            pin_window(local, start, end)

    def test_and_so_is_an_earlier_hour_with_it(self, local: Ledger) -> None:
        start, end = self.stored(local, 0, 200, AsOfKind.EARLIEST), self.stored(local, 1200, 201, AsOfKind.LATEST)
        pin_window(local, start, end)
        with pytest.raises(WindowOverlapError, match="60 of its offsets"):
            pin_window(local, *at(local, 0, 60))

    def test_a_window_by_time_is_compared_with_what_meets_it_at_a_snapshot_of_another_kind(self, local: Ledger) -> None:
        """Somebody has given the times in an increment's name: the records of a time end elsewhere."""
        ends = [self.stored(local, 1000 + minute, minute, AsOfKind.LATEST) for minute in (0, 60, 120)]
        for pair in pairwise(ends):
            pin_window(local, *pair)
        late = snapshot({0: 1080}, at_ms=T0 + HOUR_MS, resolved_at_ms=T0 + 12 * HOUR_MS)
        (end,) = local.snapshots.append([late])
        with pytest.raises(WindowOverlapError, match=r"20 of its offsets .* another pipeline name") as refused:
            pin_window(local, *at(local, 0), end)
        assert "re-resolve" not in str(refused.value), "it refuses them"
        assert [each.revision for each in windows_of(local)] == [1, 1]

    def test_windows_that_drain_a_group_follow_each_other(self, local: Ledger) -> None:
        """However many there were: the last one that ended below tells that all before it did."""
        read: list[str] = []
        for n in range(40):
            start = self.stored(local, 1000 + n, 2 * n, AsOfKind.EARLIEST)
            pin_window(local, start, self.stored(local, 1001 + n, 2 * n + 1, AsOfKind.LATEST))
            read.append(names(local)[-1])
        assert len(set(read)) == 40
        late = self.stored(local, 1005, 200, AsOfKind.EARLIEST)
        with pytest.raises(WindowOverlapError, match="t-0: 1 offsets from 10"):
            pin_window(local, late, self.stored(local, 1050, 201, AsOfKind.LATEST))


class TestTwoAtOneMoment:
    def test_a_task_that_died_between_its_two_looks_is_told_of_and_heals(self, local: Ledger) -> None:
        hour, other = at(local, 0, 60), at(local, 17, 77)
        dead = Pinning(local, "fail")
        dead.pin(*hour)  # and never settled
        with pytest.raises(WindowOverlapError, match="being pinned") as refused:
            pin_window(local, *other)
        assert refused.value.retriable
        pinned = pin_window(local, *hour)
        assert local.window_folders.of(pinned).is_settled
        with pytest.raises(WindowOverlapError, match="pinned, not loaded"):
            pin_window(local, *other)
        assert names(local) == [pinned.manifest.window]

    def test_of_two_that_saw_each_other_neither_is_settled_and_either_may_be_then(self, local: Ledger) -> None:
        hour, other = at(local, 0, 60), at(local, 17, 77)
        one, two = Pinning(local, "fail"), Pinning(local, "fail")
        look_first(one, local)
        look_first(two, local)
        one.pin(*hour)
        two.pin(*other)
        refused = [one.settle(), two.settle()]
        assert [len(each) for each in refused] == [1, 0], "the first to look again takes its pin back for the other"
        assert len(names(local)) == 1
        with pytest.raises(WindowOverlapError, match="pinned, not loaded"):
            pin_window(local, *hour)

    def test_a_second_look_takes_back_nothing_that_another_try_has_settled(self, local: Ledger) -> None:
        hour = at(local, 0, 60)
        slow = Pinning(local, "fail")
        pinned = slow.pin(*hour)
        assert pin_window(local, *hour) == pinned
        pin_window(local, *at(local, 17, 77), on_overlap="allow")
        assert slow.settle() == {}
        assert len(names(local)) == 2

    def test_one_that_somebody_loads_is_refused_and_not_settled(self, local: Ledger) -> None:
        slow = Pinning(local, "fail")
        pinned = slow.pin(*at(local, 0, 60))
        local.window_folders.of(pinned).record_attempt("try-1", {})
        pin_window(local, *at(local, 17, 77), on_overlap="allow")
        assert list(slow.settle()) == [pinned.manifest.window]
        assert not local.window_folders.of(pinned).is_settled
        assert len(names(local)) == 2, "nobody takes back what somebody loads"

    @pytest.mark.parametrize("file", range(3))
    @pytest.mark.parametrize("first", ["takes it back", "settles it"])
    def test_of_two_that_pin_one_window_either_both_have_it_or_neither(
        self, local: Ledger, monkeypatch: pytest.MonkeyPatch, file: int, first: str
    ) -> None:
        """One sees a window that it overlaps, the other one allows that; before each file that one of them creates,
        the other one comes to its end."""
        hour = at(local, 0, 60)
        sees, allows = Pinning(local, "fail"), Pinning(local, "allow")
        pinned = sees.pin(*hour)
        assert allows.pin(*hour) == pinned
        pin_window(local, *at(local, 17, 77), on_overlap="allow")
        one, other = (sees, allows) if first == "takes it back" else (allows, sees)
        refused: dict[str, WindowOverlapError] = {}
        create, left = storage._create, iter(range(file))

        def after_the_other(path: StoragePath, content: bytes) -> None:
            if next(left, None) is None:
                monkeypatch.setattr(storage, "_create", create)
                refused.update(other.settle())
            create(path, content)

        monkeypatch.setattr(storage, "_create", after_the_other)
        refused |= one.settle()
        monkeypatch.setattr(storage, "_create", create)
        refused |= other.settle()
        window = pinned.manifest.window
        assert (window in names(local), local.window_folders.of(pinned).is_settled) == (window not in refused,) * 2
        if refused:
            again = pin_window(local, *hour, on_overlap="allow")
            assert again.manifest.revision == 2
            assert all(each.holds for each in verify(local) if each.claim == "window")

    @pytest.mark.parametrize("minutes", [(17, 77), (0, 60)], ids=["one that crosses it", "the same one"])
    def test_before_each_look_of_one_another_comes_to_its_end(self, tmp_path: Path, minutes: tuple[int, int]) -> None:
        """No two windows that overlap are settled, whoever saw whom, and one of them stands when both have tried again:
        as a task does it."""
        for moment in count():
            local = opened(Ledger(UPath(tmp_path / str(moment)), "loads"))
            hour, other = at(local, 0, 60), at(local, *minutes)
            refused: list[str] = []
            with before_look(moment, partial(_try_to_pin, local, other, refused)) as happened:
                _try_to_pin(local, hour, refused)
            assert len(_settled(local)) <= 1, (moment, refused)
            for each in (hour, other):
                _try_to_pin(local, each, refused)
            assert len(_settled(local)) == 1, (moment, refused)
            assert all(each.holds for each in verify(local)), moment
            if not happened:
                break
        assert moment > 10

    def test_one_that_differs_and_was_taken_back_while_this_one_was_pinned_is_tried_again(
        self, local: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A third task's window, made from a snapshot that was forgotten since, was there for a moment."""
        hour = at(local, 0, 60)
        pin_new = WindowFolder.pin_new

        def late(folder: WindowFolder, fresh: Manifest) -> PinnedManifest | None:
            monkeypatch.undo()
            other = replace(fresh, ranges=tuple(replace(each, end_offset=1059) for each in fresh.ranges))
            assert pin_new(folder, other) is not None
            assert local.window_folders.take_back(folder, "shares offsets")
            return pin_new(folder, fresh)

        monkeypatch.setattr(WindowFolder, "pin_new", late)
        assert pin_window(local, *hour).manifest.revision == 2

    def test_a_crash_while_it_is_taken_back_leaves_no_window(
        self, local: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hour = at(local, 0, 60)
        dies = Pinning(local, "fail")
        pinned = dies.pin(*hour)
        pin_window(local, *at(local, 17, 77), on_overlap="allow")
        create = storage._create

        def die(path: StoragePath, content: bytes) -> None:
            if path.name.endswith("forgotten"):
                raise KeyboardInterrupt
            create(path, content)

        monkeypatch.setattr(storage, "_create", die)
        with pytest.raises(KeyboardInterrupt):
            dies.settle()
        monkeypatch.setattr(storage, "_create", create)
        assert local.window_folders.newest(pinned.manifest.window).pinned() is None
        assert pin_window(local, *hour, on_overlap="allow").manifest.revision == 2

    def test_the_last_window_is_one_that_counts(self, local: Ledger) -> None:
        """An increment that began at the end of another one would lie apart, once that is taken back."""
        hour = pin_window(local, *at(local, 0, 60))
        dead = Pinning(local, "fail")
        dead.pin(*at(local, 60, 120))
        assert local.last_pinned() == hour
        dead.settle()
        assert local.last_pinned() != hour


def _try_to_pin(ledger: Ledger, snapshots: list[OffsetSnapshot], refused: list[str]) -> None:
    """Pin a window, once."""
    pinning = Pinning(ledger, "fail")
    try:
        pinning.pin(*snapshots)
        refused += pinning.settle()
    except WindowOverlapError as error:
        refused.append(str(error))


def _settled(ledger: Ledger) -> list[str]:
    return [each.id for each in windows_of(ledger) if each.is_settled]


def look_first(pinning: object, ledger: Ledger) -> None:
    """Make its first look now, before anybody has pinned."""
    pinning._first_look = Look(ledger)  # type: ignore[attr-defined]


RACERS = [(minute, minute + 60) for minute in (0, 10, 20, 30, 40, 50)]


def race(folders: list[Path], minutes: tuple[int, int], ready: Callable[[], object], said: object) -> None:
    for folder in folders:
        ledger = Ledger(UPath(folder), "loads")
        window = at(ledger, *minutes)
        ready()
        try:
            pin_window(ledger, *window)
            said.put((folder, minutes, None))  # type: ignore[attr-defined]
        except WindowOverlapError as error:
            said.put((folder, minutes, str(error)))  # type: ignore[attr-defined]


@pytest.mark.nightly("six processes; airflow/windows/test_side_by_side.py has resolvers side by side")
def test_of_six_processes_that_pin_overlapping_windows_at_once_no_two_succeed_that_overlap(tmp_path: Path) -> None:
    """In several ledgers, one after the other."""
    folders = [tmp_path / str(number) for number in range(8)]
    for folder in folders:
        at(opened(Ledger(UPath(folder), "loads")), *sorted({each for pair in RACERS for each in pair}))
    spawn = multiprocessing.get_context("spawn")
    said, gate = spawn.Queue(), spawn.Barrier(len(RACERS))
    processes = [spawn.Process(target=race, args=(folders, each, gate.wait, said)) for each in RACERS]
    for each in processes:
        each.start()
    outcomes: dict[Path, dict[tuple[int, int], str | None]] = {folder: {} for folder in folders}
    for _ in range(len(folders) * len(RACERS)):
        folder, minutes, error = said.get(timeout=4 * PATIENCE_S)
        outcomes[folder][minutes] = error
    for each in processes:
        each.join()
    for folder, found in outcomes.items():
        check_race(Ledger(UPath(folder), "loads"), found)


def check_race(ledger: Ledger, outcomes: dict[tuple[int, int], str | None]) -> None:
    manifests = [ledger.pinned(each).manifest for each in names(ledger)]
    assert manifests, "one of them comes through"
    assert not any(shared(a.ranges, b.ranges) for n, a in enumerate(manifests) for b in manifests[n + 1 :])
    assert len(manifests) == sum(error is None for error in outcomes.values())
    assert all("of its offsets are in window" in error for error in outcomes.values() if error is not None)
    loser = next(minutes for minutes, error in outcomes.items() if error is not None)
    with pytest.raises(WindowOverlapError, match="pinned, not loaded"):
        pin_window(ledger, *at(ledger, *loser))
