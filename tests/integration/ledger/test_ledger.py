"""The ledger on a local disk and on S3: created and never changed, first writer wins, whatever races or crashes."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    ExclusiveCreateError,
    LedgerConflictError,
    LedgerCorruptError,
    LedgerError,
    TopicChangedError,
)
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.storage import LedgerPath, create_exclusive, create_local, names, read, uri_for_spark
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.proof.audit import Verdict
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import AsOfKind
from airflow_kafka_offsets.offsets.windows.tiling import Tiling, check_tiling, shared
from tests.integration.ledger.loads import publish_result, windows_of
from tests.unit.offsets.builders import HOUR_MS, T0, offsets_of, snapshot
from tests.unit.offsets.proof.results import run_result, tallies

PathOf = Callable[[str], ObjectStoragePath]
LEVEL = IsolationLevel.READ_COMMITTED


@pytest.fixture
def ledger(root: str) -> Ledger:
    return Ledger(ObjectStoragePath(root), "loads")


def tiling_of(manifests: Sequence[Manifest]) -> Tiling:
    return check_tiling(manifests, lambda each: each.ranges)


class TestExclusiveCreation:
    def test_the_first_writer_wins_and_the_file_never_changes(self, path: PathOf) -> None:
        assert create_exclusive(path("one"), b"first")
        assert not create_exclusive(path("one"), b"second")
        assert read(path("one")) == b"first"

    def test_a_file_without_content_is_never_asked_for(self, path: PathOf) -> None:
        """s3fs touches an empty object, without the condition: it would empty a file that stands there."""
        with pytest.raises(ValueError, match="without content"):
            create_exclusive(path("one"), b"")

    def test_a_writer_that_finds_its_own_content_has_won(self, path: PathOf) -> None:
        """A request that got through unheard, and was sent again."""
        assert create_exclusive(path("one"), b"mine")
        assert create_exclusive(path("one"), b"mine")

    def test_of_many_racing_writers_exactly_one_wins(self, path: PathOf) -> None:
        ready = threading.Barrier(8)

        def write(number: int) -> bool:
            ready.wait()
            return create_exclusive(path("one"), str(number).encode())

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(write, range(8))) == 1

    @pytest.mark.nightly("waits as long as a store may go on refusing; the tests beside it have a refusal")
    def test_a_name_that_another_writer_takes_back_meanwhile_is_free_again(self, path: PathOf) -> None:
        """Two entries of the log of snapshots have one marker when they are of one millisecond and one number; the
        first writer takes it back when that number went to a third one."""
        taken = path("one")

        def create_and_take_back(_: int) -> bool:
            created = create_exclusive(taken, b"mine")
            with suppress(FileNotFoundError):
                taken.fs.rm_file(taken.path)
            return created

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(create_and_take_back, range(400)))

    def test_a_file_that_is_not_there_reads_as_none(self, path: PathOf) -> None:
        assert read(path("none")) is None
        assert names(path("nowhere")) == []

    def test_a_store_without_exclusive_creation_is_refused(self) -> None:
        class Elsewhere:
            protocol, path, name = "ftp", "/x", "x"

        with pytest.raises(ExclusiveCreateError, match="ftp"):
            create_exclusive(Elsewhere(), b"x")  # type: ignore[arg-type]


class TestALocalDisk:
    """What a power cut must not take: the file's content, and its name in the folder, in this order."""

    @pytest.mark.parametrize(
        "create", [create_local, lambda path, content: create_exclusive(ObjectStoragePath(path.as_uri()), content)]
    )
    def test_a_file_is_synced_before_it_has_its_name_and_its_folder_afterwards(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, create: Callable[..., object]
    ) -> None:
        path, synced, sync = tmp_path / "ledger" / "pipeline.json", [], os.fsync

        def noted(place: int) -> None:
            kind = "folder" if stat.S_ISDIR(os.fstat(place).st_mode) else "file"
            synced.append((kind, path.exists(), os.fstat(place).st_ino))
            sync(place)

        monkeypatch.setattr(os, "fsync", noted)
        create(path, b"{}")
        assert synced[-2:] == [("file", False, path.stat().st_ino), ("folder", True, path.parent.stat().st_ino)]


