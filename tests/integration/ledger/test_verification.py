"""``ledger verify``: what is in order, what isn't, and what needn't be read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.forgetting import forget_windows
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.storage import create_exclusive, names, to_json_bytes
from airflow_kafka_offsets.ledger.verification import Claim, verify
from airflow_kafka_offsets.ledger.whereabouts import find
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.ledger_names import published_again_marker
from airflow_kafka_offsets.offsets.windows.manifest import digest
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from tests.integration.ledger.loads import OFFSETS, load, publish, publish_result, resolve, result_of, windows_of
from tests.unit.offsets.proof.results import publication

DAY = range(-30, -6)
"""The hours of 2026-11-20, UTC, as counted from T0, 2026-11-21T06:00Z."""


@pytest.fixture
def ledger(root: str) -> Ledger:
    opened = Ledger(ObjectStoragePath(root), "loads")
    opened.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return opened


@pytest.fixture
def local(tmp_path: Path) -> Ledger:
    opened = Ledger(ObjectStoragePath(tmp_path.as_uri()), "loads")
    opened.create_or_check(["t"], "cluster-1", IsolationLevel.READ_COMMITTED)
    return opened


def broken(ledger: Ledger) -> list[Claim]:
    return [each for each in verify(ledger) if not each.holds]


def replace_file(ledger: Ledger, pinned: PinnedManifest, name: str, content: bytes | None) -> None:
    place = ledger.folder / "windows" / pinned.manifest.window[:6] / pinned.manifest.window / name
    if content is None:
        place.fs.rm(place.path)
    else:
        place.fs.pipe_file(place.path, content)


class TestVerify:
    def test_loaded_windows_are_in_order(self, ledger: Ledger) -> None:
        for hour in (2, 0, 1):
            load(ledger, hour)
        resolve(ledger, 3)
        counted = resolve(ledger, 4)
        ledger.window_folders.of(counted).record_attempt("a-1", {})
        ledger.window_folders.of(counted).record_result(result_of(counted, "a-1"))
        claims = verify(ledger)
        assert all(each.holds for each in claims)
        assert [each.found for each in claims[:2]] == ["read = written = log, 10 rows"] * 2
        assert [each.found for each in claims[3:5]] == ["pinned", "counted"]
        assert claims[-1].found == "3 published windows tile, 30 offsets; 2 windows not published, 1 of them counted"

    def test_one_is_singular(self, local: Ledger) -> None:
        load(local, 0)
        assert verify(local)[-1].found == f"1 published window tiles, {OFFSETS} offsets"

    def test_an_empty_ledger_is_in_order(self, local: Ledger) -> None:
        assert [each.found for each in verify(local)] == ["0 published windows tile, 0 offsets"]

    def test_a_hole_is_found(self, local: Ledger) -> None:
        load(local, 0)
        load(local, 2)
        assert (
            "no window from 2026-11-21T07:00:00.000Z to 2026-11-21T08:00:00.000Z: t-0: gap of 10"
            in broken(local)[0].found
        )

    @pytest.mark.parametrize(
        ("name", "content", "found"),
        [
            ("manifest.json", b"{}", "changed after it was pinned"),
            ("manifest.sha256", None, "it isn't settled: a task is still pinning it, or died"),
            ("manifest.json", None, "there is no manifest"),
            ("publications/00000001.json", None, "a verdict on a-1, but no publication"),
            ("publications/00000001.json", publication(attempt="a-1", manifest_sha256="x").to_bytes(), "another"),
            ("publications/00000001.json", publication(number=2).to_bytes(), "contains publication 2"),
            ("publications/00000001.json", b"{", "This is not a publication"),
            ("results/a-1.json", b"{", "is not JSON"),
            ("results/a-1.json", None, "the result of a-1 is missing"),
            ("attempts/a-1.json", None, "a result of a-1, which was never recorded"),
        ],
    )
    def test_each_kind_of_damage_is_named(self, local: Ledger, name: str, content: bytes | None, found: str) -> None:
        damaged = load(local, 0)
        load(local, 1)
        replace_file(local, damaged, name, content)
        assert found in broken(local)[0].found
        assert broken(local)[0].window == damaged.manifest.window

    def test_a_lost_snapshot_is_named(self, local: Ledger) -> None:
        load(local, 0)
        entry = local.folder / "snapshots" / "00000" / "00000002.json.gz"
        entry.fs.rm(entry.path)
        assert "snapshot 2 is missing" in broken(local)[0].found

    def test_rows_that_do_not_add_up_are_named(self, local: Ledger) -> None:
        pinned = load(local, 0)
        wrong = result_of(pinned, "a-1").to_json()
        wrong["read"] |= {"count": 9}
        result = to_json_bytes(wrong)
        replace_file(local, pinned, "results/a-1.json", result)
        assert "was changed after it was published" in broken(local)[0].found
        (published,) = local.window_folders.of(pinned).publications.all()
        published = replace(published, result_sha256=digest(result))
        replace_file(local, pinned, "publications/00000001.json", published.to_bytes())
        assert "read 9 rows, wrote 10" in broken(local)[0].found

    def test_attempts_that_were_killed_are_counted_and_no_fault(self, local: Ledger) -> None:
        pinned = resolve(local, 0)
        local.window_folders.of(pinned).record_attempt("a-0", {})
        publish(local, pinned)
        assert "1 attempt that left no result" in verify(local)[0].found


class TestATable:
    """Where the rows of one attempt take the place of another's, a revision may be published twice."""

    def test_the_attempt_that_began_later_is_published_over_the_one_before_and_verified(self, local: Ledger) -> None:
        pinned = resolve(local, 0)
        folder = local.window_folders.of(pinned)
        for attempt, started_ms in (("a-1", 1_000), ("a-2", 2_000)):
            folder.record_attempt(attempt, {})
            counted = _in_a_table(pinned, attempt, started_ms)
            assert publish_result(local, pinned, counted).attempt == attempt
            assert folder.listing().state is WindowState.PUBLISHED
            folder.record_verified(attempt, judge(pinned.manifest, counted, folder.publication()))
            assert folder.listing().state is WindowState.VERIFIED
        assert broken(local) == []

    @pytest.mark.parametrize("wrong", [{"started_ms": 1_000}, {"apart": True}])
    def test_another_one_that_has_not_written_over_it_is_damage(self, local: Ledger, wrong: dict[str, Any]) -> None:
        pinned = resolve(local, 0)
        folder = local.window_folders.of(pinned)
        folder.record_attempt("a-1", {})
        publish_result(local, pinned, _in_a_table(pinned, "a-1", 1_000))
        first = folder.publication()
        assert first is not None
        folder.publications.create(replace(first, **({"number": 2, "replaces": 1, "started_ms": 2_000} | wrong)))
        assert "publication 2 of revision 1 replaces number 1" in broken(local)[0].found

    def test_an_older_revision_after_a_newer_one_is_damage_though_it_says_that_it_replaces_nothing(
        self, local: Ledger
    ) -> None:
        pinned = resolve(local, 0)
        end = local.snapshots.read(pinned.manifest.end_snapshot)
        stored = local.snapshots.append([replace(end, number=None, as_of=AsOf(AsOfKind.LATEST))])[0]
        assert stored.number is not None
        newer = local.window_folders.pin_again(replace(pinned.manifest, end_snapshot=stored.number))
        publish(local, newer, "b-1")
        first = local.window_folders.publication(pinned.manifest.window)
        assert first is not None
        local.window_folders.of(pinned).publications.create(replace(first, number=2, revision=1, replaces=None))
        told = [claim.found for claim in broken(local)]
        assert any("publication 2 is of revision 1, and the one before it of revision 2" in each for each in told), told


