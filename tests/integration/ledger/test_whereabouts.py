"""Where a record is by its offset, and in words where it is when no window has it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.whereabouts import find
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, OffsetSnapshot
from tests.integration.ledger.loads import (
    AT_T0,
    OFFSETS,
    counted,
    load,
    new_ledger,
    pin,
    publish,
    resolve,
    window,
    windows_of,
)
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return new_ledger(tmp_path)


def committed(hour: int, offset: int) -> OffsetSnapshot:
    """Where a group stands at an hour."""
    asked = snapshot({0: offset}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=T0 + hour * HOUR_MS)
    return replace(asked, as_of=AsOf(AsOfKind.GROUP, group="g"))


@pytest.mark.parametrize("hours", [[1], [0, 1], [2], [1, 2], [1, 2, 3, 4]])
def test_windows_that_tasks_have_only_begun_hide_no_other(ledger: Ledger, tmp_path: Path, hours: list[int]) -> None:
    """They have a folder, and no manifest."""
    for hour in {*range(4)} - {*hours}:
        load(ledger, hour)
    for hour in hours:
        (tmp_path / "loads" / "windows" / window(hour)[:6] / window(hour)).mkdir()
    found = {hour: find(ledger, "t", 0, AT_T0 + hour * OFFSETS).window for hour in range(4)}
    assert found == {hour: None if hour in hours else window(hour) for hour in range(4)}
    last = max({*range(4)} - {*hours})
    assert f"after the last window, {window(last)}, which ends at" in find(ledger, "t", 0, AT_T0 + 9 * OFFSETS).found


@pytest.mark.parametrize(
    "stray", ["20269999T999999999Z_20261199T999999999Z", "20261121T060000000Z_20261121T060000000Z"]
)
def test_a_folder_that_is_named_by_no_two_instants_is_no_window(ledger: Ledger, tmp_path: Path, stray: str) -> None:
    load(ledger, 0)
    (tmp_path / "loads" / "windows" / "202611" / stray).mkdir()
    assert find(ledger, "t", 0, AT_T0).window == window(0)
    assert "after the last window" in find(ledger, "t", 0, AT_T0 + OFFSETS).found


@pytest.mark.parametrize("note", [{"airflow": None}, {"airflow": {}}, {}])
def test_of_an_attempt_that_is_no_tasks_no_run_is_told(ledger: Ledger, note: dict[str, None]) -> None:
    pinned = resolve(ledger, 0)
    ledger.window_folders.of(pinned).record_attempt("a-1", note)
    publish(ledger, pinned)
    found = find(ledger, "t", 0, AT_T0)
    assert (found.found, found.attempt, found.dag_id) == ("published", "a-1", None)


class TestManyWindows:
    """Some dozens of hours, of which a few are read."""

    HOURS = 64

    @pytest.fixture
    def read(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Names of the windows that were read."""
        hours = [snapshot({0: 10 * hour}, at_ms=T0 + hour * HOUR_MS) for hour in range(self.HOURS + 1)]
        for start, end in pairwise(ledger.snapshots.append(hours)):
            pin_window(ledger, start, end)
        read: list[str] = []
        pinned = WindowFolder.pinned

        def counting(folder: WindowFolder) -> PinnedManifest | None:
            read.append(folder.id)
            return pinned(folder)

        monkeypatch.setattr(WindowFolder, "pinned", counting)
        return read

    def test_beside_a_groups_window(self, ledger: Ledger, read: list[str]) -> None:
        """Which may have any offsets."""
        pin(ledger, committed(self.HOURS + 1, 900), committed(self.HOURS + 2, 910))
        read.clear()
        for offset, hour in ((0, 0), (305, 30), (905, self.HOURS + 1)):
            assert find(ledger, "t", 0, offset).window == window(hour)
        assert "in a hole" in find(ledger, "t", 0, 700).found
        assert len({*read}) < self.HOURS // 2

    def test_beside_a_day_over_some_of_them(self, ledger: Ledger, read: list[str]) -> None:
        day = [snapshot({0: 10 * hour}, at_ms=T0 + hour * HOUR_MS) for hour in (0, 24)]
        publish(ledger, pin(ledger, *day, on_overlap="allow"))
        read.clear()
        found = find(ledger, "t", 0, 205)
        assert (found.found, found.window) == ("published", window_id(T0, T0 + 24 * HOUR_MS))
        assert find(ledger, "t", 0, 305).window == window(30)
        assert len({*read}) < self.HOURS // 2

    def test_that_are_all_of_groups_they_are_read_at_once(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for hour in range(32):
            pin(ledger, committed(2 * hour, 10 * hour), committed(2 * hour + 1, 10 * hour + 10))
        pinned = WindowFolder.pinned
        inside, most = Counter[str](), 0

        def slow(folder: WindowFolder) -> PinnedManifest | None:
            nonlocal most
            inside[folder.id] += 1
            most = max(most, inside.total())
            time.sleep(0.01)
            inside[folder.id] -= 1
            return pinned(folder)

        monkeypatch.setattr(WindowFolder, "pinned", slow)
        assert find(ledger, "t", 0, 155).window == window(30)
        assert most > 4


class TestNowhere:
    def test_before_the_first_window(self, ledger: Ledger) -> None:
        for hour in (1, 2):
            load(ledger, hour)
        said = f"before the first window, {window(1)}, which starts at {AT_T0 + OFFSETS}"
        assert find(ledger, "t", 0, AT_T0 + OFFSETS - 1).found == said
        assert find(ledger, "t", 0, 0).found == said

    def test_in_a_hole(self, ledger: Ledger) -> None:
        """One of these windows is published."""
        load(ledger, 0)
        resolve(ledger, 3)
        ends, starts = AT_T0 + OFFSETS, AT_T0 + 3 * OFFSETS
        said = f"in a hole: {window(0)} ends at {ends}, and the next one, {window(3)}, starts at {starts}"
        assert {find(ledger, "t", 0, offset).found for offset in (ends, starts - 1)} == {said}

    def test_after_the_last_window(self, ledger: Ledger) -> None:
        load(ledger, 0)
        resolve(ledger, 1)
        ends = AT_T0 + 2 * OFFSETS
        said = f"after the last window, {window(1)}, which ends at {ends}"
        assert {find(ledger, "t", 0, offset).found for offset in (ends, ends + 1_000)} == {said}

    def test_before_a_partition_that_was_added_in_a_hole(self, ledger: Ledger) -> None:
        pin(ledger, counted(0, 1), counted(1, 1))
        pin(ledger, counted(3, 2), counted(4, 2))
        assert find(ledger, "t", 1, 0).found == (
            f"before the first window that has the partition, {window(3)}, which starts at {3 * OFFSETS}"
        )
        assert find(ledger, "t", 2, 0).found == "the last window doesn't have that partition"

    @pytest.mark.parametrize(
        ("offset", "said"),
        [
            (5, "before the first window, {reset}, which starts at 10"),
            (25, "in a hole: {reset} ends at 20, and the next one, {before}, starts at 30"),
            (45, "after the last window, {before}, which ends at 40"),
        ],
    )
    def test_beside_windows_whose_offsets_do_not_rise_with_time(self, ledger: Ledger, offset: int, said: str) -> None:
        """Of a group that was reset."""
        for hour, start in ((0, 30), (3, 10)):
            pin(ledger, committed(hour, start), committed(hour + 1, start + 10))
        before, reset = (folder.id for folder in windows_of(ledger))
        assert find(ledger, "t", 0, offset).found == said.format(before=before, reset=reset)

    def test_in_overlapping_windows_the_nearest_ones_are_named(self, ledger: Ledger) -> None:
        hours = [snapshot({0: 10 * hour}, at_ms=T0 + hour * HOUR_MS) for hour in range(8)]
        stored = ledger.snapshots.append(hours)
        for start, end in ((1, 4), (2, 3), (6, 7)):
            pin_window(ledger, stored[start], stored[end], on_overlap="allow")
        first, _, last = (folder.id for folder in windows_of(ledger))
        assert find(ledger, "t", 0, 0).found == f"before the first window, {first}, which starts at 10"
        assert find(ledger, "t", 0, 50).found == (
            f"in a hole: {first} ends at 40, and the next one, {last}, starts at 60"
        )
        assert find(ledger, "t", 0, 70).found == f"after the last window, {last}, which ends at 70"


class TestRevisions:
    def test_what_the_newer_revision_alone_has_is_pinned(self, ledger: Ledger) -> None:
        """It was resolved again, and reaches further than the one that is published."""
        pinned = load(ledger, 0)
        (had,) = pinned.manifest.ranges
        ledger.window_folders.pin_again(replace(pinned.manifest, ranges=(replace(had, end_offset=had.end_offset + 5),)))
        for offset, revision, found in (
            (had.end_offset - 1, 1, "published"),
            (had.end_offset + 4, 2, "pinned, not published"),
        ):
            record = find(ledger, "t", 0, offset)
            assert (record.window, record.revision, record.found) == (window(0), revision, found)
        said = f"after the last window, {window(0)}, which ends at {had.end_offset}"
        assert find(ledger, "t", 0, had.end_offset + 5).found == said
