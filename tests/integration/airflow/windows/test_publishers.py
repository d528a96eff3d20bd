"""Publishers: a task's next try, verify for another submitter, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    LedgerConflictError,
)
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.proof.audit import RunResult
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.pipelines.publisher import counted_attempt, publish
from tests.integration.airflow.conftest import (
    Context,
    InSparksPlace,
    Run,
    fails_with,
)
from tests.integration.airflow.windows.conftest import COUNT, XCom, load
from tests.integration.airflow.windows.counted import Count, count, left_of, pinned, published, revised, window
from tests.unit.offsets.proof.results import run_result, tallies

__all__ = ["count", "pinned", "window"]
NEVER = 'raise SystemExit("Spark was started")'


@pytest.fixture
def publish_now(client: OffsetsClient, ledger: Ledger) -> Callable[[XCom], None]:
    """Publish what a window's only attempt has counted."""

    def ask(window: XCom) -> None:
        pinned = ledger.pinned(window["window"])
        (attempt,) = ledger.folder_of(pinned).listing().results
        counted = counted_attempt(ledger, pinned, attempt)
        assert counted is not None
        publish(client, ledger, counted)

    return ask


class TestARetry:
    """A worker that dies after Spark has ended leaves what the driver has counted."""

    @pytest.fixture
    def died(self, window: XCom, context: Context, in_sparks_place: InSparksPlace, ledger: Ledger) -> XCom:
        """A try whose driver has counted, and that never came to publish."""
        in_sparks_place(COUNT)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("airflow_kafka_offsets.operators.spark_submit.counted_attempt", died_here)
            with pytest.raises(KeyboardInterrupt):
                load(window).execute(context)
        assert ledger.window_folders.publication(window["window"]) is None
        in_sparks_place(NEVER)
        return window

    def test_it_publishes_without_spark(self, died: XCom, context: Context, ledger: Ledger) -> None:
        report = load(died).execute(context)
        assert (report["rows"], report["attempt"]) == (5, report["published_attempt"])
        assert ledger.window_folders.publication(died["window"]) is not None

    def test_once_it_is_published_the_next_try_reports_it_without_spark(
        self, died: XCom, context: Context, publish_now: Callable[[XCom], None]
    ) -> None:
        """The worker died once more, between the publication and the task's end."""
        publish_now(died)
        report = load(died).execute(context)
        assert (report["rows"], report["attempt"]) == (5, report["published_attempt"])

    def test_a_verified_window_is_counted_again(
        self, died: XCom, context: Context, publish_now: Callable[[XCom], None], in_sparks_place: InSparksPlace
    ) -> None:
        publish_now(died)
        KafkaVerifyWindowOperator(task_id="v", window=died).execute(context)
        with pytest.raises(Exception, match="Spark was started"):
            load(died).execute(context)

    def test_what_was_asked_otherwise_is_loaded_anew(self, died: XCom, context: Context) -> None:
        """The Dag was changed in between: the rows are in another place."""
        with pytest.raises(Exception, match="Spark was started"):
            load(died, application_args=["--output", "file:///elsewhere"]).execute(context)

    def test_another_tasks_result_is_not_its_own(self, died: XCom, context: Context) -> None:
        context["ti"].task_id = "another"
        with pytest.raises(Exception, match="Spark was started"):
            load(died).execute(context)

    def test_what_was_loaded_before_the_window_was_resolved_anew_is_not_its_load(
        self, died: XCom, context: Context, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        newer = revised(ledger, pinned)
        resolved = died | {"revision": newer.manifest.revision, "sha256": newer.sha256}
        with pytest.raises(Exception, match="Spark was started"):
            load(resolved).execute(context)
        assert published(ledger, pinned) == []

    def test_the_whole_is_published_where_a_later_try_was_to_load_what_is_left(
        self, died: XCom, context: Context, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        left = left_of(ledger, pinned)
        report = load(died | {"revision": left.manifest.revision, "sha256": left.sha256}).execute(context)
        assert (report["rows"], published(ledger, pinned)[0][1]) == (5, 1)

    def test_a_revision_that_a_crash_left_without_a_manifest_is_passed_over(
        self, died: XCom, context: Context, ledger: Ledger, pinned: PinnedManifest
    ) -> None:
        """Found by the chaos run: a worker died while it created the manifest of the next revision."""
        folder = Path(pinned.uri.removeprefix("file://")).parent
        folder.with_name(f"{folder.name}.r2").mkdir()
        assert load(died).execute(context)["rows"] == 5

    def test_a_result_of_an_application_that_failed_afterwards_is_not_published(
        self, window: XCom, context: Context, in_sparks_place: InSparksPlace, ledger: Ledger
    ) -> None:
        in_sparks_place(COUNT + "\nraise SystemExit(3)")
        with pytest.raises(Exception, match="ended with status 3"):
            load(window).execute(context)
        in_sparks_place(NEVER)
        with pytest.raises(Exception, match="Spark was started"):
            load(window).execute(context)
        assert ledger.window_folders.publication(window["window"]) is None


def died_here(*_: object) -> None:
    raise KeyboardInterrupt


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
        _, result = ledger.folder_of(pinned).published_result()
        assert result.source is not None
        assert result.source.cluster_id == pinned.manifest.cluster_id
        again = KafkaVerifyWindowOperator(task_id="v", window=window, result=told).execute(context)
        assert again["verdict"] == report["verdict"]
        assert [each.found for each in verify(ledger) if not each.holds] == []

    def test_verify_says_what_its_result_has_to_be(self, window: XCom, context: Context) -> None:
        with pytest.raises(AirflowFailException, match=r"result= takes what PinnedWindow\.write") as failed:
            KafkaVerifyWindowOperator(task_id="v", window=window, result={"rows": 5}).execute(context)
        assert fails_with(ConfigurationError, failed)

    def test_verify_takes_over_nothing_of_another_manifest(
        self, window: XCom, pinned: PinnedManifest, context: Context
    ) -> None:
        told = run_result("0" * 64, tallies(pinned.manifest)).to_json()
        with pytest.raises(AirflowFailException, match="is of another manifest") as failed:
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

    def test_it_says_what_is_missing(self, window: XCom, pinned: PinnedManifest, run: Run) -> None:
        code, _, err = run("ledger", "publish", "loads", window["window"])
        assert code == 1
        assert "no attempt has counted what proves it" in err
        code, _, err = run("ledger", "publish", "loads", window["window"], "--attempt", "a-9")
        assert code == 2
        assert "Attempt a-9 has counted nothing" in err
        code, _, err = run("ledger", "publish", "loads", window["window"], "--result", "/nowhere.json")
        assert code == 2
        assert "can't be read as JSON" in err
