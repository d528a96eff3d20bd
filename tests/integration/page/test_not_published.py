"""What isn't published yet, what no window has, and what is lost: told apart by the page and by ``ledger verify``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from airflow_kafka_offsets.ledger import corrections
from airflow_kafka_offsets.ledger.entries import Restarted
from airflow_kafka_offsets.ledger.files import snapshot_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.windows.ledger_names import window_id
from airflow_kafka_offsets.page.app import make_app
from tests.integration.ledger.loads import (
    AT_T0,
    LATER_MS,
    OFFSETS,
    at_hour,
    begin,
    load,
    pin,
    place,
    publish,
    refuse,
    resolve,
    store_result,
    window,
)
from tests.integration.ledger.results import result_of
from tests.integration.page.conftest import As, MakePipeline
from tests.unit.offsets.builders import HOUR_MS, T0, snapshot

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def late(make_pipeline: MakePipeline) -> Ledger:
    return make_pipeline("late")


@pytest.fixture
def ask(log_in: As) -> Ask:
    """The page of a pipeline."""
    return lambda **asked: TestClient(make_app(), cookies=log_in("admin").cookies).get(
        "/api/pipelines/late", params=asked
    ).json()  # fmt: skip


def states(answer: dict[str, Any]) -> list[str]:
    return [each["state"] for each in answer["entries"]]


def holes(ledger: Ledger) -> list[str]:
    """As ``ledger verify`` has them."""
    return [claim.found for claim in verify(ledger) if claim.claim == "hole" and not claim.holds]


class TestStates:
    def test_are_those_that_a_load_comes_through(self, late: Ledger, ask: Ask) -> None:
        resolve(late, 0)
        begin(late, resolve(late, 1), begun_ms=now_ms() - 3 * HOUR_MS)
        failed = resolve(late, 2)
        late.attempt(failed.name, begin(late, failed).number).record_failure(FailureNote("UnprovenError", "why"))
        proved = resolve(late, 3)
        store_result(late, proved, result_of(late, proved, begin(late, proved)))
        publish(late, resolve(late, 4))
        load(late, 5)
        expected = ["pinned", "loading", "failed", "proved", "published", "verified"]
        answer = ask()
        assert states(answer) == expected
        assert answer["overview"]["states"] == dict.fromkeys(expected, 1)
        running = [each["running_ms"] for each in answer["entries"]]
        assert [each is None for each in running] == [each != "loading" for each in expected]
        assert running[1] >= 3 * HOUR_MS


class TestRefused:
    """Loads that were refused before an attempt began, as when Kafka no longer has the window's records."""

    def test_are_failed_and_say_why_what_helps_and_who_wanted_them(self, late: Ledger, ask: Ask, log_in: As) -> None:
        hour = resolve(late, 0)
        refuse(late, hour, "DataLossError", "3 of 10 offsets are gone")
        answer = ask()
        assert states(answer) == ["failed"]
        (failure,) = answer["overview"]["failures"]
        assert failure["window"] == hour.name
        assert failure["why"].startswith("Records in a pinned range are gone")
        assert answer["entries"][0]["failure"]["helps"].startswith("Clearing the task doesn't bring them back")
        assert answer["overview"]["dag_ids"] == ["loads"]
        browser = TestClient(make_app(), cookies=log_in("admin").cookies)
        panel = browser.get(f"/api/pipelines/late/windows/{hour.name}").json()
        assert (panel["attempts"], panel["said"]) == ([], "Its newest load was refused before an attempt began.")
        refusal = panel["refusal"]
        assert (refusal["run_id"], refusal["failure"]["message"]) == ("r-2", "3 of 10 offsets are gone")
        where = {"topic": "t", "partition": 0, "offset": AT_T0}
        (place,) = browser.get("/api/pipelines/late/records", params=where).json()["places"]
        assert (place["state"], place["run_id"], place["failure"]["error"]) == ("failed", "r-2", "DataLossError")

    def test_take_the_place_of_why_the_attempt_before_has_failed(self, late: Ledger, ask: Ask) -> None:
        hour = resolve(late, 0)
        late.attempt(hour.name, begin(late, hour).number).record_failure(FailureNote("UnprovenError", "why"))
        refuse(late, hour, "ClusterUnreachableError", "no broker")
        assert [each["error"] for each in ask()["overview"]["failures"]] == ["ClusterUnreachableError"]