class TestUris:
    @pytest.mark.parametrize(
        ("protocol", "uri", "plain"),
        [
            ("file", "file:///ledgers/a", "file:///ledgers/a"),
            ("s3", "s3://conn@bucket/a", "s3://bucket/a"),
            ("gcs", "gcs://conn@bucket/a", "gs://bucket/a"),
            ("abfs", "abfs://conn@container/a", "abfss://container@account.dfs.core.windows.net/a"),
            ("abfss", "abfss://c@other.dfs.core.windows.net/a", "abfss://c@other.dfs.core.windows.net/a"),
            ("abfss", "abfss://conn@c@other.dfs.core.windows.net/a", "abfss://c@other.dfs.core.windows.net/a"),
        ],
    )
    def test_spark_is_given_a_place_as_hadoop_spells_it(self, protocol: str, uri: str, plain: str) -> None:
        """The account of a place on Azure is in its connection alone."""
        files = SimpleNamespace(account_name="account")
        assert uri_for_spark(LedgerPath(files, "a", protocol, uri)) == plain


class TestPipeline:
    def test_opening_it_twice_is_fine(self, ledger: Ledger) -> None:
        assert not ledger.exists()
        ledger.create_or_check(["t"], "cluster-1", LEVEL)
        ledger.create_or_check(["t"], "cluster-1", LEVEL)
        assert ledger.exists()

    def test_a_topic_may_be_added_but_not_dropped(self, ledger: Ledger) -> None:
        ledger.create_or_check(["t", "u"], "cluster-1", LEVEL)
        ledger.create_or_check(["t", "u", "v"], "cluster-1", LEVEL)
        with pytest.raises(ConfigurationError, match="also covers u"):
            ledger.create_or_check(["t"], "cluster-1", LEVEL)

    def test_a_ledger_of_another_cluster_is_refused(self, ledger: Ledger) -> None:
        ledger.create_or_check(["t"], "cluster-1", LEVEL)
        with pytest.raises(TopicChangedError, match="written by cluster cluster-1"):
            ledger.create_or_check(["t"], "cluster-2", LEVEL)

    def test_another_isolation_level_is_refused(self, ledger: Ledger) -> None:
        """E15."""
        ledger.create_or_check(["t"], "cluster-1", LEVEL)
        with pytest.raises(ConfigurationError, match="use another pipeline name"):
            ledger.create_or_check(["t"], "cluster-1", IsolationLevel.READ_UNCOMMITTED)

    def test_a_newer_format_is_refused(self, ledger: Ledger, path: PathOf) -> None:
        create_exclusive(path("loads") / "pipeline.json", b'{"format": 4}')
        with pytest.raises(LedgerError, match="format 4"):
            ledger.create_or_check(["t"], "cluster-1", LEVEL)

    @pytest.mark.parametrize("content", [b"{}", b"\n", b'{"format": null}', b'{"format": 3}', b"[]", b'{"format":'])
    def test_a_damaged_pipeline_json_is_to_be_restored_and_not_to_be_left_behind(
        self, ledger: Ledger, path: PathOf, content: bytes
    ) -> None:
        create_exclusive(path("loads") / "pipeline.json", content)
        for asked in (ledger.exists, lambda: ledger.create_or_check(["t"], "cluster-1", LEVEL)):
            with pytest.raises(LedgerCorruptError, match=r"pipeline.json .*(R|r)estore") as refused:
                asked()
            assert "another pipeline" not in str(refused.value)

    @pytest.mark.parametrize("name", ["", "a/b", "a:b", "..", ".hidden"])
    def test_a_name_that_cannot_name_a_folder_is_refused(self, root: str, name: str) -> None:
        with pytest.raises(ConfigurationError, match="pipeline's name"):
            Ledger(ObjectStoragePath(root), name)


