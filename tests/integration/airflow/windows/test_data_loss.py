"""Records that are gone: before the window, between its snapshots, before the load, and while Spark reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import DataLossError
from airflow_kafka_offsets.ledger.counted import WindowStatus, status
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.partitions import LogRange
from dev.kafka import Broker
from tests.integration.airflow.conftest import COUNT, Context, InSparksPlace, Resolve, Run, at, fails_with
from tests.integration.airflow.windows.conftest import DeleteBefore, Said, XCom, evidence, load, ranges

DELETE_AND_FAIL = """
from kafka import KafkaAdminClient, TopicPartition

KafkaAdminClient(bootstrap_servers={servers!r}).delete_records({{TopicPartition({topic!r}, 0): {offset}}})
raise SystemExit(1)
"""


class TestBeforeTheFirstSnapshot:
    def test_the_window_begins_where_the_log_does_and_says_so(
        self, ten: str, resolve: Resolve, delete_before: DeleteBefore, said: Said
    ) -> None:
        """E9: how many there were nobody can tell."""
        delete_before(ten, 4)
        window = resolve(ten, at(0), at(7))
        assert (ranges(window), evidence(window)) == ([(0, 4, 7)], [("log_start", "matched")])
        assert f"The log starts within the window on {ten}-0 at 4" in said()

    def test_a_backfill_over_what_is_gone_ends_where_the_next_window_starts(
        self, ten: str, resolve: Resolve, delete_before: DeleteBefore, said: Said
    ) -> None:
        """E9, S2: it is empty, and nothing of the next window is in it."""
        resolve(ten, at(5), at(8))
        delete_before(ten, 7)
        window = resolve(ten, at(1), at(3))
        assert (ranges(window), evidence(window)) == ([(0, 5, 5)], [("clamped", "clamped")])
        assert f"snapshots stored earlier take precedence on {ten}-0 at 5" in said()


class TestBetweenTheSnapshots:
    @pytest.fixture
    def window(self, ten: str, resolve: Resolve, delete_before: DeleteBefore) -> XCom:
        """Offsets 5 to 9, from the end of another window on; offsets below 7 were gone when it was resolved."""
        resolve(ten, at(0), at(5))
        delete_before(ten, 7)
        return resolve(ten, at(5), at(20))

    def test_they_cannot_be_counted_and_hold_up_nothing(
        self, ten: str, resolve: Resolve, delete_before: DeleteBefore, caplog: pytest.LogCaptureFixture
    ) -> None:
        """``count_records`` leaves out what nobody can count any more; the window is pinned all the same."""
        resolve(ten, at(0), at(5), count_records=True)
        delete_before(ten, 7)
        window = resolve(ten, at(5), at(20), count_records=True)
        assert ranges(window) == [(0, 5, 10)]
        assert f"Records were deleted before they could be counted on {ten}-0" in caplog.text

    def test_the_window_has_them_and_its_load_fails_with_exact_counts(
        self, ten: str, window: XCom, context: Context
    ) -> None:
        """E9, S12"""
        assert ranges(window) == [(0, 5, 10)]
        with pytest.raises(AirflowFailException, match=rf"2 of 5 offsets .* {ten}-0: 2 offsets from 5 on") as failed:
            load(window).execute(context)
        assert fails_with(DataLossError, failed)

    def test_the_ledger_says_why_no_load_has_begun_and_which_run_to_clear(
        self, window: XCom, context: Context, run: Run
    ) -> None:
        for _ in range(2):
            with pytest.raises(AirflowFailException):
                load(window).execute(context)
        _, out, told = run("ledger", "show", "loads", window["window"], "-o", "json")
        (shown,) = json.loads(out)
        assert (shown["state"], shown["attempts"]) == ("failed", [])
        assert shown["refusal"]["failure"]["message"].startswith("2 of 5 offsets of window")
        assert f"To load {window['window']} again: " in told
        assert "refused. DataLossError: 2 of 5 offsets" in run("ledger", "show", "loads", window["window"])[1]

    def test_the_rest_is_loaded_where_that_will_do_and_the_loss_is_no_hole(
        self, ten: str, window: XCom, resolve: Resolve, context: Context, in_sparks_place: InSparksPlace, run: Run
    ) -> None:
        """E9, S13: accepted by name, never on its own."""
        in_sparks_place(COUNT)
        load(resolve(ten, at(0), at(5)), on_data_loss="load_rest").execute(context)
        report = load(window, on_data_loss="load_rest").execute(context)
        assert (report["offsets"], report["lost"], report["rows"], report["gaps"]) == (5, 2, 3, 0)
        code, out, _ = run("ledger", "verify", "loads", "-o", "json")
        assert code == 0, out


class TestBetweenPinAndLoad:
    @pytest.fixture
    def window(self, ten: str, resolve: Resolve, delete_before: DeleteBefore) -> XCom:
        """Offsets 2 to 6, of which 2 to 4 are gone."""
        window = resolve(ten, at(2), at(7))
        delete_before(ten, 5)
        return window

    def test_nothing_begins_where_records_are_gone(
        self, ten: str, window: XCom, context: Context, ledger: Ledger
    ) -> None:
        """E10, S12"""
        with pytest.raises(AirflowFailException, match=rf"3 of 5 offsets .* {ten}-0: 3 offsets from 2 on") as failed:
            load(window).execute(context)
        assert fails_with(DataLossError, failed)
        assert ledger.window(window["window"]).attempts == ()

    def test_where_the_rest_will_do_the_loss_is_a_fact_of_the_attempt_and_the_manifest_stays(
        self,
        ten: str,
        window: XCom,
        context: Context,
        ledger: Ledger,
        in_sparks_place: InSparksPlace,
        run: Run,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """E10, S13"""
        in_sparks_place(COUNT)
        report = load(window, on_data_loss="load_rest").execute(context)
        assert (report["rows"], report["lost"], report["offsets"], report["gaps"]) == (2, 3, 5, 0)
        found = ledger.window(window["window"])
        (attempt,) = found.attempts
        assert attempt.lost == (LogRange(ten, 0, 2, 5),)
        assert found.manifest == window["sha256"]
        assert "is loaded without 3 offsets that Kafka no longer has" in caplog.text
        (row,) = json.loads(run("ledger", "list", "loads", "-o", "json")[1])
        assert (row["offsets"], row["lost"]) == (5, 3)
        assert "lost" in run("ledger", "find", "loads", ten, "0", "3")[1]

    def test_a_window_whose_offsets_are_all_lost_starts_spark(
        self, ten: str, window: XCom, context: Context, delete_before: DeleteBefore, in_sparks_place: InSparksPlace
    ) -> None:
        """S6: an earlier attempt may have left rows in a table, which only Spark can remove."""
        in_sparks_place("raise SystemExit('it has written, and died')")
        with pytest.raises(Exception, match="it has written, and died"):
            load(window, on_data_loss="load_rest").execute(context)
        delete_before(ten, 10)
        in_sparks_place(COUNT + "print('Spark was started')")
        report = load(window, on_data_loss="load_rest").execute(context)
        assert (report["rows"], report["offsets"], report["lost"]) == (0, 5, 5)
        assert report["seconds"] is not None


class TestWhileSparkReads:
    @pytest.fixture
    def vanishing(self, ten: str, resolve: Resolve, broker: Broker, in_sparks_place: InSparksPlace) -> dict[str, Any]:
        """A window of five records, three of which are gone when Spark comes to them."""
        in_sparks_place(DELETE_AND_FAIL.format(servers=broker.bootstrap_servers, topic=ten, offset=5))
        return resolve(ten, at(2), at(7))

    def test_the_failed_load_says_what_vanished(
        self, vanishing: dict[str, Any], ten: str, context: Context, ledger: Ledger, in_sparks_place: InSparksPlace
    ) -> None:
        """S13: nothing shrinks by itself; the next try may load the rest."""
        with pytest.raises(AirflowFailException, match=rf"3 of 5 offsets .* {ten}-0: 3 offsets from 2 on") as failed:
            load(vanishing).execute(context)
        assert fails_with(DataLossError, failed)
        (attempt,) = ledger.window(vanishing["window"]).attempts
        assert attempt.lost == ()
        in_sparks_place(COUNT)
        assert load(vanishing, on_data_loss="load_rest").execute(context)["lost"] == 3

    def test_where_the_rest_will_do_the_failed_try_leaves_the_retry_to_airflow(
        self, vanishing: dict[str, Any], context: Context, caplog: pytest.LogCaptureFixture
    ) -> None:
        """S13: which loads what is left."""
        with pytest.raises(Exception, match="spark-submit ended with status 1") as failed:
            load(vanishing, on_data_loss="load_rest").execute(context)
        assert not isinstance(failed.value, AirflowFailException)
        assert "The next try loads what is left" in caplog.text

    def test_a_load_that_fails_though_all_is_there_fails_as_spark_does(
        self, ten: str, resolve: Resolve, context: Context, ledger: Ledger, in_sparks_place: InSparksPlace
    ) -> None:
        """S21: the next try gets the same manifest, and Airflow is left the retry."""
        window = resolve(ten, at(2), at(7))
        in_sparks_place("raise SystemExit(1)")
        with pytest.raises(Exception, match="spark-submit ended with status 1") as failed:
            load(window).execute(context)
        assert not isinstance(failed.value, AirflowFailException)
        assert status(ledger, ledger.window(window["window"])) is WindowStatus.FAILED
        in_sparks_place(COUNT)
        load(window).execute(context)
        ledger.read()
        assert ledger.window(window["window"]).manifest == window["sha256"]
