"""``ledger verify``: what is in order, what isn't, and what needn't be read again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.attempt_files import result_file
from airflow_kafka_offsets.ledger.entries import Output, Pinned, Published, Snapshotted, Voided
from airflow_kafka_offsets.ledger.files import attempt_folder, manifest_file, snapshot_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.verification import Claim, verify
from airflow_kafka_offsets.offsets.partitions import LogRange, SeenOffset
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from tests.integration.ledger.loads import (
    AT_T0,
    again,
    at_hour,
    begin,
    derive,
    load,
    pin,
    publish,
    reload,
    resolve,
    restart,
    store_result,
)
from tests.integration.ledger.results import RUN, result_of


def broken(ledger: Ledger, *, full: bool = False) -> list[Claim]:
    return [each for each in verify(ledger, full=full) if not each.holds]


def claims(ledger: Ledger, subject: str, *, full: bool = False) -> list[str]:
    return [each.found for each in verify(ledger, full=full) if each.claim == subject]


class TestVerify:
    def test_loaded_windows_are_in_order(self, ledger: Ledger) -> None:
        for hour in (2, 0, 1):
            load(ledger, hour)
        resolve(ledger, 3)
        proved = resolve(ledger, 4)
        store_result(ledger, proved, result_of(ledger, proved, begin(ledger, proved)))
        assert broken(ledger) == broken(ledger, full=True) == []
        assert claims(ledger, "window", full=True) == [*["read = written = log, 10 rows"] * 3, *["pinned"] * 2]
        assert claims(ledger, "tiling") == ["3 published windows, 30 offsets"]
        assert claims(ledger, "snapshots", full=True) == ["6 snapshots in order"]

    def test_an_empty_ledger_is_in_order(self, local: Ledger) -> None:
        assert [each.found for each in verify(local)] == ["0 published windows, 0 offsets"]

    def test_what_a_job_has_written_is_said(self, local: Ledger) -> None:
        derive(local, 0, 7)
        assert claims(local, "window", full=True) == ["read = log (7 rows written by your job)"]

    def test_losses_are_counted_and_no_fault(self, local: Ledger) -> None:
        publish(local, resolve(local, 0), lost=[LogRange("t", 0, AT_T0, AT_T0 + 4)])
        assert claims(local, "window") == ["read = written = log, 4 offsets lost before, 6 rows"]
        assert claims(local, "tiling") == ["1 published window, 10 offsets, 4 of them lost before they were loaded"]
        assert broken(local) == []

    def test_a_hole_is_found(self, local: Ledger) -> None:
        load(local, 0)
        load(local, 2)
        (found,) = broken(local)
        assert (found.claim, "no window has 10 of the 10 offsets" in found.found) == ("hole", True)

    def test_one_that_is_pinned_is_not_published_yet_and_wants_nobody_until_it_has_failed(self, local: Ledger) -> None:
        load(local, 0)
        window = resolve(local, 1)
        load(local, 2)
        assert broken(local) == []
        assert claims(local, "unpublished") == [f"not loaded yet: {window.name} (pinned)"]
        note = FailureNote("SparkFailedError", "it broke", 1)
        local.attempt(window.name, begin(local, window).number).record_failure(note)
        assert [each.found for each in broken(local)] == [f"not loaded yet: {window.name} (failed)"]

    def test_one_that_is_to_be_loaded_again_is_told(self, local: Ledger) -> None:
        window = load(local, 0)
        reload(local, window)
        assert claims(local, "unpublished") == [f"not loaded yet: {window.name} (pinned, to be loaded again)"]
        assert not broken(local)

    def test_a_restart_shows_the_seam_and_what_was_left(self, local: Ledger) -> None:
        load(local, 0)
        restart(local, "truncated", [SeenOffset("t", 0, AT_T0 + 4, 1)])
        (seam,) = claims(local, "restart")
        assert seam.startswith("t began anew after 2026-11-21T07:00:00.000Z: truncated; at least 1000 offsets of the")
        pin(local, at_hour(1), at_hour(2, AT_T0 + 9))
        assert [each.offsets for each in local.state.windows.values()] == [10, 5]
        assert broken(local, full=True) == []


Harm = Callable[[Ledger, Window], None]


def replaced(name: Callable[[Ledger, Window], str], content: bytes | None) -> Harm:
    def harm(ledger: Ledger, window: Window) -> None:
        place = ledger.folder / name(ledger, window)
        if content is None:
            place.fs.rm(place.path)
        else:
            ledger.files.replace(name(ledger, window), content)

    return harm


def manifest_of(_: Ledger, window: Window) -> str:
    return manifest_file(window.name, window.manifest)


def end_of(ledger: Ledger, window: Window) -> str:
    return snapshot_file(ledger.state.snapshots[window.end_ms].offsets)


def result_of_published(_: Ledger, window: Window) -> str:
    assert window.publication is not None
    return f"{attempt_folder(window.name, window.publication.attempt)}/{result_file(RUN)}"


class TestDamage:
    @pytest.mark.parametrize(
        ("harm", "found"),
        [
            (replaced(manifest_of, b"{}"), r"\.json was changed"),
            (replaced(manifest_of, None), "is missing, though the ledger refers to it"),
            (replaced(end_of, b"x"), "is not compressed JSON"),
            (replaced(end_of, None), "is missing, though the ledger refers to it"),
            (replaced(result_of_published, b"{"), "is not JSON"),
            (replaced(result_of_published, None), r"/3/0000000a\.result\.json is missing"),
        ],
    )
    def test_is_named_by_its_window(self, local: Ledger, harm: Harm, found: str) -> None:
        damaged = publish(local, resolve(local, 0))
        load(local, 2)
        harm(local, damaged)
        first = broken(again(local))[0]
        assert first.window == damaged.name
        assert re.search(found, first.found), first.found

    def test_a_result_that_was_changed_after_it_was_published_is_named(self, local: Ledger) -> None:
        window = publish(local, resolve(local, 0))
        name = result_of_published(local, window)
        content = local.files.read(name)
        assert content is not None
        fields = json.loads(content)
        fields["read"] |= {"count": 9}
        local.files.replace(name, json.dumps(fields).encode())
        assert "is changed (its sha256 is" in broken(local)[0].found

    def test_a_publication_that_is_not_proved_is_named(self, local: Ledger) -> None:
        """Somebody has published past Airflow's side."""
        window = resolve(local, 0)
        result = result_of(local, window, begin(local, window))
        found = store_result(local, window, replace(result, read=replace(result.read, count=9)))
        outputs = (Output("", "parquet", "file:///out", 10),)
        wish = Published(window.name, result.attempt, RUN, found.sha256, outputs, True, 1)
        local.change(lambda state: load_decisions.publish(state, wish, window.manifest))
        assert "read 9 rows, wrote 10" in broken(local)[0].found

    def test_one_that_names_other_outputs_than_its_attempt_is_named(self, local: Ledger) -> None:
        window = resolve(local, 0)
        found = store_result(local, window, result_of(local, window, begin(local, window)))
        outputs = (Output("", "parquet", "s3://elsewhere", 10),)
        wish = Published(window.name, found.attempt.number, RUN, found.sha256, outputs, True, 1)
        local.change(lambda state: load_decisions.publish(state, wish, window.manifest))
        assert "names other outputs" in broken(local)[0].found

    def test_a_manifest_that_is_not_what_its_snapshots_say_is_named(self, local: Ledger) -> None:
        """Whoever wrote both the file and the commit: the log alone doesn't tell."""
        window = resolve(local, 0)
        manifest = local.pinned(window).manifest
        wrong = replace(
            manifest, ranges=tuple(replace(each, end_offset=each.end_offset + 1) for each in manifest.ranges)
        )
        sha256 = local.contents.add_manifest(wrong)  # stored with the commit that names it
        other = resolve(local, 5)
        forged = replace_window(local, other, window, sha256)
        assert "its manifest isn't what its two snapshots say" in broken(forged)[0].found


