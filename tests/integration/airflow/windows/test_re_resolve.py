"""Windows resolved anew, by name, as the next revision; and windows that are to count no more."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import LedgerConflictError, SparkFailedError
from airflow_kafka_offsets.ledger import storage
from airflow_kafka_offsets.ledger.forgetting import forget_instants
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.storage import StoragePath
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.pipelines.snapshot_maker import SnapshotMaker
from airflow_kafka_offsets.pipelines.window_pinner import WindowPinner
from airflow_kafka_offsets.references.window_ref import WindowRef
from tests.integration.airflow.conftest import T0_MS, Context, InSparksPlace, Publish, Resolve, Run, at, fails_with
from tests.integration.airflow.windows.conftest import DeleteBefore, XCom, ranges, stamped
from tests.integration.conftest import Produce
from tests.integration.ledger.loads import windows_of

pytestmark = pytest.mark.nightly("the command's own tests show it once; test_cli_connections.py resolves again")


@pytest.fixture
def first(ten: str, resolve: Resolve, produce: Produce) -> XCom:
    """The window of the first twenty seconds; records of seconds 5 and 25 came after it as offsets 10 and 11."""
    window = resolve(ten, at(0), at(20))
    produce(ten, 0, stamped(5, 25))
    return window


@pytest.fixture
def others(ten: str, first: XCom, resolve: Resolve) -> list[XCom]:
    """The two windows after it, resolved after these records had come."""
    return [resolve(ten, at(20), at(40)), resolve(ten, at(40), at(60))]


class TestReResolve:
    @pytest.mark.parametrize("yes", [True, "true", "1"])
    def test_takes_in_what_came_late_as_a_second_revision_and_keeps_the_first(
        self, ten: str, first: XCom, resolve: Resolve, ledger: Ledger, yes: bool | str
    ) -> None:
        """S23: by default a rerun gets the same offsets."""
        assert resolve(ten, at(0), at(20)) == first
        new = resolve(ten, at(0), at(20), re_resolve=yes)
        assert (new["window"], new["revision"], ranges(new)) == (first["window"], 2, [(0, 0, 11)])
        assert ledger.pinned(first["window"], 1).sha256 == first["sha256"]
        assert resolve(ten, at(0), at(20)) == new, "the newest counts"

    @pytest.mark.parametrize("no", ["", "False", "None"])
    def test_is_what_a_template_says_of_a_run(self, ten: str, first: XCom, resolve: Resolve, no: str) -> None:
        assert resolve(ten, at(0), at(20), re_resolve=no) == first

    def test_leaves_the_boundaries_that_other_windows_share(
        self, ten: str, first: XCom, others: list[XCom], resolve: Resolve
    ) -> None:
        """S2, S23: a window between two others is what it was."""
        assert [ranges(each) for each in (first, *others)] == [[(0, 0, 10)], [(0, 10, 12)], [(0, 12, 12)]]
        assert resolve(ten, at(20), at(40), re_resolve=True) == others[0]

    def test_of_neighbours_moves_the_boundary_between_them_alone(
        self, ten: str, first: XCom, others: list[XCom], run: Run, resolve: Resolve, publish: Publish
    ) -> None:
        """S2, S23: by the command; the three tile as before."""
        names = (first["window"], others[0]["window"])
        code, out, _ = run("ledger", "re-resolve", "loads", *names, "-o", "json")
        assert (code, [(row["revision"], row["offsets"]) for row in json.loads(out)]) == (0, [(2, 11), (2, 1)])
        for start in (0, 20, 40):
            publish(resolve(ten, at(start), at(start + 20)))
        code, out, _ = run("ledger", "verify", "loads", "-o", "json")
        assert (code, json.loads(out)[-1]["found"]) == (0, "3 published windows tile, 12 offsets")
        rows = json.loads(run("ledger", "show", "loads", first["window"], "--revision", "1", "-o", "json")[1])
        assert [row["end_offset"] for row in rows] == [10], "the first revision is kept"

    def test_that_finishes_an_interrupted_one_tells_what_it_has_changed(
        self, first: XCom, others: list[XCom], run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first one has died before its new revisions counted."""
        anew = ("ledger", "re-resolve", "loads", first["window"], others[0]["window"], "-o", "json")
        create = storage._create

        def die(path: StoragePath, content: bytes) -> None:
            if path.name == "settled-together":
                raise KeyboardInterrupt
            create(path, content)

        with monkeypatch.context() as dying:
            dying.setattr(storage, "_create", die)
            with suppress(KeyboardInterrupt):
                run(*anew)
        code, out, _ = run(*anew)
        assert (code, [(row["offsets"], row["remark"]) for row in json.loads(out)]) == (0, [(11, None), (1, None)])

    def test_of_a_window_that_is_not_there_is_refused(self, first: XCom, run: Run) -> None:
        code, _, err = run("ledger", "re-resolve", "loads", "20260101T000000000Z_20260101T010000000Z")
        assert code == 2
        assert "has no window 20260101T000000000Z_20260101T010000000Z" in err