def _in_a_table(pinned: PinnedManifest, attempt: str, started_ms: int) -> RunResult:
    told = {"sink": "delta", "apart": False, "output": "lake.t", "files": ()}
    return replace(result_of(pinned, attempt), started_ms=started_ms, **told)


class TestCheckpoints:
    @pytest.mark.nightly("a day of windows in each order; the tests beside it have checkpoints")
    def test_a_day_whose_windows_are_all_verified_is_kept_whatever_order_they_came_in(self, ledger: Ledger) -> None:
        hours = [*reversed(DAY)]
        for hour in hours[:-1]:
            load(ledger, hour)
        assert names(ledger.folder / "checkpoints") == []
        load(ledger, hours[-1])
        (kept,) = names(ledger.folder / "checkpoints")
        assert kept.startswith("20261120_")
        known = ledger.checkpoints.read()
        assert [each.state for each in known.values()] == [WindowState.VERIFIED] * 24
        assert list(known.values()) == ledger.summaries()
        claims = verify(ledger)
        assert [each.found for each in claims] == [
            f"24 windows, {24 * OFFSETS} offsets, verified before",
            f"24 published windows tile, {24 * OFFSETS} offsets",
        ]

    def test_nothing_is_kept_for_a_window_that_was_forgotten_meanwhile(self, local: Ledger) -> None:
        window = load(local, DAY[0]).manifest.window
        forget_windows(local, [window], "for a test")
        local.keep_day(window)
        assert names(local.folder / "checkpoints") == []

    def test_a_window_of_a_table_that_is_published_once_more_is_looked_at_again(self, local: Ledger) -> None:
        """Two attempts side by side: the rows of the one that began later have taken the place of the others'."""
        pinned = resolve(local, DAY[0])
        folder = local.window_folders.of(pinned)
        for attempt, started_ms in (("a-1", 1_000), ("b-2", 2_000)):
            folder.record_attempt(attempt, {})
            result = _in_a_table(pinned, attempt, started_ms)
            publish_result(local, pinned, result)
            folder.record_verified(attempt, judge(pinned.manifest, result))
            verify(local)
            assert [(each.attempt, each.state) for each in local.summaries()] == [(attempt, WindowState.VERIFIED)]
        replace_file(local, pinned, "results/b-2.json", b"{}")
        verified = [each for each in verify(local) if each.claim == "checkpoints"]
        assert [each.found for each in verified] == [f"1 window, {OFFSETS} offsets, verified before"]

    def test_a_publisher_that_died_before_it_published_once_more_leaves_a_checkpoint_unread(
        self, local: Ledger
    ) -> None:
        """Its marker comes first."""
        pinned = resolve(local, DAY[0])
        local.window_folders.of(pinned).record_attempt("a-1", {})
        publish_result(local, pinned, _in_a_table(pinned, "a-1", 1_000))
        verify(local)
        marker = published_again_marker(pinned.manifest.window, 2)
        create_exclusive(local.folder / "windows" / "202611" / marker, b"b-2")
        assert [(each.attempt, each.publication) for each in local.summaries()] == [("a-1", 1)]
        assert not broken(local)

    def test_full_reads_it_all_again(self, local: Ledger) -> None:
        pinned = [load(local, hour) for hour in DAY]
        replace_file(local, pinned[3], "manifest.json", b"{}")
        assert not broken(local)
        found = next(each for each in verify(local, full=True) if not each.holds)
        assert found.window == pinned[3].manifest.window

    def test_verify_keeps_what_it_proved_of_days_that_are_over(self, local: Ledger) -> None:
        load(local, DAY[0])
        assert names(local.folder / "checkpoints") == []
        verify(local)
        assert len(names(local.folder / "checkpoints")) == 1
        verify(local)
        assert len(names(local.folder / "checkpoints")) == 1

    def test_many_checkpoints_of_a_month_are_put_into_one(self, local: Ledger) -> None:
        """And what is verified later is read beside it."""
        for day in range(9):
            load(local, DAY[0] - 24 * day)
            verify(local)
        before = local.summaries()
        listed = names(local.folder / "checkpoints")
        (month,) = (each for each in listed if each.startswith("202611_"))
        assert len(listed) == 10
        assert [each.split("_")[0] for each in local.checkpoints.files()] == ["20261112", "202611"]
        assert sorted(local.checkpoints.read().values(), key=lambda each: each.window) == before
        assert len(before) == 9
        assert month in local.checkpoints.files()

    def test_days_that_were_kept_when_their_last_window_was_verified_are_put_into_one_too(self, local: Ledger) -> None:
        for day in range(8):
            load(local, DAY[0] - 24 * day)
        before = local.summaries()
        for each in before:
            local.checkpoints.write([each])
        assert verify(local)[0].found == f"8 windows, {8 * OFFSETS} offsets, verified before"
        assert [each.split("_")[0] for each in local.checkpoints.files()] == ["202611"]
        assert local.summaries() == before

    def test_a_window_of_a_kept_day_that_is_resolved_anew_is_seen(self, local: Ledger) -> None:
        for hour in DAY:
            load(local, hour)
        forget_windows(local, [windows_of(local)[5].id], "test")
        claims = verify(local)
        assert "no window from" in claims[-1].found
        assert len(local.summaries()) == 23

    def test_a_changed_checkpoint_is_refused(self, local: Ledger) -> None:
        load(local, DAY[0])
        verify(local)
        (name,) = names(local.folder / "checkpoints")
        place = local.folder / "checkpoints" / name
        place.fs.pipe_file(place.path, b"{}")
        with pytest.raises(LedgerCorruptError, match="Delete it"):
            local.summaries()


