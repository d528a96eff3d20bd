"""A load's tries: what an earlier one has counted for the same arguments is published without Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.models.taskinstance import clear_task_instances
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.definitions.dag import _run_task
from airflow.utils.session import create_session

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.pipelines.publisher import counted_attempt, publish, publish_next
from tests.integration.airflow.conftest import RECOUNTS, T0, Context, DagFrom, InSparksPlace
from tests.integration.airflow.windows.conftest import COUNT, XCom, load
from tests.integration.airflow.windows.counted import Count, count, left_of, pinned, published, revised, window

__all__ = ["count", "pinned", "window"]


@pytest.fixture
def publish_now(client: OffsetsClient, ledger: Ledger) -> Callable[[XCom], None]:
    """Publish what a window's only attempt has counted."""

    def ask(window: XCom) -> None:
        pinned = ledger.pinned(window["window"])
        (attempt,) = ledger.window_folders.of(pinned).listing().results
        counted = counted_attempt(ledger, pinned, attempt)
        assert counted is not None
        publish(client, ledger, counted)

    return ask


NEVER = 'raise SystemExit("Spark was started")'

Die = Callable[..., XCom]


class TestARetry:
    """A worker that dies after Spark has ended leaves what the driver has counted."""

    @pytest.fixture
    def die(self, window: XCom, context: Context, in_sparks_place: InSparksPlace, ledger: Ledger) -> Die:
        """Run a try whose driver has counted, and that never came to publish."""

        def run(**arguments: Any) -> XCom:
            in_sparks_place(COUNT)
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr("airflow_kafka_offsets.operators.spark_submit.counted_attempt", died_here)
                with pytest.raises(KeyboardInterrupt):
                    load(window, **arguments).execute(context)
            assert ledger.window_folders.publication(window["window"]) is None
            in_sparks_place(NEVER)
            return window

        return run

    @pytest.fixture
    def died(self, die: Die) -> XCom:
        return die()

    def test_it_publishes_without_spark(
        self, died: XCom, context: Context, ledger: Ledger, caplog: pytest.LogCaptureFixture
    ) -> None:
        task = load(died)
        task._cached_logger = logging.getLogger("task")
        with caplog.at_level(logging.INFO):
            report = task.execute(context)
        assert f"counted window {died['window']}: publishing it now, without running Spark" in caplog.text
        assert (report["rows"], report["attempt"]) == (5, report["published_attempt"])
        assert ledger.window_folders.publication(died["window"]) is not None

    def test_once_it_is_published_the_next_try_reports_it_without_spark(
        self, died: XCom, context: Context, publish_now: Callable[[XCom], None]
    ) -> None:
        """The worker died once more, between the publication and the task's end."""
        publish_now(died)
        report = load(died).execute(context)
        assert (report["rows"], report["attempt"]) == (5, report["published_attempt"])

    def test_a_retry_reports_a_window_that_was_verified_meanwhile(
        self, died: XCom, context: Context, publish_now: Callable[[XCom], None]
    ) -> None:
        publish_now(died)
        KafkaVerifyWindowOperator(task_id="v", window=died).execute(context)
        context["ti"].try_number = 2
        assert load(died).execute(context)["rows"] == 5

    def test_what_it_wrote_to_a_table_over_published_rows_is_published_without_spark(
        self,
        window: XCom,
        pinned: PinnedManifest,
        context: Context,
        in_sparks_place: InSparksPlace,
        ledger: Ledger,
        count: Count,
    ) -> None:
        """Somebody else's attempt was published first; in the table these rows have taken the place of its own."""
        table = {"sink": "delta", "output": "lake.flights", "apart": False}
        publish_next(ledger, count(pinned, started_ms=1, **table))
        in_sparks_place(COUNT.replace("attempt=told", f"started_ms=2, **{table}, attempt=told"))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("airflow_kafka_offsets.operators.spark_submit.counted_attempt", died_here)
            with pytest.raises(KeyboardInterrupt):
                load(window).execute(context)
        in_sparks_place(NEVER)
        report = load(window).execute(context)
        assert report["attempt"] == report["published_attempt"] != "a-1"
        assert [replaced for *_, replaced in published(ledger, pinned)] == [None, 1]

    @pytest.mark.parametrize("verified", [False, True])
    def test_a_task_that_was_cleared_has_the_published_rows_counted_again(
        self, died: XCom, context: Context, publish_now: Callable[[XCom], None], verified: bool
    ) -> None:
        """Whoever clears it may do so as rows were lost."""
        publish_now(died)
        if verified:
            KafkaVerifyWindowOperator(task_id="v", window=died).execute(context)
        context["ti"].try_number, context["ti"].max_tries = 2, 1
        with pytest.raises(Exception, match="Spark was started"):
            load(died).execute(context)

    def test_what_was_asked_otherwise_is_loaded_anew(self, died: XCom, context: Context) -> None:
        """The Dag was changed in between: the rows are in another place."""
        with pytest.raises(Exception, match="Spark was started"):
            load(died, application_args=["--output", "file:///elsewhere"]).execute(context)

    @pytest.mark.parametrize(
        "given",
        [
            pytest.param(lambda file: {"py_files": f"/elsewhere/other.zip,{file}"}, id="py_files"),
            pytest.param(lambda file: {"jars": file}, id="jars"),
            pytest.param(lambda file: {"files": f"file://{file}#rules"}, id="files"),
            pytest.param(lambda file: {"archives": f"{file}#rules"}, id="archives"),
            pytest.param(lambda file: {"properties_file": file}, id="properties_file"),
            pytest.param(lambda file: {"application": file}, id="application"),
            pytest.param(lambda file: {"application_args": ["--rules", file]}, id="application_args"),
            pytest.param(lambda file: {"conf": {"spark.jars": f"file:{file}"}}, id="conf"),
        ],
    )
    def test_a_file_that_was_mended_between_the_tries_is_loaded_with(
        self,
        die: Die,
        context: Context,
        ledger: Ledger,
        tmp_path: Path,
        given: Callable[[str], dict[str, Any]],
    ) -> None:
        """A transform that dropped a column, say: the rows that it wrote aren't what is wanted any more."""
        file = tmp_path / "transform"
        file.write_text("a = 1")
        window = die(**given(str(file)))
        file.write_text("a = 2")
        with pytest.raises(Exception, match="Spark was started"):
            load(window, **given(str(file))).execute(context)
        file.write_text("a = 1")
        assert load(window, **given(str(file))).execute(context)["rows"] == 5

    @pytest.mark.parametrize(
        ("name", "first", "later"),
        [
            ("packages", "org:a:1", "org:a:2"),
            ("env_vars", {"MODE": "a"}, {"MODE": "b"}),
            ("java_class", "org.A", "org.B"),
            ("allow_gaps", True, False),
        ],
    )
    def test_so_is_every_argument_that_decides_on_the_rows(
        self, die: Die, context: Context, name: str, first: Any, later: Any
    ) -> None:
        window = die(**{name: first})
        with pytest.raises(Exception, match="Spark was started"):
            load(window, **{name: later}).execute(context)

    def test_what_spark_is_given_to_run_with_does_not(self, die: Die, context: Context) -> None:
        """More memory makes no other rows."""
        window = die(executor_memory="1g", name="first")
        assert load(window, executor_memory="4g", name="second").execute(context)["rows"] == 5

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


