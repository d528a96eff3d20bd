"""What isn't published yet, what no window has, and what is lost: told apart by the page and by ``ledger verify``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from airflow_kafka_offsets.ledger import verification
from airflow_kafka_offsets.ledger.pinning import pin_window
from airflow_kafka_offsets.ledger.verification import tiling_of, verify
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.windows.tiling import Tiling
from airflow_kafka_offsets.page.app import make_app
from tests.integration.ledger.loads import AT_T0, LATER_MS, OFFSETS, load, publish, resolve, window
from tests.integration.page.conftest import As, MakePipeline
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot


class TestNotPublished:
    @pytest.mark.parametrize("most", [100, 1])
    def test_windows_that_are_not_published_yet_are_no_hole(
        self, log_in: As, make_pipeline: MakePipeline, most: int
    ) -> None:
        """Also where they are on an earlier page."""
        late = make_pipeline("late")
        load(late, 0)
        resolve(late, 1)
        late.window_folders.of(resolve(late, 2)).record_attempt("a-1", {})
        load(late, 3)
        claims = [claim for claim in verify(late) if claim.claim in ("hole", "unpublished", "tiling")]
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        answer = browser.get("/api/pipelines/late", params={"most": most}).json()
        assert [(claim.claim, claim.holds) for claim in claims] == [("tiling", True), ("unpublished", True)]
        assert claims[1].found == (
            "not published yet, from 2026-11-21T07:00:00.000Z to 2026-11-21T09:00:00.000Z: "
            f"{window(1)} (pinned), {window(2)} (loading)"
        )
        assert [each["state"] for each in answer["entries"]] == ["verified", "pinned", "loading", "verified"][-most:]
        assert answer["overview"]["holes"] == []
        assert answer["overview"]["unloaded_from_ms"] == T0 + HOUR_MS

    @pytest.mark.parametrize("between", [True, False], ids=["between others", "the newest"])
    @pytest.mark.parametrize("how", ["failed", "lost"])
    def test_a_window_that_nobody_loads_any_more_fails_the_verification_of_the_ledger(
        self, make_pipeline: MakePipeline, how: str, between: bool
    ) -> None:
        late = make_pipeline("late")
        load(late, 0)
        folder = late.window_folders.of(resolve(late, 1))
        folder.record_attempt("a-1", {})
        if how == "failed":
            folder.record_failure("a-1", FailureNote("ProofError", "why"))
        else:
            folder.record_loss([LogRange("t", 0, AT_T0 + OFFSETS, AT_T0 + OFFSETS + 3)], T0)
        if between:
            load(late, 2)
        (claim,) = [claim for claim in verify(late) if claim.claim == "unpublished"]
        assert (claim.holds, claim.found[-len(how) - 2 :]) == (False, f"({how})")

    def test_a_part_that_no_window_has_is_a_hole_beside_one_that_is_not_published_yet(
        self, log_in: As, make_pipeline: MakePipeline
    ) -> None:
        late = make_pipeline("late")
        load(late, 0)
        resolve(late, 2)
        load(late, 3)
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        answer = browser.get("/api/pipelines/late").json()
        assert [each["state"] for each in answer["entries"]] == ["verified", "hole", "pinned", "verified"]
        (hole,) = answer["overview"]["holes"]
        assert f"gap of {OFFSETS} offsets between {AT_T0 + OFFSETS} and {AT_T0 + 2 * OFFSETS}" in hole
        assert hole.endswith(f"; not published yet: {window(2)}")

    def test_what_a_newer_revision_of_a_published_window_has_is_no_hole(
        self, log_in: As, make_pipeline: MakePipeline
    ) -> None:
        """Hours 0 and 2 are published; of hour 0 a revision is pinned that reaches over hour 1's offsets."""
        late = make_pipeline("late")
        load(late, 0)
        load(late, 2)
        manifest = late.pinned(window(0)).manifest
        (pinned,) = manifest.ranges
        wider = replace(manifest, ranges=(replace(pinned, end_offset=AT_T0 + 2 * OFFSETS),))
        late.window_folders.pin_next(wider)
        claims = {claim.claim: claim for claim in verify(late)}
        entries = TestClient(make_app(), cookies=log_in("admin").cookies).get("/api/pipelines/late").json()["entries"]
        assert "hole" not in claims
        said = claims["unpublished"]
        assert (said.holds, said.found.endswith(f" {window(0)} (pinned)")) == (True, True)
        assert "except for 1 place not published yet" in claims["tiling"].found
        assert [each["state"] for each in entries] == ["verified", "pinned", "absent", "verified"]

    def test_a_window_of_other_offsets_within_the_time_has_no_part_in_what_is_late(
        self, make_pipeline: MakePipeline
    ) -> None:
        late = make_pipeline("late")
        load(late, 0)
        resolve(late, 1)
        half = snapshot({0: AT_T0 + OFFSETS}, at_ms=T0 + HOUR_MS + HOUR_MS // 4, resolved_at_ms=LATER_MS)
        end = snapshot({0: AT_T0 + OFFSETS}, at_ms=T0 + HOUR_MS + HOUR_MS // 2, resolved_at_ms=LATER_MS)
        empty = pin_window(late, *late.snapshots.append([half, end]))
        late.window_folders.of(empty).record_attempt("a-1", {})
        late.window_folders.of(empty).record_failure("a-1", FailureNote("ProofError", "why"))
        load(late, 2)
        (claim,) = [claim for claim in verify(late) if claim.claim == "unpublished"]
        assert (claim.holds, claim.found.partition(": ")[2]) == (True, f"{window(1)} (pinned)")

    @pytest.mark.parametrize("most", [100, 1])
    def test_the_window_that_ends_last_is_the_neighbour_of_what_is_shown(
        self, log_in: As, make_pipeline: MakePipeline, most: int
    ) -> None:
        """Not the one that starts last: a day's window lies around one without offsets."""
        around = make_pipeline("around")
        start = snapshot({0: AT_T0}, at_ms=T0, resolved_at_ms=LATER_MS)
        end = snapshot({0: AT_T0 + 4 * OFFSETS}, at_ms=T0 + 4 * HOUR_MS, resolved_at_ms=LATER_MS)
        publish(around, pin_window(around, *around.snapshots.append([start, end])))
        middle = [
            snapshot({0: AT_T0 + OFFSETS}, at_ms=T0 + HOUR_MS + minutes * 60_000, resolved_at_ms=LATER_MS)
            for minutes in (0, 30)
        ]
        publish(around, pin_window(around, *around.snapshots.append(middle)))
        load(around, 4)
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        entries = browser.get("/api/pipelines/around", params={"most": most}).json()["entries"]
        assert {each["kind"] for each in entries} == {"window"}

    def test_two_revisions_of_a_window_are_on_one_page(self, log_in: As, make_pipeline: MakePipeline) -> None:
        twice = make_pipeline("twice")
        load(twice, 0)
        load(twice, 1)
        manifest = twice.pinned(window(1)).manifest
        twice.window_folders.pin_next(replace(manifest, end_snapshot=manifest.end_snapshot + 7))
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        answer = browser.get("/api/pipelines/twice", params={"most": 1}).json()
        assert [(row["window"], row["state"]) for row in answer["entries"]] == [
            (window(1), "verified"),
            (window(1), "pinned"),
        ]

    def test_what_only_an_unpublished_revision_has_lost_is_no_loss(
        self, log_in: As, make_pipeline: MakePipeline
    ) -> None:
        kept = make_pipeline("kept")
        load(kept, 0)
        manifest = kept.pinned(window(0)).manifest
        (pinned,) = manifest.ranges
        clamped = replace(pinned, start_offset=pinned.start_offset + 4, lost_offsets=4)
        kept.window_folders.pin_next(replace(manifest, ranges=(clamped,)))
        row = TestClient(make_app(), cookies=log_in("admin").cookies).get("/api/pipelines/kept").json()["overview"]
        assert (row["lost_offsets"], row["losses"]) == (0, [])

    def test_a_window_that_is_published_while_the_ledger_is_verified_has_not_failed(
        self, make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        quick = make_pipeline("quick")
        load(quick, 0)
        pinned = resolve(quick, 1)
        quick.window_folders.of(pinned).record_attempt("a-1", {})
        quick.window_folders.of(pinned).record_failure("a-1", FailureNote("ProofError", "why"))
        load(quick, 2)

        def published_first(*arguments: Any) -> Tiling:
            publish(quick, pinned)
            return tiling_of(*arguments)

        monkeypatch.setattr(verification, "tiling_of", published_first)
        (claim,) = [claim for claim in verification.verify(quick) if claim.claim == "unpublished"]
        assert (claim.holds, claim.found.partition(f"{window(1)} ")[2]) == (True, "(published)")

    def test_an_overlap_is_shown_in_both_windows(self, log_in: As, make_pipeline: MakePipeline) -> None:
        twice = make_pipeline("twice")
        load(twice, 0)
        half = snapshot({0: AT_T0 + 4}, at_ms=T0 + HOUR_MS // 2, resolved_at_ms=LATER_MS)
        end = snapshot({0: AT_T0 + OFFSETS}, at_ms=T0 + HOUR_MS, resolved_at_ms=LATER_MS)
        publish(twice, pin_window(twice, *twice.snapshots.append([half, end]), on_overlap="allow"))
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        entries = browser.get("/api/pipelines/twice").json()["entries"]
        assert [each["overlap"] for each in entries] == [{"0": OFFSETS - 4}] * 2

    @pytest.mark.parametrize(("log_start", "gone"), [(0, 0), (AT_T0 + 13, 3), (AT_T0 + 20, 10), (AT_T0 + 35, 15)])
    def test_what_is_gone_already_was_in_no_published_window(
        self, log_in: As, make_pipeline: MakePipeline, log_start: int, gone: int
    ) -> None:
        """Hour 1 is a hole, and hour 3 isn't loaded."""
        gappy = make_pipeline("gappy")
        load(gappy, 0)
        load(gappy, 2)
        start = snapshot({0: AT_T0 + 3 * OFFSETS}, at_ms=T0 + 3 * HOUR_MS, resolved_at_ms=LATER_MS)
        end = snapshot(
            {0: AT_T0 + 4 * OFFSETS}, at_ms=T0 + 4 * HOUR_MS, resolved_at_ms=LATER_MS + 1, log_start=log_start
        )
        pin_window(gappy, *gappy.snapshots.append([start, end]), on_data_loss="load_rest")
        row = TestClient(make_app(), cookies=log_in("admin").cookies).get("/api/pipelines/gappy").json()["overview"]
        assert row["gone_offsets"] == gone

    @pytest.mark.parametrize(("pinned", "gone", "since_ms"), [(True, 0, T0), (False, None, None)])
    def test_what_is_gone_already_is_unknown_without_windows(
        self, log_in: As, make_pipeline: MakePipeline, pinned: bool, gone: int | None, since_ms: int | None
    ) -> None:
        """Then nothing says from where on records are to be loaded, as when Kafka is asked."""
        new = make_pipeline("new")
        if pinned:
            resolve(new, 0)
        row = TestClient(make_app(), cookies=log_in("admin").cookies).get("/api/pipelines/new").json()["overview"]
        assert (row["gone_offsets"], row["unloaded_from_ms"]) == (gone, since_ms)

    @pytest.mark.parametrize("most", [100, 2])
    def test_windows_and_holes_before_the_first_published_one_are_not_loaded(
        self, log_in: As, make_pipeline: MakePipeline, most: int
    ) -> None:
        """A backfill pins hours 0 and 2 beside the live hour 5: no window has hours 1, 3 and 4."""
        late = make_pipeline("late")
        load(late, 5)
        for hour in (0, 2):
            resolve(late, hour)
        claims = verify(late)
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        answer = browser.get("/api/pipelines/late", params={"most": most}).json()
        assert [each["state"] for each in answer["entries"]][-4:] == ["hole", "pinned", "hole", "verified"]
        assert [each["gaps"] for each in answer["entries"] if each["kind"] == "hole"] == [
            {"0": OFFSETS},
            {"0": 2 * OFFSETS},
        ]
        assert answer["overview"]["unloaded_from_ms"] == T0
        assert [claim.found for claim in claims if claim.claim == "hole"] == answer["overview"]["holes"]
        said = {claim.claim: claim.found for claim in claims}
        assert said["unpublished"] == f"not published yet: {window(0)} (pinned), {window(2)} (pinned)"
        assert said["tiling"] == (
            "1 published window tiles, except for 2 holes; 10 offsets; complete up to 2026-11-21T06:00:00.000Z; "
            "2 windows not published"
        )

    def test_a_hole_between_windows_after_the_last_published_one_is_one_already(
        self, log_in: As, make_pipeline: MakePipeline
    ) -> None:
        late = make_pipeline("late")
        load(late, 0)
        for hour in (1, 3):
            resolve(late, hour)
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        answer = browser.get("/api/pipelines/late").json()
        assert [each["state"] for each in answer["entries"]] == ["verified", "pinned", "hole", "pinned"]
        assert [claim.found for claim in verify(late) if claim.claim == "hole"] == answer["overview"]["holes"]
        assert answer["overview"]["unloaded_from_ms"] == T0 + HOUR_MS

    def test_an_hour_without_a_window_is_a_row_though_nothing_is_missing(
        self, log_in: As, make_pipeline: MakePipeline
    ) -> None:
        """Its run was skipped, and nothing was written in it."""
        idle = make_pipeline("idle")
        load(idle, 0)
        ends = [
            snapshot({0: offset}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER_MS)
            for hour, offset in ((2, AT_T0 + OFFSETS), (3, AT_T0 + 2 * OFFSETS))
        ]
        publish(idle, pin_window(idle, *idle.snapshots.append(ends)))
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        answer = browser.get("/api/pipelines/idle").json()
        first, hour, _ = answer["entries"]
        assert (hour["state"], hour["start"], hour["gaps"]) == ("absent", first["end"], {})
        assert (answer["overview"]["holes"], answer["overview"]["unloaded_from_ms"]) == ([], T0 + 3 * HOUR_MS)

    def test_a_snapshot_that_cannot_be_read_hides_no_window(self, log_in: As, make_pipeline: MakePipeline) -> None:
        torn = make_pipeline("torn-snapshot")
        load(torn, 0)
        number = torn.summaries()[0].end_snapshot
        (file,) = Path(urlsplit(torn.uri).path).glob(f"snapshots/*/{number:08}.json.gz")
        file.write_bytes(b"not a snapshot")
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        answer = browser.get("/api/pipelines/torn-snapshot").json()
        assert answer["overview"]["gone_offsets"] is None
        assert [each["state"] for each in answer["entries"]] == ["verified"]
