"""Publishers beside the load: verify for another submitter, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    LedgerConflictError,
    UnprovenError,
)
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.run_result import RunResult, Tally
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.pipelines.publisher import publish_next
from tests.integration.airflow.conftest import (
    Context,
    Run,
    fails_with,
)
from tests.integration.airflow.windows.conftest import XCom
from tests.integration.airflow.windows.counted import Count, count, left_of, pinned, published, revised, window
from tests.unit.offsets.proof.results import run_result, tallies

__all__ = ["count", "pinned", "window"]


class TestAnotherSubmitter:
    def test_verify_publishes_what_its_driver_has_counted(
        self, window: XCom, pinned: PinnedManifest, count: Count, context: Context, ledger: Ledger
    ) -> None:
        count(pinned)
        report = KafkaVerifyWindowOperator(task_id="v", window=window).execute(context)
        assert (report["verdict"], report["written"]) == ("read = written = log", 5)
        assert published(ledger, pinned) == [(1, 1, "a-1", None)]

    def test_verify_takes_over_what_a_driver_hands_over(
        self, window: XCom, pinned: PinnedManifest, context: Context, ledger: Ledger
    ) -> None:
        """A client of Spark Connect reaches no ledger, and can't ask Kafka where its server reads."""
        handed = run_result(pinned.manifest, tallies(pinned.manifest), application_id=None, source=None)
        told = json.loads(json.dumps(handed.to_json()))
        report = KafkaVerifyWindowOperator(task_id="v", window=window, result=told).execute(context)
        assert report["verdict"] == "read = written = log"
        published = ledger.window_folders.of(pinned).publication()
        assert published is not None
        result = ledger.window_folders.of(pinned).published_result(published)
        assert result.source is not None
        assert result.source.cluster_id == pinned.manifest.cluster_id
        again = KafkaVerifyWindowOperator(task_id="v", window=window, result=told).execute(context)
        assert again["verdict"] == report["verdict"]
        assert [each.found for each in verify(ledger) if not each.holds] == []

    def test_verify_publishes_what_is_handed_over_though_another_attempt_was_published_meanwhile(
        self, window: XCom, pinned: PinnedManifest, context: Context, ledger: Ledger, count: Count
    ) -> None:
        """A client of Spark Connect notes nothing when it begins; in a table its rows have replaced the others'."""
        table = {"sink": "delta", "apart": False, "output": "lake.flights"}
        publish_next(ledger, count(pinned, **table, started_ms=1_000))
        KafkaVerifyWindowOperator(task_id="v", window=window).execute(context)
        handed = run_result(pinned.manifest, tallies(pinned.manifest), attempt="c-1", source=None, **table)
        told = json.loads(json.dumps(replace(handed, started_ms=2_000).to_json()))
        report = KafkaVerifyWindowOperator(task_id="v", window=window, result=told).execute(context)
        assert report["attempt"] == "c-1"
        assert published(ledger, pinned) == [(1, 1, "a-1", None), (2, 1, "c-1", 1)]
        assert [each.found for each in verify(ledger) if not each.holds] == []

    def test_verify_refuses_what_is_handed_over_unproved_though_another_attempt_counts(
        self, window: XCom, pinned: PinnedManifest, context: Context, ledger: Ledger, count: Count
    ) -> None:
        publish_next(ledger, count(pinned))
        told = run_result(pinned.manifest, [], attempt="c-1", source=None).to_json()
        with pytest.raises(AirflowFailException, match="is not published: ") as failed:
            KafkaVerifyWindowOperator(task_id="v", window=window, result=told).execute(context)
        assert fails_with(UnprovenError, failed)

    def test_verify_says_what_its_result_has_to_be(self, window: XCom, context: Context) -> None:
        with pytest.raises(AirflowFailException, match=r"result= takes what PinnedWindow\.write") as failed:
            KafkaVerifyWindowOperator(task_id="v", window=window, result={"rows": 5}).execute(context)
        assert fails_with(ConfigurationError, failed)

    def test_verify_takes_over_nothing_of_another_manifest(
        self, window: XCom, pinned: PinnedManifest, context: Context
    ) -> None:
        told = run_result("0" * 64, tallies(pinned.manifest)).to_json()
        with pytest.raises(AirflowFailException, match="belongs to another manifest") as failed:
            KafkaVerifyWindowOperator(task_id="v", window=window, result=told).execute(context)
        assert fails_with(LedgerConflictError, failed)

    def test_what_nobody_has_loaded_is_not_published(self, window: XCom, context: Context) -> None:
        with pytest.raises(AirflowFailException, match="never published"):
            KafkaVerifyWindowOperator(task_id="v", window=window).execute(context)