OVERTAKEN = """
import json
import shutil
import sys
from pathlib import Path

told = dict(each.removeprefix("spark.kafkaOffsets.").split("=", 1) for each in sys.argv if "kafkaOffsets." in each)
folder = Path(told["manifest"][7:]).parent
note = folder / "applications" / f"{{told['attempt']}}.json"
note.parent.mkdir()
note.write_text(json.dumps({{"application_id": "app-2", "ui": None}} | {note!r}))
(folder.parent / folder.name.removesuffix(".r2") / "publications").mkdir()
shutil.copy({publication!r}, folder.parent / folder.name.removesuffix(".r2") / "publications" / "00000001.json")
"""
"""In Spark's place: a driver that ends without counts, while somebody publishes the revision before its own."""


SWALLOWS = """
failed = folder / "failures" / note.name
failed.parent.mkdir(exist_ok=True)
failed.write_text('{"format": 1, "error": "LedgerConflictError", "message": "the output holds 0 of them"}')
"""
"""What such a driver leaves that finds rows lost, and whose application catches that."""


class TestAnEndWithoutCounts:
    """A pod that vanishes passes for one that ended well."""

    @pytest.mark.parametrize(
        "note",
        [{"writes": True}, {}, {"writes": False}],
        ids=["it wrote", "it may have written", "it failed before it wrote"],
    )
    def test_an_older_publication_leaves_it_unended_as_its_rows_may_be_replaced_in_a_table(
        self, note: dict[str, bool], overtaken: Callable[[dict[str, bool]], dict[str, Any]]
    ) -> None:
        """``read_published`` refuses the window until the newer revision is published."""
        with pytest.raises(Exception, match=r"nothing of window .* was counted"):
            overtaken(note)

    def test_it_has_ended_well_where_it_only_looked_at_what_counts(
        self, overtaken: Callable[[dict[str, bool]], dict[str, Any]]
    ) -> None:
        report = overtaken({"writes": False, "recounted": True})
        assert (report["published_attempt"], report["revision"], report["rows"]) == ("a-1", 1, 5)

    def test_a_failure_that_the_application_has_swallowed_is_the_tasks_own(
        self, loaded: dict[str, Any], context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        """Whoever clears the load of a published window wants to know whether its rows are there."""
        in_sparks_place(RECOUNTS + SWALLOWS)
        with pytest.raises(AirflowFailException, match=r"LedgerConflictError: .* holds 0 of them"):
            load(loaded).execute(context)

    def test_an_application_that_never_writes_has_counted_nothing_again(
        self, loaded: dict[str, Any], context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place("")
        with pytest.raises(Exception, match=r"nothing of window .* was counted\. Does .* call write\(\)"):
            load(loaded).execute(context)

    @pytest.fixture
    def overtaken(
        self,
        window: XCom,
        pinned: PinnedManifest,
        ledger: Ledger,
        count: Count,
        context: Context,
        in_sparks_place: InSparksPlace,
        tmp_path: Path,
    ) -> Callable[[dict[str, bool]], dict[str, Any]]:
        """Load what retention left of a window, while the whole of it is published."""

        def run(note: dict[str, bool]) -> dict[str, Any]:
            whole = count(pinned, "a-1", sink="delta", apart=False, output="lake.flights")
            publication = tmp_path / "publication"
            publication.write_bytes(whole.publication(1, None).to_bytes())
            in_sparks_place(OVERTAKEN.format(note=note, publication=str(publication)))
            left = left_of(ledger, pinned)
            return load(window | {"revision": left.manifest.revision, "sha256": left.sha256}).execute(context)

        return run


TRIED = """
from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator

with DAG("tried", schedule="@daily", start_date=datetime(2026, 11, 1, tzinfo=timezone.utc)):
    KafkaSparkSubmitOperator(task_id="load", window={window!r}, retries=1, retry_delay=timedelta(0))
"""


@pytest.mark.filterwarnings("default")  # whole Airflow runs here: its warnings aren't ours to mend
def test_airflow_tells_a_retry_from_a_task_that_was_cleared(
    window: XCom, dag_from: DagFrom, in_sparks_place: InSparksPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, outlets = tmp_path / "starts", iter([True])

    def dies_once(*_: object) -> None:
        if next(outlets, False):
            raise RuntimeError("after the publication, before the task's end")

    in_sparks_place(COUNT + f"\nopen({str(starts)!r}, 'a').write('Spark was started\\n')")
    monkeypatch.setattr("airflow_kafka_offsets.operators.spark_submit.note_outlets", dies_once)
    dag = dag_from("tried", TRIED.format(window=window))

    (task,) = dag.test(logical_date=T0).get_task_instances()
    assert (task.state, task.try_number) == ("success", 2)
    assert starts.read_text().count("started") == 1
    _run_task(ti=cleared(task), task=dag.task_dict["load"])
    assert starts.read_text().count("started") == 2


def cleared(task: Any) -> Any:
    """Have a person clear a task, and the scheduler its next try begin."""
    with create_session() as session:
        found = session.merge(task)
        clear_task_instances([found], session)
        found.state, found.try_number = "scheduled", found.try_number + 1
    return found