class TestSnapshots:
    def test_an_instant_is_resolved_once(self, ledger: Ledger) -> None:
        """The loser reads the winner's."""
        first = ledger.snapshots.append([snapshot({0: 10})])[0]
        second = ledger.snapshots.append([snapshot({0: 99})])[0]
        assert second == first
        assert ledger.snapshots.at_instant(T0) == first
        assert first.number == 1

    def test_an_instant_that_was_never_resolved_is_none(self, ledger: Ledger) -> None:
        assert ledger.snapshots.at_instant(T0) is None

    def test_instants_stay_in_order_whatever_order_they_resolve_in(self, ledger: Ledger) -> None:
        """S2."""
        ledger.snapshots.append([snapshot({0: 50}, at_ms=T0)])
        ledger.snapshots.append([snapshot({0: 70}, at_ms=T0 + 2 * HOUR_MS)])
        between = ledger.snapshots.append([snapshot({0: 90}, at_ms=T0 + HOUR_MS)])[0]
        before = ledger.snapshots.append([snapshot({0: 60}, at_ms=T0 - HOUR_MS)])[0]
        assert list(offsets_of(between).values()) == [70]
        assert list(offsets_of(before).values()) == [50]
        assert [each.timestamp_ms for each in ledger.snapshots.entries()] == [T0 + n * HOUR_MS for n in (-1, 0, 1, 2)]

    def test_latest_snapshots_are_new_each_time_and_found_by_age(self, ledger: Ledger) -> None:
        ledger.snapshots.append([snapshot({0: 1}, at_ms=T0, kind=AsOfKind.LATEST)])
        second = ledger.snapshots.append([snapshot({0: 5}, at_ms=T0 + 1, kind=AsOfKind.LATEST)])[0]
        assert ledger.snapshots.entries()[-1].number == second.number

    def test_a_marker_whose_entry_never_came_to_be_means_nothing(self, ledger: Ledger, path: PathOf) -> None:
        """A crash between the marker and its entry, and another instant that takes the number."""
        marker = path("loads") / "instants" / "202611" / "20261121T050000000Z_00000001_instant"
        create_exclusive(marker, b"x")
        assert ledger.snapshots.at_instant(T0 - HOUR_MS) is None
        stored = ledger.snapshots.append([snapshot({0: 10})])[0]
        assert stored.number == 1
        assert [each.timestamp_ms for each in ledger.snapshots.entries()] == [T0]
        assert ledger.snapshots.at_instant(T0 - HOUR_MS) is None
        assert ledger.snapshots.append([snapshot({0: 5}, at_ms=T0 - HOUR_MS)])[0].number == 2
        assert ledger.snapshots.at_instant(T0) == stored

    def test_racing_writers_leave_one_snapshot_per_instant_in_one_chain(self, ledger: Ledger, root: str) -> None:
        """Eight writers, four instants, made-up offsets: every reader sees the same, and nothing runs backwards."""

        def write(writer: int) -> list[dict[object, int]]:
            own = Ledger(ObjectStoragePath(root), "loads")
            stored = []
            for hour in range(4):
                offset = (writer * 37 + hour * 11) % 50
                stored.append(offsets_of(own.snapshots.append([snapshot({0: offset}, at_ms=T0 + hour * HOUR_MS)])[0]))
            return stored  # type: ignore[return-value]

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(write, range(8)))
        assert all(each == results[0] for each in results)
        chain = [ledger.snapshots.read(each.number) for each in ledger.snapshots.entries()]
        assert len(chain) == 4
        offsets = [next(iter(offsets_of(each).values())) for each in chain]
        assert offsets == sorted(offsets)

    def test_two_writers_number_them_across_folders(
        self, ledger: Ledger, root: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each knows the folder that it saw last, and the other one has filled it since."""
        monkeypatch.setattr("airflow_kafka_offsets.ledger.snapshot_log._FOLDER_SIZE", 3)
        logs = [ledger.snapshots, Ledger(ObjectStoragePath(root), "loads").snapshots]
        turns = [0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1]
        stored = [logs[who].append([snapshot({0: at}, at_ms=T0 + at * HOUR_MS)])[0] for at, who in enumerate(turns)]
        assert [each.number for each in stored] == list(range(1, len(turns) + 1))
        assert [each.last_number() for each in logs] == [len(turns)] * 2

    def test_a_recreated_topic_is_refused(self, ledger: Ledger) -> None:
        """E24."""
        ledger.snapshots.append([snapshot({0: 10})])
        with pytest.raises(TopicChangedError, match="re-created"):
            ledger.snapshots.append([snapshot({0: 0}, at_ms=T0 + HOUR_MS, topic_id="id-2")])


class TestWindows:
    @pytest.fixture
    def pinned(self, ledger: Ledger):  # type: ignore[no-untyped-def]
        ledger.create_or_check(["t"], "cluster-1", LEVEL)
        first = ledger.snapshots.append([snapshot({0: 10})])[0]
        last = ledger.snapshots.append([snapshot({0: 30}, at_ms=T0 + HOUR_MS)])[0]
        return pin_window(ledger, first, last)

    def test_a_window_is_pinned_once(self, ledger: Ledger, pinned) -> None:  # type: ignore[no-untyped-def]
        """S21: a retry gets the same manifest."""
        manifest = pinned.manifest
        again = pin_window(ledger, ledger.snapshots.read(1), ledger.snapshots.read(2))
        assert again == pinned
        assert pinned.uri.endswith(f"windows/202611/{manifest.window}/manifest.json")
        assert "@" not in pinned.uri  # Spark knows no Airflow connections
        assert ledger.window_folders.newest(manifest.window).listing().state is WindowState.PINNED

    def test_a_manifest_changed_after_it_was_hashed_is_refused(self, ledger: Ledger, pinned, path: PathOf) -> None:  # type: ignore[no-untyped-def]
        file = path("loads") / "windows" / "202611" / pinned.manifest.window / "manifest.json"
        content = file.fs.cat_file(file.path).replace(b"30", b"31")
        file.fs.pipe_file(file.path, content)
        with pytest.raises(LedgerCorruptError, match="changed after it was pinned"):
            ledger.pinned(pinned.manifest.window)

    def test_a_window_that_was_never_resolved_is_named(self, ledger: Ledger) -> None:
        with pytest.raises(LedgerCorruptError, match="no window"):
            ledger.pinned("20261121T060000000Z_20261121T070000000Z")

    def test_its_state_is_which_files_exist(self, ledger: Ledger, pinned) -> None:  # type: ignore[no-untyped-def]
        folder = ledger.window_folders.newest(pinned.manifest.window)
        folder.record_attempt("a-1", {})
        assert folder.listing().state is WindowState.LOADING
        assert folder.listing().attempts == ["a-1"]
        with pytest.raises(LedgerConflictError, match="name of its own"):
            folder.record_attempt("a-1", {"again": True})
        result = run_result(pinned.manifest, tallies(pinned.manifest))
        folder.record_result(result)
        assert folder.listing().state is WindowState.COUNTED
        folder.record_failure(result.attempt, FailureNote("UnprovenError", "no"))
        assert folder.listing().state is WindowState.FAILED, "nothing waits for publish"
        publish_result(ledger, pinned, run_result(pinned.manifest, tallies(pinned.manifest), attempt="a-2"))
        assert folder.listing().state is WindowState.PUBLISHED
        folder.record_verified("a-2", Verdict((), (), 0))
        folder.record_verified("a-2", Verdict((), (), 0))
        assert folder.listing().state is WindowState.VERIFIED
        folder.record_verified("a-2", Verdict((), (), 0, unknowable=("in the words of another version",)))
        with pytest.raises(LedgerConflictError, match="a different verdict than"):
            folder.record_verified("a-2", Verdict((), (), 1))

    def test_windows_of_a_chain_tile(self, ledger: Ledger) -> None:
        ledger.create_or_check(["t"], "cluster-1", LEVEL)
        offsets = [5, 9, 9, 40]
        chain = [
            ledger.snapshots.append([snapshot({0: each}, at_ms=T0 + hour * HOUR_MS)])[0]
            for hour, each in enumerate(offsets)
        ]
        for start, end in pairwise(chain):
            pin_window(ledger, start, end)
        tiling = tiling_of([ledger.pinned(each.id).manifest for each in windows_of(ledger)])
        assert (tiling.windows, tiling.problems) == (3, ())

    def test_a_missing_window_is_a_hole_and_a_foreign_one_a_seam(self, ledger: Ledger, pinned) -> None:  # type: ignore[no-untyped-def]
        manifest = pinned.manifest
        later = replace(manifest, start_ms=manifest.end_ms + HOUR_MS, end_ms=manifest.end_ms + 2 * HOUR_MS)
        assert "overlap of 20 offsets" in tiling_of([manifest, later]).problems[0], "a later window has them again"
        ranges = tuple(replace(each, start_offset=31, end_offset=40) for each in manifest.ranges)
        shifted = replace(manifest, start_ms=manifest.end_ms, end_ms=manifest.end_ms + 1, ranges=ranges)
        assert "gap of 1 offsets" in tiling_of([manifest, shifted]).problems[0]
        late = replace(shifted, start_ms=manifest.end_ms + HOUR_MS, end_ms=manifest.end_ms + 2 * HOUR_MS)
        assert "no window from" in tiling_of([manifest, late]).holes[0]
        assert tiling_of([manifest, replace(shifted, start_ms=manifest.end_ms - 1)]).tiles, "they share time alone"

    def test_a_window_inside_a_longer_one_overlaps_it_wherever_it_sorts(self, pinned) -> None:  # type: ignore[no-untyped-def]
        day = replace(pinned.manifest, window="day", end_ms=pinned.manifest.start_ms + 24 * HOUR_MS)
        hours = [
            replace(
                day, window=f"hour-{n}", start_ms=day.start_ms + n * HOUR_MS, end_ms=day.start_ms + (n + 1) * HOUR_MS
            )
            for n in range(1, 4)
        ]
        problems = tiling_of([day, *hours]).problems
        common = ", ".join(map(str, shared(day.ranges, day.ranges)))
        assert problems == tuple(f"windows day and hour-{n} overlap: {common}" for n in range(1, 4))

    def test_two_that_overlap_each_other_in_the_time_of_a_third_of_other_offsets_are_found(self, pinned) -> None:  # type: ignore[no-untyped-def]
        """Windows between a group's commits are named after when they were asked for."""
        first = pinned.manifest

        def of(window: str, hours: tuple[int, int], offsets: tuple[int, int]) -> Manifest:
            ranges = tuple(replace(each, start_offset=offsets[0], end_offset=offsets[1]) for each in first.ranges)
            start_ms, end_ms = (first.start_ms + each * HOUR_MS for each in hours)
            return replace(first, window=window, start_ms=start_ms, end_ms=end_ms, ranges=ranges)

        long = of("long", (0, 9), (1000, 1100))
        one, other = of("one", (1, 3), (10, 20)), of("other", (2, 4), (15, 25))
        tiling = tiling_of([long, one, other, of("next", (4, 5), (25, 30))])
        assert [each.partition(":")[0] for each in tiling.problems] == ["windows one and other overlap"]

    def test_reading_a_window_writes_nothing(self, ledger: Ledger, pinned, path: PathOf) -> None:  # type: ignore[no-untyped-def]
        folder = path("loads") / "windows" / "202611" / pinned.manifest.window
        sha256 = folder / "manifest.sha256"
        sha256.fs.rm(sha256.path)
        assert ledger.pinned(pinned.manifest.window) == pinned
        assert names(folder) == ["manifest.json"]
        assert pin_window(ledger, ledger.snapshots.read(1), ledger.snapshots.read(2)) == pinned

    def test_a_latest_snapshot_is_the_newest_whatever_the_clocks_say(self, ledger: Ledger) -> None:
        """Another worker's clock runs five minutes ahead: its snapshot must not hold this one down."""
        ledger.snapshots.append([snapshot({0: 1000}, at_ms=T0 + 300_000, kind=AsOfKind.LATEST)])
        newer = ledger.snapshots.append([snapshot({0: 1200}, at_ms=T0, kind=AsOfKind.LATEST)])[0]
        assert list(offsets_of(newer).values()) == [1200]
        assert ledger.snapshots.entries()[-1].number == newer.number


def test_a_stray_file_among_the_snapshots_is_passed_over(ledger: Ledger) -> None:
    ledger.create_or_check(["t"], "cluster-1", LEVEL)
    stored = ledger.snapshots.append([snapshot({0: 10})])[0]
    for stray in ("20269999T999999999Z_00000007_instant", "notes.txt"):
        create_exclusive(ledger.folder / "instants" / "202611" / stray, b" ")
    assert [entry.number for entry in ledger.snapshots.entries()] == [stored.number]


def test_a_killed_local_writer_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file appears whole or not at all: a crash before the link leaves a draft, which nobody reads."""
    target = ObjectStoragePath((tmp_path / "one").as_uri())

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("os.link", crash)
        with pytest.raises(KeyboardInterrupt):
            create_exclusive(target, b"content")
    assert read(target) is None
    assert create_exclusive(target, b"other")