class TestNotPublished:
    @pytest.mark.parametrize("most", [100, 1])
    def test_windows_between_published_ones_are_no_hole(self, late: Ledger, ask: Ask, most: int) -> None:
        """Also where they are on an earlier page."""
        load(late, 0)
        resolve(late, 1)
        begin(late, resolve(late, 2))
        load(late, 3)
        answer = ask(most=most)
        assert states(answer) == ["verified", "pinned", "loading", "verified"][-most:]
        assert [hole["words"] for hole in answer["overview"]["holes"]] == holes(late) == []
        assert answer["overview"]["unloaded_from_ms"] == T0 + HOUR_MS

    def test_a_part_that_no_window_has_is_a_hole_beside_one_that_is_not_published_yet(
        self, late: Ledger, ask: Ask
    ) -> None:
        load(late, 0)
        resolve(late, 2)
        load(late, 3)
        answer = ask()
        assert states(answer) == ["verified", "hole", "pinned", "verified"]
        (hole,) = answer["overview"]["holes"]
        assert [hole["words"]] == holes(late)
        assert f"no window has {OFFSETS} of the {2 * OFFSETS} offsets" in hole["words"]
        assert hole["words"].endswith(f"; not published yet: {window(2)}")
        start, end = iso_instant(T0 + HOUR_MS), iso_instant(T0 + 3 * HOUR_MS)
        assert hole["filled_by"][0].startswith(
            f"airflow backfill create --dag-id loads --from-date {start} --to-date {end} "
        )

    @pytest.mark.parametrize("most", [100, 2])
    def test_windows_and_holes_before_the_first_published_one_are_not_loaded(
        self, late: Ledger, ask: Ask, most: int
    ) -> None:
        """A backfill pins hours 0 and 2 beside the live hour 5: no window has hours 1, 3 and 4 so far."""
        load(late, 5)
        for hour in (0, 2):
            resolve(late, hour)
        answer = ask(most=most)
        assert states(answer)[-4:] == ["hole", "pinned", "hole", "verified"]
        assert [each["offsets"] for each in answer["entries"] if each["kind"] == "hole"] == [OFFSETS, 2 * OFFSETS]
        assert answer["overview"]["unloaded_from_ms"] == T0
        assert [hole["words"] for hole in answer["overview"]["holes"]] == holes(late) != []
        assert answer["overview"]["next"]["backfills"] == 2, "which aren't late, though their hours were long ago"

    def test_a_gap_between_windows_after_the_last_published_one_is_a_row(self, late: Ledger, ask: Ask) -> None:
        load(late, 0)
        for hour in (1, 3):
            resolve(late, hour)
        answer = ask()
        assert states(answer) == ["verified", "pinned", "hole", "pinned"]
        assert answer["overview"]["unloaded_from_ms"] == T0 + HOUR_MS
        assert [hole["words"] for hole in answer["overview"]["holes"]] == holes(late) != []

    def test_an_hour_without_a_window_is_a_row_though_nothing_is_missing(self, late: Ledger, ask: Ask) -> None:
        """Its run was skipped, and nothing was written in it."""
        load(late, 0)
        publish(late, pin(late, at_hour(2, AT_T0 + OFFSETS), at_hour(3, AT_T0 + 2 * OFFSETS)))
        answer = ask()
        first, hour, _ = answer["entries"]
        assert (hour["state"], hour["start"], hour["offsets"]) == ("absent", first["end"], 0)
        assert (answer["overview"]["holes"], answer["overview"]["unloaded_from_ms"]) == ([], T0 + 3 * HOUR_MS)

    def test_partitions_that_were_added_in_a_hole_are_in_it(self, late: Ledger, ask: Ask) -> None:
        load(late, 0)
        since = [
            snapshot({0: offset, 1: offset - AT_T0}, at_ms=T0 + hour * HOUR_MS, resolved_at_ms=LATER_MS)
            for hour, offset in ((2, AT_T0 + 2 * OFFSETS), (3, AT_T0 + 3 * OFFSETS))
        ]
        publish(late, pin(late, *since))
        hole = ask()["entries"][1]
        assert (hole["state"], hole["offsets"]) == ("hole", 3 * OFFSETS)
        assert hole["worst"] == f"t-1 ({2 * OFFSETS}), t-0 ({OFFSETS})"


