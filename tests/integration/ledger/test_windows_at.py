"""Windows at an instant: which ones have it, why none has, and what the answer leaves open."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.key_partitions import KeyPartitions, partitions_of_key
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.summaries import WindowState
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.windows_at import WindowAt, WindowsAt, find_at
from airflow_kafka_offsets.offsets.keys import partition_of_key
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Evidence, OffsetSnapshot
from tests.integration.ledger.added_topics import ADDED, AT_ADDED, add_topic, at_hour
from tests.integration.ledger.loads import AT_T0, OFFSETS, counted, load, new_ledger, pin, resolve, window
from tests.unit.offsets.builders import HOUR_MS, T0, boundary, snapshot

MINUTE_MS = HOUR_MS // 60
KEY = b"customer-4711"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return new_ledger(tmp_path)


def ask(ledger: Ledger, at_ms: int, on: KeyPartitions | int | None = None) -> WindowsAt:
    return find_at(ledger, "t", at_ms, on)


def only(found: WindowsAt) -> WindowAt:
    (one,) = found.windows
    return one


def untimed(kind: AsOfKind, offset: int, minute: int) -> OffsetSnapshot:
    return snapshot({0: offset}, kind=kind, at_ms=T0 + minute * MINUTE_MS)


class TestFound:
    def test_a_window_has_its_start_and_not_its_end(self, ledger: Ledger) -> None:
        load(ledger, 0)
        resolve(ledger, 1)
        for at_ms, hour in ((T0, 0), (T0 + HOUR_MS - 1, 0), (T0 + HOUR_MS, 1), (T0 + 2 * HOUR_MS - 1, 1)):
            assert only(ask(ledger, at_ms)).place.window == window(hour)

    def test_its_rows_and_its_offsets_are_named(self, ledger: Ledger) -> None:
        load(ledger, 0)
        found = only(ask(ledger, T0))
        assert (found.place.found, found.place.attempt, found.place.dag_id) == ("published", "a-1", "loads")
        assert found.place.output == f"file:///out/{window(0)}"
        assert found.summary.state is WindowState.VERIFIED
        assert [(each.partition, each.start_offset, each.end_offset) for each in found.ranges] == [
            (0, AT_T0, AT_T0 + OFFSETS)
        ]

    def test_that_a_late_record_is_in_a_later_window_is_said(self, ledger: Ledger) -> None:
        resolve(ledger, 0)
        found = only(ask(ledger, T0))
        assert found.place.found == "pinned, not published"
        assert found.remarks[0].startswith(
            "Late records of that time are in later windows: those that were written after"
        )
        assert len(found.remarks) == 1

    def test_the_published_revision_is_shown_before_a_newer_one(self, ledger: Ledger) -> None:
        pinned = load(ledger, 0)
        ledger.window_folders.pin_again(replace(pinned.manifest, ranges=()))
        assert only(ask(ledger, T0)).place.revision == 1

    def test_all_windows_that_have_it_are_shown(self, ledger: Ledger) -> None:
        """Days and hours of one pipeline, where that was allowed."""
        load(ledger, 0)
        start, end = (
            snapshot({0: AT_T0 + hour * OFFSETS}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=T0 + 999 * HOUR_MS)
            for hour in (0, 24)
        )
        pin_window(ledger, *ledger.snapshots.append([start, end]), on_overlap="allow")
        assert [each.place.found for each in ask(ledger, T0).windows] == ["published", "pinned, not published"]

    def test_where_a_neighbour_decided_the_start_an_earlier_window_may_have_it(self, ledger: Ledger) -> None:
        pin(ledger, snapshot({0: 10}, at_ms=T0), snapshot({0: 20}, at_ms=T0 + HOUR_MS))
        ledger.snapshots.append([snapshot({0: 15}, at_ms=T0 + 2 * HOUR_MS)])
        start = ledger.snapshots.at_instant(T0 + 2 * HOUR_MS)
        assert start is not None
        assert start.boundaries[TopicPartition("t", 0)].evidence is Evidence.CLAMPED, "a log isn't read backwards"
        pin(ledger, start, snapshot({0: 30}, at_ms=T0 + 3 * HOUR_MS))
        remarks = only(ask(ledger, T0 + 2 * HOUR_MS)).remarks
        assert remarks[1].startswith("On t-0, a snapshot that was stored earlier determines where the window starts")

    def test_what_is_gone_is_said(self, ledger: Ledger) -> None:
        starts = replace(boundary(0, 7, log_start=7), evidence=Evidence.LOG_START)
        first = replace(snapshot({0: 7}), boundaries={TopicPartition("t", 0): starts})
        start, end = (
            ledger.snapshots.append([each])[0] for each in (first, snapshot({0: 20}, at_ms=T0 + HOUR_MS, log_start=9))
        )
        pin_window(ledger, start, end, on_data_loss="load_rest")
        remarks = only(ask(ledger, T0)).remarks
        assert remarks[1:] == (
            "On t-0, the log starts within the window: earlier records, if any, were deleted.",
            "On t-0, the log had lost 2 offsets of the window when it was pinned.",
        )


class TestNowhere:
    """Why no window has a time."""

    def test_without_windows(self, ledger: Ledger) -> None:
        assert ask(ledger, T0) == WindowsAt(T0, (), "there is no window yet")

    @pytest.mark.parametrize("at_ms", [0, T0 - 1])
    def test_before_the_first_window(self, ledger: Ledger, at_ms: int) -> None:
        load(ledger, 0)
        load(ledger, 1)
        assert ask(ledger, at_ms).nowhere == (
            f"no window has that time: the first one, {window(0)}, starts at 2026-11-21T06:00:00.000Z; late "
            "records of that time are in later windows"
        )

    @pytest.mark.parametrize("at_ms", [T0 + 2 * HOUR_MS, 253_402_300_799_999])
    def test_after_the_last_window_up_to_the_year_9999(self, ledger: Ledger, at_ms: int) -> None:
        load(ledger, 0)
        load(ledger, 1)
        said = f"no window has that time: the last one, {window(1)}, ends at 2026-11-21T08:00:00.000Z"
        assert ask(ledger, at_ms).nowhere == said

    def test_in_a_hole_which_says_how_many_offsets_it_has(self, ledger: Ledger) -> None:
        for hour in (0, 3):
            load(ledger, hour)
        assert ask(ledger, T0 + 2 * HOUR_MS).nowhere == (
            f"no window has that time: {window(0)} ends at 2026-11-21T07:00:00.000Z, the next one, {window(3)}, starts "
            "at 2026-11-21T09:00:00.000Z, and 20 offsets of t lie between them; late records of that time are in later "
            "windows"
        )

    @pytest.mark.parametrize("log_start", [0, 5])
    def test_all_partitions_leave_out_what_each_of_them_does(self, ledger: Ledger, log_start: int) -> None:
        """Also one that was added in the hole: what its log has lost since is left out, too."""
        pin(ledger, snapshot({0: 10}), snapshot({0: 20}, at_ms=T0 + HOUR_MS))
        since, until = (
            snapshot({0: offset, 1: offset + 20}, at_ms=T0 + hour * HOUR_MS, log_start=log_start)
            for hour, offset in ((3, 30), (4, 40))
        )
        pin(ledger, since, until)
        said = {on: ask(ledger, T0 + 2 * HOUR_MS, on).nowhere or "" for on in (None, 0, 1)}
        assert "and 60 offsets of t lie between them" in said[None]
        assert "and 10 offsets of t-0 lie between them" in said[0]
        assert "and 50 offsets of t-1 lie between them" in said[1]

    def test_the_partitions_of_a_key_are_named(self, ledger: Ledger) -> None:
        pin(ledger, counted(0, 6), counted(1, 6))
        pin(ledger, counted(3, 6), counted(4, 6))
        said = ask(ledger, T0 + 2 * HOUR_MS, partitions_of_key(ledger, "t", KEY)).nowhere or ""
        assert f"and 20 offsets of t-{partition_of_key(KEY, 6)} lie between them" in said

    @pytest.mark.parametrize("on", [99, None])
    def test_in_a_hole_of_what_no_window_there_has(self, ledger: Ledger, on: int | None) -> None:
        for each in (0, 3):
            load(ledger, each)
        topic, what, kind = ("t", "t-99", "partition") if on else ("u", "u", "topic")
        assert find_at(ledger, topic, T0 + 2 * HOUR_MS, on).nowhere == (
            f"no window has that time: {window(0)} ends at 2026-11-21T07:00:00.000Z, the next one, {window(3)}, starts "
            f"at 2026-11-21T09:00:00.000Z, and neither has {what}: it was added later, or no such {kind} exists"
        )

    def test_of_a_window_that_was_forgotten(self, ledger: Ledger) -> None:
        for hour in range(3):
            load(ledger, hour)
        forget_windows(ledger, [window(1)], "a test")
        found = ask(ledger, T0 + HOUR_MS)
        assert found.forgotten == (window(1),)
        assert (found.nowhere or "").endswith(f"; {window(1)} had it, but was forgotten")

    def test_one_that_was_resolved_again_is_not_forgotten(self, ledger: Ledger) -> None:
        load(ledger, 0)
        forget_windows(ledger, [window(0)], "a test")
        resolve(ledger, 0)
        assert only(ask(ledger, T0)).place.revision == 2

    def test_of_a_window_that_a_crash_left_without_a_manifest(self, ledger: Ledger, tmp_path: Path) -> None:
        load(ledger, 0)
        (tmp_path / "loads" / "windows" / window(1)[:6] / window(1)).mkdir()
        assert ask(ledger, T0 + HOUR_MS).nowhere == (
            f"{window(1)} has that time, but no manifest yet: its task is still pinning it, or was interrupted. "
            "Try again in a minute; if that doesn't help, clear the run"
        )

    def test_of_a_partition_that_was_added_later(self, ledger: Ledger) -> None:
        pin(ledger, counted(0, 1), counted(1, 1))
        pin(ledger, counted(1, 1), counted(2, 2))
        assert ask(ledger, T0, 1).nowhere == (
            f"t-1 isn't in {window(0)}, which has that time: it was added later; its first window, {window(1)}, starts "
            "at the partition's log start, so older records are in that window"
        )
        assert ask(ledger, T0, 2).nowhere == (
            f"t-2 isn't in {window(0)}, which has that time: it was added later, or no such partition exists"
        )
        assert only(ask(ledger, T0 + HOUR_MS, 1)).place.window == window(1)


class TestWindowsThatAreNotBetweenInstants:
    """They are named by when Kafka was asked, which is told."""

    def test_an_increment_has_what_was_written_in_its_time(self, ledger: Ledger) -> None:
        numbers = [ledger.snapshots.append([untimed(AsOfKind.LATEST, 10, 0)])[0]]
        for run, minute in (("aa", 5), ("bb", 9)):
            as_of = AsOf(AsOfKind.INCREMENT, run=run, follows=numbers[-1].number)
            end = replace(untimed(AsOfKind.LATEST, 10 + minute, minute), as_of=as_of)
            numbers.append(ledger.snapshots.append([end])[0])
            pin_window(ledger, *numbers[-2:])
        found = only(ask(ledger, T0 + 6 * MINUTE_MS))
        assert [(each.start_offset, each.end_offset) for each in found.ranges] == [(15, 19)]
        named = "The window's name says when Kafka was asked, not the times of its records: it starts "
        assert found.remarks == (
            f"{named}where the log ended when Kafka was asked, and ends where the log ended when Kafka was asked.",
            "Records written at that time are in it, as far as clocks agree and no transaction was open.",
        )

    def test_the_first_one_has_older_records_too(self, ledger: Ledger) -> None:
        """Its name begins when Kafka was asked for the log start."""
        pin(ledger, untimed(AsOfKind.EARLIEST, 0, 0), untimed(AsOfKind.LATEST, 50, 1))
        assert (ask(ledger, T0 - HOUR_MS).nowhere or "").endswith(
            "the next window starts where the log started when Kafka was asked, so records of that time may be in it"
        )
        assert only(ask(ledger, T0)).remarks[1] == (
            "It may have records from before and after that time, and other windows may have some of that time."
        )

    def test_from_an_instant_on_late_records_are_in_later_ones(self, ledger: Ledger) -> None:
        pin(ledger, snapshot({0: 5}), untimed(AsOfKind.LATEST, 50, 60))
        assert only(ask(ledger, T0)).remarks[1] == (
            "A record of that time that was written after Kafka was asked for the window's end is in a later window."
        )


class TestWhatWasAddedLater:
    """The first window of a topic that was added has all of it, from its log start on."""

    IN_IT = f"its first window, {window(2)}, starts at the topic's log start, so older records are in that window"

    def test_at_an_earlier_window_the_first_one_is_named(self, ledger: Ledger) -> None:
        add_topic(ledger)
        for on in (None, 0, partitions_of_key(ledger, ADDED, KEY)):
            found = find_at(ledger, ADDED, T0 + HOUR_MS, on)
            what, in_it = ("u-0", self.IN_IT.replace("topic", "partition")) if on == 0 else ("u", self.IN_IT)
            assert found.nowhere == f"{what} isn't in {window(1)}, which has that time: it was added later; {in_it}"
            assert (found.windows, found.first) == ((), window(2))

    def test_before_all_windows_too(self, ledger: Ledger) -> None:
        add_topic(ledger)
        found = find_at(ledger, ADDED, T0 - HOUR_MS)
        assert found.nowhere == (
            f"no window has that time: the first one, {window(0)}, starts at 2026-11-21T06:00:00.000Z and doesn't have "
            f"u: it was added later; {self.IN_IT}"
        )
        assert found.first == window(2)

    def test_in_a_hole_too(self, ledger: Ledger) -> None:
        pin(ledger, at_hour(-1), at_hour(0))
        pin(ledger, at_hour(2), at_hour(3, AT_ADDED))
        assert find_at(ledger, ADDED, T0 + HOUR_MS).nowhere == (
            f"no window has that time: {window(-1)} ends at 2026-11-21T06:00:00.000Z, the next one, {window(2)}, "
            "starts at 2026-11-21T08:00:00.000Z, and 0 offsets of u lie between them; late records of that time are in "
            f"later windows; {self.IN_IT}"
        )

    def test_at_one_that_was_forgotten_or_is_being_pinned_too(self, ledger: Ledger, tmp_path: Path) -> None:
        add_topic(ledger)
        forget_windows(ledger, [window(1)], "a test")
        assert find_at(ledger, ADDED, T0 + HOUR_MS).first == window(2)
        (tmp_path / "loads" / "windows" / window(-1)[:6] / window(-1)).mkdir()
        assert find_at(ledger, ADDED, T0 - HOUR_MS).first == window(2)

    def test_among_many_windows_few_are_read(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        stored = ledger.snapshots.append([at_hour(each, each if each > 30 else None) for each in range(65)])
        for start, end in pairwise(stored):
            pin_window(ledger, start, end)
        read: list[str] = []
        pinned = WindowFolder.pinned

        def counting(folder: WindowFolder) -> PinnedManifest | None:
            read.append(folder.id)
            return pinned(folder)

        monkeypatch.setattr(WindowFolder, "pinned", counting)
        assert find_at(ledger, ADDED, T0 + HOUR_MS).first == window(30)
        assert len({*read}) <= 8

    def test_beside_windows_in_no_order_it_is_the_first_one_that_has_it(self, ledger: Ledger) -> None:
        add_topic(ledger)
        commits = [
            replace(each, as_of=AsOf(AsOfKind.GROUP, group="g"), resolved_at_ms=T0 + minute * MINUTE_MS)
            for minute, each in ((240, at_hour(1)), (241, at_hour(2)))
        ]
        pin(ledger, *commits, on_overlap="allow")
        assert find_at(ledger, ADDED, T0).first == window(2)

    def test_one_that_was_added_and_whose_first_window_does_not_count_has_no_older_records(
        self, ledger: Ledger
    ) -> None:
        add_topic(ledger)
        pin(ledger, at_hour(3, AT_ADDED), at_hour(4, AT_ADDED + OFFSETS))
        forget_windows(ledger, [window(2)], "a test")
        found = find_at(ledger, ADDED, T0)
        assert found.first is None
        assert (found.nowhere or "").endswith("it was added later, or no such topic exists")

    def test_its_own_answer_says_that_it_has_older_ones(self, ledger: Ledger) -> None:
        add_topic(ledger, log_start=5)
        remarks = only(find_at(ledger, ADDED, T0 + 2 * HOUR_MS)).remarks
        assert remarks[1:] == (
            "On u-0, u-1, it is the first window, and starts at the log start: it has all older records too.",
        )
        assert len(only(find_at(ledger, "t", T0 + 2 * HOUR_MS)).remarks) == 1

    def test_from_where_the_user_chose_older_ones_are_in_no_window(self, ledger: Ledger) -> None:
        """new_topics_from"""
        add_topic(ledger, chosen=600)
        found = find_at(ledger, ADDED, T0)
        assert found.nowhere == (
            f"u isn't in {window(0)}, which has that time: it was added later; its first window, {window(2)}, starts "
            "at the instant that was chosen for new topics: earlier records are in no window, and later ones are "
            "in that window"
        )
        assert found.first == window(2)
        (remark,) = only(find_at(ledger, ADDED, T0 + 2 * HOUR_MS)).remarks[1:]
        assert remark == (
            "On u-0, u-1, it is the first window, and starts at the instant that was chosen for new topics: earlier "
            "records are in no window."
        )


class TestOfAKey:
    def test_a_window_has_the_key_where_its_own_partition_count_puts_it(self, ledger: Ledger) -> None:
        """Or an earlier count, of which producers may have known for some minutes more."""
        pin(ledger, counted(0, 2), counted(1, 2))
        pin(ledger, counted(1, 2), counted(2, 9))
        small, large = partition_of_key(KEY, 2), partition_of_key(KEY, 9)
        assert small != large
        assert [each.partition for each in only(ask(ledger, T0, partitions_of_key(ledger, "t", KEY))).ranges] == [small]
        later = only(ask(ledger, T0 + HOUR_MS, partitions_of_key(ledger, "t", KEY))).ranges
        assert [each.partition for each in later] == sorted({small, large})

    @pytest.mark.parametrize("key", [b"", b"\x00", b"k" * 10_000, b"<script>alert(1)</script>"])
    def test_any_bytes_are_a_key(self, ledger: Ledger, key: bytes) -> None:
        pin(ledger, counted(0, 6), counted(1, 6))
        (each,) = only(ask(ledger, T0, partitions_of_key(ledger, "t", key))).ranges
        assert each.partition == partition_of_key(key, 6)