class TestForget:
    def test_the_next_run_resolves_the_window_anew(
        self, ten: str, first: XCom, run: Run, resolve: Resolve, ledger: Ledger
    ) -> None:
        """S23: what it was is kept, and counts no more."""
        code, out, _ = run("ledger", "forget", "loads", first["window"], "-o", "json")
        (row,) = json.loads(out)
        assert (code, row["instants"]) == (0, "2026-11-20T06:00:00.000Z, 2026-11-20T06:00:20.000Z")
        assert windows_of(ledger) == []
        again = resolve(ten, at(0), at(20))
        assert (again["revision"], ranges(again)) == (2, [(0, 0, 11)])

    def test_instants_that_other_windows_share_stay(
        self, ten: str, first: XCom, others: list[XCom], run: Run, resolve: Resolve
    ) -> None:
        """S2"""
        before = ranges(others[0])
        (row,) = json.loads(run("ledger", "forget", "loads", others[0]["window"], "-o", "json")[1])
        assert row["instants"] == "none"
        assert ranges(resolve(ten, at(20), at(40))) == before

    def test_a_task_that_holds_the_forgotten_one_is_told_to_resolve_again(
        self, first: XCom, run: Run, context: Context
    ) -> None:
        """S21"""
        run("ledger", "forget", "loads", first["window"])
        with pytest.raises(AirflowFailException, match="Clear the resolve task too") as failed:
            KafkaSparkSubmitOperator(task_id="load", window=first).execute(context)
        assert fails_with(LedgerConflictError, failed)

    def test_a_published_one_takes_force(self, first: XCom, run: Run, publish: Publish, ledger: Ledger) -> None:
        publish(first)
        code, _, err = run("ledger", "forget", "loads", first["window"])
        assert code == 2
        assert "Pass --force" in err
        assert run("ledger", "forget", "loads", first["window"], "--force")[0] == 0
        assert windows_of(ledger) == []

    def test_one_that_may_be_loading_takes_force_until_its_load_has_failed(
        self, ten: str, first: XCom, run: Run, resolve: Resolve, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        """Its Spark goes on writing, and asks nobody whether the window was forgotten."""
        folder = WindowRef.from_json(first).ledger().window_folders.newest(first["window"])
        folder.record_attempt("a-1", {"airflow": {"dag_id": "d", "run_id": "r"}})
        with pytest.raises(AirflowFailException, match=r"may be loading at this moment: attempt .* by run r of Dag d"):
            resolve(ten, at(4), at(9))
        code, _, err = run("ledger", "forget", "loads", first["window"])
        assert code == 2
        assert "by run r of Dag d" in err
        in_sparks_place("raise SystemExit(1)")
        with pytest.raises(SparkFailedError):
            KafkaSparkSubmitOperator(task_id="load", window=first).execute(context)
        assert folder.listing().unended == ["a-1"], "of the one that failed its task says so"
        folder.record_failure("a-1", FailureNote("SparkError", "x"))
        assert run("ledger", "forget", "loads", first["window"])[0] == 0


class TestBesideAnother:
    def test_who_resolves_at_an_instant_that_is_being_resolved_anew_does_not_cross_it(
        self, ten: str, resolve: Resolve, client: OffsetsClient, ledger: Ledger, delete_before: DeleteBefore
    ) -> None:
        """Found by the chaos run: the other task's window began behind the end that it brought back, for good."""
        resolve(ten, at(0), at(2))
        first = resolve(ten, at(2), at(7))
        delete_before(ten, 9)
        forget_instants(ledger, [first["window"]])

        maker = SnapshotMaker(client, ledger, [ten], IsolationLevel.READ_COMMITTED)
        beside = WindowPinner(maker).pin(T0_MS + 5000, T0_MS + 7000)
        assert [(each.start_offset, each.end_offset) for each in beside.pinned.manifest.ranges] == [(7, 7)]
        assert resolve(ten, at(2), at(7), re_resolve=True) == first, "its end is another window's by now"

    def test_who_gets_an_end_that_another_has_stored_from_a_later_look_does_not_take_it_for_his_own(
        self, ten: str, client: OffsetsClient, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S15: a log may have been truncated between the two looks."""
        maker, other = (SnapshotMaker(client, ledger, [ten], IsolationLevel.READ_COMMITTED) for _ in range(2))
        look_up = client.look_up

        def late(*arguments: Any, **named: Any) -> Any:
            monkeypatch.undo()
            other.snapshot(AsOf(AsOfKind.INSTANT, T0_MS))
            return look_up(*arguments, **named)

        monkeypatch.setattr(client, "look_up", late)
        start, end = maker.snapshots([T0_MS, T0_MS + 5000])
        assert (start.number, end.number) == (1, 2)
        assert not maker.made_together(start, end)
        assert maker.made_together(end)