class TestGone:
    """What Kafka had deleted, of what no published window has, when the newest snapshot was taken."""

    @pytest.mark.parametrize(("log_start", "gone"), [(0, 0), (AT_T0 + 13, 3), (AT_T0 + 20, 10), (AT_T0 + 35, 15)])
    def test_was_in_no_published_window(self, late: Ledger, ask: Ask, log_start: int, gone: int) -> None:
        """Hour 1 is a hole, and hour 3 isn't loaded."""
        load(late, 0)
        load(late, 2)
        at_end = {"at_ms": T0 + 4 * HOUR_MS, "resolved_at_ms": LATER_MS}
        pin(late, at_hour(3), snapshot({0: AT_T0 + 4 * OFFSETS}, log_start=log_start, **at_end))  # type: ignore[arg-type]
        assert ask()["overview"]["gone_offsets"] == gone

    @pytest.mark.parametrize(
        ("stored", "gone", "since_ms"), [("window", 0, T0), ("snapshot", 0, T0), ("nothing", None, None)]
    )
    def test_is_counted_from_the_first_window_or_without_one_from_the_newest_snapshot(
        self, late: Ledger, ask: Ask, stored: str, gone: int | None, since_ms: int | None
    ) -> None:
        """As the retention watch does it: also of a pipeline whose first load failed, or never began."""
        if stored == "window":
            resolve(late, 0)
        elif stored == "snapshot":
            place(late, at_hour(0))
        row = ask()["overview"]
        assert (row["gone_offsets"], row["unloaded_from_ms"], row["published"]) == (gone, since_ms, None)

    def test_is_of_the_present_log_alone(self, late: Ledger, ask: Ask) -> None:
        """Hour 1 was a hole in a log that has begun anew since: nobody can load it, so it is the restart's loss."""
        for hour in (0, 2):
            load(late, hour)
        wish = Restarted(T0 + 3 * HOUR_MS + 1, ("t",), "it was re-created")
        late.change(lambda state: corrections.restart(state, wish, late.contents))
        row = ask()["overview"]
        assert row["gone_offsets"] == 0
        assert row["restarts"] == [claim.found for claim in verify(late) if claim.claim == "restart"]
        assert wish.why in row["restarts"][0]
        place(late, snapshot({0: 30}, at_ms=T0 + 4 * HOUR_MS, topic_id="id-2", log_start=25))
        row = ask()["overview"]
        assert (row["gone_offsets"], row["unloaded_from_ms"], len(row["holes"])) == (0, T0 + 3 * HOUR_MS, 0)


def test_a_snapshot_that_cannot_be_read_hides_no_window(late: Ledger, ask: Ask) -> None:
    load(late, 0)
    stored = late.state.snapshots[T0 + HOUR_MS]
    (Path(urlsplit(late.uri).path) / snapshot_file(stored.offsets)).write_bytes(b"not a snapshot")
    answer = ask()
    assert answer["overview"]["gone_offsets"] is None
    assert stored.offsets in answer["overview"]["holes"][0]["words"]
    assert states(answer) == ["verified"]
    assert answer["entries"][0]["window"] == window_id(T0, T0 + HOUR_MS)