class TestFind:
    def test_a_published_record_is_found_with_its_run_and_output(self, ledger: Ledger) -> None:
        for hour in range(4):
            load(ledger, hour)
        found = find(ledger, "t", 0, 10025)
        assert found.window == windows_of(ledger)[2].id
        assert (found.found, found.attempt, found.run_id) == ("published", "a-1", "r-1")
        assert found.output == f"file:///out/{found.window}"

    @pytest.mark.parametrize(
        ("partition", "offset", "found"),
        [
            (0, 10030, "pinned, not published"),
            (0, 10040, "after the last window, 20261121T090000000Z_20261121T100000000Z, which ends at 10040"),
            (7, 0, "doesn't have that partition"),
        ],
    )
    def test_and_every_other_place_has_its_words(self, local: Ledger, partition: int, offset: int, found: str) -> None:
        for hour in range(3):
            load(local, hour)
        resolve(local, 3)
        assert found in find(local, "t", partition, offset).found

    def test_it_reads_a_dozen_windows_of_a_hundred(self, local: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        for hour in range(100):
            resolve(local, hour)
        read: list[str] = []
        pinned = local.pinned
        monkeypatch.setattr(
            local, "pinned", lambda window, revision: (read.append(window), pinned(window, revision))[1]
        )
        assert find(local, "t", 0, 10555).window == windows_of(local)[55].id
        assert len(read) <= 10

    def test_overlapping_windows_are_all_looked_at(self, local: Ledger) -> None:
        for hour in (0, 1):
            resolve(local, hour)
        both = [local.snapshots.read(each.number) for each in local.snapshots.entries()]
        pin_window(local, both[0], both[2], on_overlap="allow")
        assert find(local, "t", 0, 10015).window is not None

    def test_without_windows_it_says_so(self, local: Ledger) -> None:
        assert find(local, "t", 0, 1).found == "there is no window yet"
