"""Where records are, by their key or their time: what the ledger knows of it, and what it says that it doesn't know."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from upath import UPath

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.key_partitions import KeyPartition, partitions_of_key
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.question import Question
from airflow_kafka_offsets.ledger.summaries import WindowState
from airflow_kafka_offsets.ledger.whereabouts import find
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.ledger.windows_at import WindowAt, WindowsAt, find_at
from airflow_kafka_offsets.offsets.keys import partition_of_key
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind, Evidence, OffsetSnapshot
from tests.integration.ledger.loads import AT_T0, OFFSETS, load, publish, resolve
from tests.unit.offsets.builders import HOUR_MS, T0, boundary, snapshot

MINUTE_MS = HOUR_MS // 60
KEY = b"customer-4711"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(UPath(tmp_path), "loads")
    made.open(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return made


def window(hour: int) -> str:
    return window_id(T0 + hour * HOUR_MS, T0 + (hour + 1) * HOUR_MS)


def ask(ledger: Ledger, at_ms: int, partition: int | None = None, key: bytes | None = None) -> WindowsAt:
    question = Question("t", partition, key, at_ms=at_ms)
    return find_at(ledger, question, None if key is None else partitions_of_key(ledger, "t", key))


def only(found: WindowsAt) -> WindowAt:
    (one,) = found.windows
    return one


def counted(hour: int, partitions: int) -> OffsetSnapshot:
    """A snapshot of a topic that has so many partitions."""
    return snapshot(dict.fromkeys(range(partitions), hour * OFFSETS), at_ms=T0 + hour * HOUR_MS)


def untimed(kind: AsOfKind, offset: int, minute: int) -> OffsetSnapshot:
    return snapshot({0: offset}, kind=kind, at_ms=T0 + minute * MINUTE_MS)


def pin(ledger: Ledger, *ends: OffsetSnapshot) -> PinnedManifest:
    start, end = (ledger.snapshots.append(each) for each in ends)
    return ledger.pin_window(start, end)


class TestQuestion:
    """What contradicts itself is refused, with what to do."""

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            ({"partition": 1, "key": b"", "offset": 1}, "Leave the partition out"),
            ({"partition": 1, "offset": 1, "at_ms": T0}, "Leave the time out"),
            ({"key": KEY, "offset": 1, "at_ms": T0}, "Leave the time out"),
            ({"offset": 1}, "give the partition, or the record's key"),
            ({"partition": 1}, r"Which record of t-1\? Give an offset, a time, or a key"),
            ({}, r"Which record\? Give"),
        ],
    )
    def test_is_refused(self, asked: Mapping[str, int], said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            Question("t", **asked)  # type: ignore[arg-type]


class TestByOffset:
    @pytest.mark.parametrize("hours", [[1], [0, 1], [2], [1, 2], [1, 2, 3, 4]])
    def test_windows_that_tasks_have_only_begun_hide_no_other(
        self, ledger: Ledger, tmp_path: Path, hours: list[int]
    ) -> None:
        """They have a folder, and no manifest."""
        for hour in {*range(4)} - {*hours}:
            load(ledger, hour)
        for hour in hours:
            (tmp_path / "loads" / "windows" / window(hour)[:6] / window(hour)).mkdir()
        found = {hour: find(ledger, "t", 0, AT_T0 + hour * OFFSETS).window for hour in range(4)}
        assert found == {hour: None if hour in hours else window(hour) for hour in range(4)}
        last = max({*range(4)} - {*hours})
        assert f"the last one, {window(last)}, ends at" in find(ledger, "t", 0, AT_T0 + 9 * OFFSETS).found


class TestByTime:
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
        ledger.pin_window(*ledger.snapshots.append_all([start, end]), on_overlap="allow")
        assert [each.place.found for each in ask(ledger, T0).windows] == ["published", "pinned, not published"]

    def test_where_a_neighbour_decided_the_start_an_earlier_window_may_have_it(self, ledger: Ledger) -> None:
        pin(ledger, snapshot({0: 10}, at_ms=T0), snapshot({0: 20}, at_ms=T0 + HOUR_MS))
        ledger.snapshots.append(snapshot({0: 15}, at_ms=T0 + 2 * HOUR_MS))
        start = ledger.snapshots.at_instant(T0 + 2 * HOUR_MS)
        assert start is not None
        assert start.boundaries[TopicPartition("t", 0)].evidence is Evidence.CLAMPED, "a log isn't read backwards"
        pin(ledger, start, snapshot({0: 30}, at_ms=T0 + 3 * HOUR_MS))
        remarks = only(ask(ledger, T0 + 2 * HOUR_MS)).remarks
        assert remarks[1].startswith("On t-0, a snapshot that was stored earlier decides where the window starts")

    def test_what_is_gone_is_said(self, ledger: Ledger) -> None:
        starts = replace(boundary(0, 7, log_start=7), evidence=Evidence.LOG_START)
        first = replace(snapshot({0: 7}), boundaries={TopicPartition("t", 0): starts})
        start, end = (
            ledger.snapshots.append(each) for each in (first, snapshot({0: 20}, at_ms=T0 + HOUR_MS, log_start=9))
        )
        ledger.pin_window(start, end, on_data_loss="load_rest")
        remarks = only(ask(ledger, T0)).remarks
        assert remarks[1:] == (
            "On t-0, the log starts within the window: what it had before, if anything, is gone.",
            "On t-0, 2 offsets of the window were gone when it was pinned.",
        )


class TestNowhere:
    """Why no window has a time."""

    def test_without_windows(self, ledger: Ledger) -> None:
        assert ask(ledger, T0) == WindowsAt((), "there is no window yet")

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
        said = ask(ledger, T0 + 2 * HOUR_MS).nowhere or ""
        assert f"one ends before it, {window(0)}, at 2026-11-21T07:00:00.000Z, and the next one, {window(3)}," in said
        assert "with 20 offsets of t between them" in said

    def test_of_a_window_that_was_forgotten(self, ledger: Ledger) -> None:
        for hour in range(3):
            load(ledger, hour)
        ledger.forget([window(1)], "a test")
        found = ask(ledger, T0 + HOUR_MS)
        assert found.forgotten == (window(1),)
        assert (found.nowhere or "").endswith(f"; {window(1)} had it, and was forgotten")

    def test_one_that_was_resolved_again_is_not_forgotten(self, ledger: Ledger) -> None:
        load(ledger, 0)
        ledger.forget([window(0)], "a test")
        resolve(ledger, 0)
        assert only(ask(ledger, T0)).place.revision == 2

    def test_of_a_window_that_a_crash_left_without_a_manifest(self, ledger: Ledger, tmp_path: Path) -> None:
        load(ledger, 0)
        (tmp_path / "loads" / "windows" / window(1)[:6] / window(1)).mkdir()
        assert ask(ledger, T0 + HOUR_MS).nowhere == (
            f"{window(1)} has that time, but isn't pinned: its task is pinning it, or was interrupted"
        )

    def test_of_a_partition_that_was_added_later(self, ledger: Ledger) -> None:
        pin(ledger, counted(0, 1), counted(1, 1))
        pin(ledger, counted(1, 1), counted(2, 2))
        said = f"{window(0)} has that time, and not t-1: that was added later, or isn't there"
        assert ask(ledger, T0, partition=1).nowhere == said
        assert only(ask(ledger, T0 + HOUR_MS, partition=1)).place.window == window(1)

    def test_a_topic_that_the_pipeline_does_not_have_is_refused(self, ledger: Ledger) -> None:
        load(ledger, 0)
        with pytest.raises(ConfigurationError, match=r"has no topic '<script>'; it has t\."):
            find_at(ledger, Question("<script>", at_ms=T0))


class TestWindowsThatAreNotBetweenInstants:
    """They are named by when Kafka was asked, which is told."""

    def test_an_increment_has_what_was_written_in_its_time(self, ledger: Ledger) -> None:
        numbers = [ledger.snapshots.append(untimed(AsOfKind.LATEST, 10, 0))]
        for run, minute in (("aa", 5), ("bb", 9)):
            as_of = AsOf(AsOfKind.INCREMENT, run=run, follows=numbers[-1].number)
            end = replace(untimed(AsOfKind.LATEST, 10 + minute, minute), as_of=as_of)
            numbers.append(ledger.snapshots.append(end))
            ledger.pin_window(*numbers[-2:])
        found = only(ask(ledger, T0 + 6 * MINUTE_MS))
        assert [(each.start_offset, each.end_offset) for each in found.ranges] == [(15, 19)]
        named = "The window's name says when Kafka was asked, not what times its records have: it starts "
        assert found.remarks == (
            f"{named}where the log ended when Kafka was asked, and ends where the log ended when Kafka was asked.",
            "What was written at that time is in it, as far as clocks agree and no transaction was open.",
        )

    def test_the_first_one_has_older_records_too(self, ledger: Ledger) -> None:
        """Its name begins when Kafka was asked for the log start."""
        pin(ledger, untimed(AsOfKind.EARLIEST, 0, 0), untimed(AsOfKind.LATEST, 50, 1))
        assert (ask(ledger, T0 - HOUR_MS).nowhere or "").endswith(
            "the next one starts where the log started when Kafka was asked, so that records of that time may be in it"
        )
        assert only(ask(ledger, T0)).remarks[1] == (
            "Records from before and after that time may be in it, and some from then in other windows."
        )

    def test_from_an_instant_on_late_records_are_in_later_ones(self, ledger: Ledger) -> None:
        pin(ledger, snapshot({0: 5}), untimed(AsOfKind.LATEST, 50, 60))
        assert only(ask(ledger, T0)).remarks[1] == (
            "A record of that time that was written after its end was asked for is in a later window."
        )


class TestByKey:
    def test_a_key_is_where_murmur2_puts_it(self, ledger: Ledger) -> None:
        pin(ledger, counted(0, 6), counted(1, 6))
        found = partitions_of_key(ledger, "t", KEY)
        assert found.known == (KeyPartition(partition_of_key(KEY, 6), 6, T0),)
        partitioner, count = found.remarks()
        assert "murmur2" in partitioner
        assert "CRC32" in partitioner
        assert "All snapshots know of 6 partitions." in count

    def test_every_partition_count_that_snapshots_know_of_counts(self, ledger: Ledger) -> None:
        counts = [1, 1, 1, 4, 4, 7, 7, 7, 7]
        for hour, count in enumerate(counts):
            ledger.snapshots.append(counted(hour, count))
        found = partitions_of_key(ledger, "t", KEY)
        assert found.known == tuple(
            KeyPartition(partition_of_key(KEY, count), count, T0 + hour * HOUR_MS)
            for count, hour in ((7, 5), (4, 3), (1, 0))
        )
        assert (
            "1 partition from 2026-11-21T06:00:00.000Z on, where the key is in 0, then 4 partitions"
            in found.remarks()[1]
        )

    def test_the_newest_snapshot_counts_though_it_is_none_of_the_chain(self, ledger: Ledger) -> None:
        ledger.snapshots.append(counted(0, 2))
        commits = replace(counted(1, 5), as_of=AsOf(AsOfKind.GROUP, group="g"))
        ledger.snapshots.append(commits)
        assert [each.partition_count for each in partitions_of_key(ledger, "t", KEY).known] == [5, 2]

    def test_between_two_snapshots_that_know_of_one_count_none_is_read(self, ledger: Ledger, tmp_path: Path) -> None:
        """So that a year of them takes a dozen reads."""
        for hour in range(20):
            ledger.snapshots.append(counted(hour, 3))
        for file in sorted((tmp_path / "loads" / "snapshots").rglob("*.json.gz"))[1:-1]:
            file.write_bytes(gzip.compress(b"damaged"))
        assert [each.partition_count for each in partitions_of_key(ledger, "t", KEY).known] == [3]

    def test_a_window_has_the_key_where_its_own_partition_count_puts_it(self, ledger: Ledger) -> None:
        """Or an earlier count, of which producers may have known for some minutes more."""
        pin(ledger, counted(0, 2), counted(1, 2))
        pin(ledger, counted(1, 2), counted(2, 9))
        small, large = partition_of_key(KEY, 2), partition_of_key(KEY, 9)
        assert small != large
        assert [each.partition for each in only(ask(ledger, T0, key=KEY)).ranges] == [small]
        later = only(ask(ledger, T0 + HOUR_MS, key=KEY)).ranges
        assert [each.partition for each in later] == sorted({small, large})

    @pytest.mark.parametrize("key", [b"", b"\x00", b"k" * 10_000, b"<script>alert(1)</script>"])
    def test_any_bytes_are_a_key(self, ledger: Ledger, key: bytes) -> None:
        pin(ledger, counted(0, 6), counted(1, 6))
        (each,) = only(ask(ledger, T0, key=key)).ranges
        assert each.partition == partition_of_key(key, 6)

    def test_without_a_snapshot_nothing_is_known(self, ledger: Ledger) -> None:
        with pytest.raises(ConfigurationError, match=r"has no snapshot yet.*Give the partition\."):
            partitions_of_key(ledger, "t", KEY)

    def test_a_topic_that_no_snapshot_has_is_refused(self, ledger: Ledger) -> None:
        publish(ledger, resolve(ledger, 0))
        with pytest.raises(ConfigurationError, match="has no topic 'other'; it has t"):
            partitions_of_key(ledger, "other", KEY)