def replace_window(ledger: Ledger, other: Window, window: Window, sha256: str) -> Ledger:
    """A ledger whose log names another manifest for a window."""
    entries = (Voided(window.name), Pinned(window.name, sha256, 11), Voided(other.name))
    ledger.change(lambda state: entries)
    return ledger


class TestWhatWasVerifiedBefore:
    def test_is_not_read_again_without_full(self, local: Ledger) -> None:
        windows = [load(local, hour) for hour in range(4)]
        replaced(manifest_of, b"{}")(local, windows[2])
        fresh = again(local)
        assert broken(fresh) == []
        assert claims(fresh, "window") == ["4 windows, verified when they were loaded"]
        assert [each.window for each in broken(fresh, full=True)] == [windows[2].name]

    def test_is_read_once_it_is_to_be_loaded_again(self, local: Ledger) -> None:
        window = load(local, 0)
        reload(local, window)
        assert claims(local, "window") == ["read = written = log, 10 rows"]

    def test_of_a_snapshot_beside_a_hole_that_was_lost_it_is_no_hole(self, local: Ledger) -> None:
        """Which ``--on-hole warn`` would excuse."""
        load(local, 0)
        later = load(local, 2)
        place = local.folder / snapshot_file(local.state.snapshots[later.start_ms].offsets)
        place.fs.rm(place.path)
        (claim,) = broken(again(local))
        assert claim.claim == "snapshots"

    def test_of_a_snapshot_that_was_lost_full_says_so(self, local: Ledger) -> None:
        load(local, 0)
        replaced(end_of, None)(local, local.window(next(iter(local.state.windows))))
        assert {each.claim for each in broken(again(local), full=True)} == {"window", "snapshots"}

    def test_snapshots_that_run_backwards_are_named(self, local: Ledger) -> None:
        load(local, 0)
        low = at_hour(9, 5)
        offsets = local.contents.add_snapshot(low)
        local.change(lambda state: [Snapshotted(low.timestamp_ms, offsets)] if state.number < 6 else ())
        (found,) = broken(local, full=True)
        assert "is below the one before it on t-0" in found.found