class TestTheCommand:
    def test_it_publishes_what_was_counted_and_shows_it(
        self, window: XCom, pinned: PinnedManifest, count: Count, run: Run
    ) -> None:
        count(pinned)
        code, out, _ = run("ledger", "publish", "loads", window["window"], "-o", "json")
        (row,) = json.loads(out)
        assert code == 0
        assert (row["published"], row["rows"], row["verdict"]) == ("a-1", 5, "read = written = log")

    def test_it_takes_a_result_from_a_file(
        self, window: XCom, pinned: PinnedManifest, tmp_path: Path, run: Run, ledger: Ledger
    ) -> None:
        handed = tmp_path / "result.json"
        result: RunResult = run_result(pinned.manifest, tallies(pinned.manifest), application_id=None, source=None)
        handed.write_text(json.dumps(result.to_json()))
        assert run("ledger", "publish", "loads", window["window"], "--result", str(handed))[0] == 0
        assert published(ledger, pinned) == [(1, 1, "a-1", None)]

    def test_it_finds_a_named_attempt_behind_a_revision_that_a_crash_left_without_a_manifest(
        self, window: XCom, pinned: PinnedManifest, count: Count, run: Run
    ) -> None:
        count(pinned)
        folder = Path(pinned.uri.removeprefix("file://")).parent
        folder.with_name(f"{folder.name}.r2").mkdir()
        code, _, err = run("ledger", "publish", "loads", window["window"], "--attempt", "a-9")
        assert (code, "Attempts with a result: a-1" in err) == (2, True)
        assert run("ledger", "publish", "loads", window["window"], "--attempt", "a-1")[0] == 0

    def test_it_names_the_file_that_is_no_result(
        self, window: XCom, pinned: PinnedManifest, tmp_path: Path, run: Run
    ) -> None:
        (tmp_path / "result.json").write_text('{"rows": 5}')
        code, _, err = run("ledger", "publish", "loads", window["window"], "--result", str(tmp_path / "result.json"))
        assert code == 2
        assert "result.json takes what PinnedWindow.write(...).to_json() returned" in err

    def test_it_names_the_attempts_of_which_none_is_proved(
        self, window: XCom, pinned: PinnedManifest, count: Count, run: Run
    ) -> None:
        count(pinned, read=Tally())
        code, _, err = run("ledger", "publish", "loads", window["window"])
        assert code == 1
        assert f"None of the attempts at window {window['window']} that have counted (a-1) is proved and would" in err

    def test_what_was_counted_before_retention_left_only_a_part_is_published(
        self, window: XCom, pinned: PinnedManifest, count: Count, run: Run, ledger: Ledger
    ) -> None:
        """S12: a retry with ``load_rest`` has pinned what was left; the rows of the whole window are there."""
        count(pinned)
        left_of(ledger, pinned)
        code, out, _ = run("ledger", "publish", "loads", window["window"], "-o", "json")
        (row,) = json.loads(out)
        assert (code, row["revision"], row["published"], row["rows"]) == (0, 1, "a-1", 5)

    def test_a_revision_that_is_not_settled_hides_nothing(
        self, window: XCom, pinned: PinnedManifest, count: Count, run: Run, ledger: Ledger
    ) -> None:
        """Another task is pinning it, and may take it back."""
        count(pinned)
        end = ledger.snapshots.read(pinned.manifest.end_snapshot)
        other = ledger.snapshots.append([replace(end, number=None, as_of=AsOf(AsOfKind.LATEST))])[0]
        assert other.number is not None
        ledger.window_folders.pin_next(replace(pinned.manifest, end_snapshot=other.number))
        assert run("ledger", "publish", "loads", window["window"])[0] == 0
        assert published(ledger, pinned) == [(1, 1, "a-1", None)]

    def test_what_was_counted_for_another_revision_is_named(
        self, window: XCom, pinned: PinnedManifest, count: Count, run: Run, ledger: Ledger
    ) -> None:
        count(pinned)
        revised(ledger, pinned)
        code, _, err = run("ledger", "publish", "loads", window["window"])
        assert code == 1
        assert "have counted (a-1) is proved and would count for revision 2. Load it again" in err

    def test_a_result_is_of_the_revision_whose_manifest_was_read(
        self, window: XCom, pinned: PinnedManifest, tmp_path: Path, run: Run, ledger: Ledger
    ) -> None:
        left_of(ledger, pinned)
        handed = tmp_path / "result.json"
        handed.write_text(json.dumps(run_result(pinned.manifest, tallies(pinned.manifest), source=None).to_json()))
        assert run("ledger", "publish", "loads", window["window"], "--result", str(handed))[0] == 0
        assert published(ledger, pinned) == [(1, 1, "a-1", None)]
        handed.write_text(json.dumps(run_result("0" * 64, tallies(pinned.manifest)).to_json()))
        code, _, err = run("ledger", "publish", "loads", window["window"], "--result", str(handed))
        assert (code, "belongs to another manifest" in err) == (1, True)

    def test_it_says_what_is_missing(self, window: XCom, pinned: PinnedManifest, run: Run) -> None:
        code, _, err = run("ledger", "publish", "loads", window["window"])
        assert code == 1
        assert f"Nothing has loaded window {window['window']} yet: no attempt has counted it." in err
        assert "--attempt" not in err, "there is none to name"
        code, _, err = run("ledger", "publish", "loads", window["window"], "--attempt", "a-9")
        assert code == 2
        assert "Attempt a-9 at window" in err
        assert "has no result" in err
        code, _, err = run("ledger", "publish", "loads", window["window"], "--result", "/nowhere.json")
        assert code == 2
        assert "can't be read as JSON" in err
