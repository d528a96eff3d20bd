"""Records that are gone: before the window, between its snapshots, before the load, and while Spark reads them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import ConfigurationError, DataLossError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_listing import WindowState
from dev.kafka import Broker
from tests.integration.airflow.conftest import (
    RECOUNTS,
    Context,
    InSparksPlace,
    Publish,
    Resolve,
    Run,
    at,
    fails_with,
    use_connection,
)
from tests.integration.airflow.windows.conftest import (
    COUNT,
    DeleteBefore,
    Said,
    XCom,
    evidence,
    load,
    manifest_of,
    ranges,
)
from tests.integration.ledger.loads import windows_of

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
        assert (ranges(window), evidence(window), window["lost"]) == ([(0, 4, 7)], [("log_start", "matched")], 0)
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
    def truncated(self, ten: str, resolve: Resolve, delete_before: DeleteBefore) -> str:
        """The window of the first five seconds is pinned; the log starts at offset 7 by now."""
        resolve(ten, at(0), at(5))
        delete_before(ten, 7)
        return ten

    def test_the_task_fails_with_exact_counts_and_pins_nothing(
        self, truncated: str, resolve: Resolve, ledger: Ledger
    ) -> None:
        """E9, S12"""
        with pytest.raises(AirflowFailException, match=rf"2 offsets between .* {truncated}-0: 2 from 5 on") as failed:
            resolve(truncated, at(5), at(20))
        assert fails_with(DataLossError, failed)
        assert len(windows_of(ledger)) == 1

    def test_the_rest_is_pinned_where_that_will_do_and_the_loss_is_in_the_manifest(
        self, truncated: str, resolve: Resolve, said: Said
    ) -> None:
        """E9, S13: accepted by name, never on its own."""
        window = resolve(truncated, at(5), at(20), on_data_loss="load_rest")
        (only,) = manifest_of(window).ranges
        assert (only.start_offset, only.end_offset, only.lost_offsets) == (7, 10, 2)
        assert (window["offsets"], window["lost"]) == (3, 2)
        assert f"2 offsets of the window are lost: {truncated}-0: 2 from 5 on" in said()
        assert resolve(truncated, at(5), at(20)) == window, "what is pinned stays as it is"

    def test_what_is_lost_is_no_hole_between_windows(
        self, truncated: str, resolve: Resolve, publish: Publish, run: Run
    ) -> None:
        publish(resolve(truncated, at(0), at(5)))
        publish(resolve(truncated, at(5), at(20), on_data_loss="load_rest"))
        code, out, _ = run("ledger", "verify", "loads", "-o", "json")
        assert (code, json.loads(out)[-1]["found"]) == (0, "2 published windows tile, 8 offsets, 2 lost")

    def test_a_window_that_is_lost_as_a_whole_is_an_empty_one(
        self, truncated: str, resolve: Resolve, delete_before: DeleteBefore
    ) -> None:
        """E9, S6"""
        delete_before(truncated, 10)
        window = resolve(truncated, at(5), at(20), on_data_loss="load_rest")
        assert (ranges(window), window["offsets"], window["lost"]) == ([(0, 10, 10)], 0, 5)

    def test_another_word_is_refused(self, ten: str, resolve: Resolve) -> None:
        with pytest.raises(AirflowFailException, match="on_data_loss") as failed:
            resolve(ten, at(0), at(5), on_data_loss="ignore")
        assert fails_with(ConfigurationError, failed)


class TestBetweenPinAndLoad:
    @pytest.fixture
    def window(self, ten: str, resolve: Resolve, delete_before: DeleteBefore) -> XCom:
        """Offsets 2 to 6, of which 2 to 4 are gone."""
        window = resolve(ten, at(2), at(7))
        delete_before(ten, 5)
        return window

    def test_the_loss_is_noted_in_the_ledger_though_nothing_ran(
        self, ten: str, window: XCom, context: Context, ledger: Ledger, run: Run
    ) -> None:
        """E10, S12"""
        with pytest.raises(AirflowFailException, match=rf"3 of 5 offsets .* {ten}-0: 3 offsets from 2 on") as failed:
            load(window).execute(context)
        assert fails_with(DataLossError, failed)
        assert ledger.window_folders.newest(window["window"]).listing().state is WindowState.LOST
        (row,) = json.loads(run("ledger", "list", "loads", "-o", "json")[1])
        assert (row["state"], row["revision"], row["attempts"]) == ("lost", 1, 0)

    def test_where_the_rest_will_do_spark_gets_the_next_revision_and_the_old_one_is_kept(
        self, ten: str, window: XCom, context: Context, ledger: Ledger, in_sparks_place: InSparksPlace, run: Run
    ) -> None:
        """E10, S13"""
        in_sparks_place(COUNT)
        result = load(window, on_data_loss="load_rest").execute(context)
        assert result["rows"] == 2
        kept, loaded = (ledger.pinned(window["window"], revision).manifest.ranges[0] for revision in (1, 2))
        assert (kept.start_offset, kept.end_offset, kept.lost_offsets) == (2, 7, 0)
        assert (loaded.start_offset, loaded.end_offset, loaded.lost_offsets) == (5, 7, 3)
        (row,) = json.loads(run("ledger", "list", "loads", "-o", "json")[1])
        assert (row["state"], row["revision"], row["offsets"], row["lost"]) == ("published", 2, 2, 3)
        assert load(window, on_data_loss="load_rest").execute(context)["published_attempt"] == result["attempt"]
        assert (
            "lost: deleted from the log before revision 2 of the window was pinned"
            in run("ledger", "find", "loads", ten, "0", "3")[1]
        )

    def test_the_rest_is_that_of_a_revision_that_counts(
        self, ten: str, window: XCom, context: Context, ledger: Ledger, in_sparks_place: InSparksPlace
    ) -> None:
        """S13: another task is pinning a newer one, and takes it back a moment later."""
        manifest = ledger.pinned(window["window"]).manifest
        wider = tuple(replace(each, end_offset=each.end_offset + 2) for each in manifest.ranges)
        being_pinned = ledger.window_folders.of(ledger.window_folders.pin_next(replace(manifest, ranges=wider)))
        in_sparks_place(COUNT)
        load(window, on_data_loss="load_rest").execute(context)
        assert ledger.window_folders.take_back(being_pinned, "shares offsets")
        (rest,) = ledger.pinned(window["window"]).manifest.ranges
        assert (rest.start_offset, rest.end_offset, rest.lost_offsets) == (5, 7, 3)

    @pytest.mark.nightly("a driver of its own; spark/test_reruns.py has a published window loaded again")
    def test_a_published_window_stays_published_and_kafka_is_not_asked(
        self,
        ten: str,
        resolve: Resolve,
        context: Context,
        publish: Publish,
        in_sparks_place: InSparksPlace,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """S22: the worker died after Spark had published, and Kafka is down at the retry. Spark counts the output."""
        window = resolve(ten, at(2), at(7))
        publish(window)
        in_sparks_place(RECOUNTS)
        use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": "127.0.0.1:1"})
        result = load(window).execute(context)
        assert result["published_attempt"] == "try-1" != result["attempt"]
        assert result["rows"] == 5


class TestWhileSparkReads:
    @pytest.fixture
    def vanishing(self, ten: str, resolve: Resolve, broker: Broker, in_sparks_place: InSparksPlace) -> dict[str, Any]:
        """A window of five records, three of which are gone when Spark comes to them."""
        in_sparks_place(DELETE_AND_FAIL.format(servers=broker.bootstrap_servers, topic=ten, offset=5))
        return resolve(ten, at(2), at(7))

    def test_the_failed_load_says_what_vanished_and_the_ledger_notes_it(
        self,
        vanishing: dict[str, Any],
        ten: str,
        context: Context,
        ledger: Ledger,
        in_sparks_place: InSparksPlace,
    ) -> None:
        """S13: nothing shrinks by itself; the next try may load the rest."""
        with pytest.raises(AirflowFailException, match=rf"3 of 5 offsets .* {ten}-0: 3 offsets from 2 on") as failed:
            load(vanishing).execute(context)
        assert fails_with(DataLossError, failed)
        folder = ledger.window_folders.newest(vanishing["window"])
        assert (folder.listing().state, folder.revision, len(folder.listing().attempts)) == (WindowState.LOST, 1, 1)
        in_sparks_place(COUNT)
        load(vanishing, on_data_loss="load_rest").execute(context)
        assert ledger.pinned(vanishing["window"]).manifest.lost_offsets == 3

    def test_where_the_rest_will_do_the_failed_try_leaves_the_retry_to_airflow(
        self, vanishing: dict[str, Any], context: Context, ledger: Ledger
    ) -> None:
        """S13: which loads what is left."""
        with pytest.raises(Exception, match="spark-submit ended with status 1") as failed:
            load(vanishing, on_data_loss="load_rest").execute(context)
        assert not isinstance(failed.value, AirflowFailException)
        assert ledger.window_folders.newest(vanishing["window"]).listing().state is WindowState.LOST

    def test_a_load_that_fails_though_all_is_there_fails_as_spark_does(
        self, ten: str, resolve: Resolve, context: Context, ledger: Ledger, in_sparks_place: InSparksPlace
    ) -> None:
        """S21: the next try gets the same manifest, and Airflow is left the retry."""
        window = resolve(ten, at(2), at(7))
        in_sparks_place("raise SystemExit(1)")
        with pytest.raises(Exception, match="spark-submit ended with status 1") as failed:
            load(window).execute(context)
        assert not isinstance(failed.value, AirflowFailException)
        assert ledger.window_folders.newest(window["window"]).listing().state is WindowState.FAILED
        in_sparks_place(COUNT)
        load(window).execute(context)
        assert ledger.pinned(window["window"]).sha256 == window["sha256"]
