"""A load's tries: what has nothing to do starts nothing, and a window is loaded again when somebody says so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from airflow.models.taskinstance import clear_task_instances
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.definitions.dag import _run_task
from airflow.utils.session import create_session

from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError
from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from tests.integration.airflow.conftest import (
    COUNT,
    NEVER,
    T0,
    Context,
    DagFrom,
    InSparksPlace,
    cleared,
    fails_with,
    use_connection,
)
from tests.integration.airflow.windows.conftest import XCom, load
from tests.integration.airflow.windows.counted import Count, count, pinned, published, window
from tests.integration.ledger.loads import publish_asked

__all__ = ["count", "pinned", "window"]

IN_A_TABLE = {"sink": "delta", "output": "lake.flights", "apart": False}
OTHERS = {"dag_id": "another", "run_id": "r", "task_id": "load", "map_index": -1, "try_number": 1}


def died_here(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def died(window: XCom, context: Context, in_sparks_place: InSparksPlace, ledger: Ledger) -> XCom:
    """A window whose load died once its driver had counted, before it came to publish. Spark must not be started."""
    in_sparks_place(COUNT)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("airflow_kafka_offsets.submission.tries.publish_each", died_here)
        with pytest.raises(KeyboardInterrupt):
            load(window).execute(context)
    assert ledger.window(window["window"]).publication is None
    in_sparks_place(NEVER)
    return window


class TestNothingToDo:
    def test_a_published_window_is_reported_without_spark_and_without_asking_kafka(
        self, loaded: XCom, context: Context, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": "127.0.0.1:1"})
        task = load(loaded)
        task._cached_logger = logging.getLogger("task")
        with caplog.at_level(logging.INFO):
            report = task.execute(context)
        assert (report["rows"], report["read"], report["seconds"]) == (5, 5, None)
        assert f"attempt {report['attempt']} has loaded them, so Spark isn't started" in caplog.text

    def test_so_is_a_task_that_was_cleared_whatever_was_changed_since(self, loaded: XCom, context: Context) -> None:
        """To load it again is a wish of its own."""
        first = load(loaded).execute(context)
        cleared(context)
        again = load(loaded, application_args=["--output", "file:///elsewhere"], allow_gaps=True).execute(context)
        assert again == first

    def test_what_an_earlier_try_has_counted_is_published_without_spark(
        self, died: XCom, context: Context, ledger: Ledger, pinned: Window
    ) -> None:
        context["ti"].try_number = 2
        report = load(died).execute(context)
        counts = published(ledger, pinned)
        assert counts is not None
        assert (report["rows"], report["attempt"]) == (5, counts.attempt)
        assert len(ledger.window(died["window"]).attempts) == 1

    def test_a_result_of_an_application_that_failed_afterwards_is_not_published(
        self, window: XCom, context: Context, in_sparks_place: InSparksPlace, ledger: Ledger
    ) -> None:
        """Who knows what it was to do with the rows then."""
        in_sparks_place(COUNT + "raise SystemExit(3)")
        with pytest.raises(Exception, match="ended with status 3"):
            load(window).execute(context)
        in_sparks_place(NEVER)
        with pytest.raises(Exception, match="Spark was started"):
            load(window).execute(context)
        assert ledger.read().windows[window["window"]].publication is None


class TestReload:
    def test_a_published_window_is_loaded_again_and_the_old_rows_count_until_then(
        self, loaded: XCom, context: Context, ledger: Ledger, in_sparks_place: InSparksPlace
    ) -> None:
        first = load(loaded).execute(context)
        in_sparks_place("raise SystemExit(3)")
        with pytest.raises(Exception, match="ended with status 3"):
            load(loaded, reload=True).execute(context)
        now = ledger.read().windows[loaded["window"]]
        assert now.publication is not None
        assert (now.publication.attempt, now.loaded) == (first["attempt"], None)
        in_sparks_place(COUNT)
        context["ti"].try_number = 2
        report = load(loaded, reload=True).execute(context)
        assert report["attempt"] > first["attempt"]
        assert ledger.read().windows[loaded["window"]].loaded is not None

    def test_once_in_a_run_of_the_task_however_often_that_is_retried(
        self, loaded: XCom, context: Context, ledger: Ledger, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place(COUNT)
        report = load(loaded, reload=True).execute(context)
        in_sparks_place(NEVER)
        context["ti"].try_number = 2
        assert load(loaded, reload=True).execute(context) == report | {"seconds": None, "records_a_second": None}
        in_sparks_place(COUNT)
        cleared(context)
        assert load(loaded, reload=True).execute(context)["attempt"] > report["attempt"]

    def test_a_retry_publishes_what_was_counted_since(
        self, window: XCom, context: Context, ledger: Ledger, in_sparks_place: InSparksPlace
    ) -> None:
        """Also where there was nothing to load again at first."""
        in_sparks_place(COUNT)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("airflow_kafka_offsets.submission.tries.publish_each", died_here)
            with pytest.raises(KeyboardInterrupt):
                load(window, reload=True).execute(context)
        in_sparks_place(NEVER)
        context["ti"].try_number = 2
        assert load(window, reload=True).execute(context)["rows"] == 5

    @pytest.mark.parametrize("wish", ["", " ", "False", "no", None, "None"])
    def test_what_a_template_leaves_empty_is_no_wish(self, loaded: XCom, context: Context, wish: Any) -> None:
        assert load(loaded, reload=wish).execute(context)["rows"] == 5

    @pytest.mark.parametrize("wish", ["true", "True", "1", 1, "yes"])
    def test_a_template_may_say_yes(self, loaded: XCom, context: Context, wish: Any) -> None:
        with pytest.raises(Exception, match="Spark was started"):
            load(loaded, reload=wish).execute(context)

    def test_what_means_nothing_is_refused(self, loaded: XCom, context: Context, ledger: Ledger) -> None:
        before = ledger.read().number
        task = load(loaded)
        task.reload = "perhaps"  # as a template leaves it
        with pytest.raises(AirflowFailException, match="reload must be True or False, not 'perhaps'") as failed:
            task.execute(context)
        assert fails_with(ConfigurationError, failed)
        assert ledger.read().number == before


SAYS = "from tests.integration.airflow.in_sparks_place import attempt, count, fail, note\n"


class TestAnEndWithoutCounts:
    """A pod that vanishes passes for one that ended well."""

    def test_an_application_that_never_writes_has_counted_nothing(
        self, window: XCom, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place("")
        with pytest.raises(Exception, match=r"nothing of window .* was counted\. Does .* call write\(\)"):
            load(window).execute(context)

    def test_a_failure_that_the_application_has_swallowed_is_the_tasks_own(
        self, window: XCom, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place(SAYS + "note()\nfail('LedgerConflictError', 'the output holds 0 of them')")
        with pytest.raises(AirflowFailException, match=r"LedgerConflictError: .* holds 0 of them"):
            load(window).execute(context)

    def test_one_whose_counts_are_half_written_has_counted_nothing(
        self, window: XCom, context: Context, in_sparks_place: InSparksPlace
    ) -> None:
        in_sparks_place(SAYS + "attempt().files.replace(f'{attempt().folder}/0000000a.result.json', b'{')")
        with pytest.raises(Exception, match=r"nothing of window .* was counted"):
            load(window).execute(context)

    def test_what_another_attempt_has_published_meanwhile_is_reported(
        self,
        window: XCom,
        pinned: Window,
        context: Context,
        ledger: Ledger,
        count: Count,
        in_sparks_place: InSparksPlace,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Its driver was refused, as the window was loaded by then."""
        in_sparks_place("raise SystemExit(1)")
        explain, theirs = load.__globals__["KafkaSparkSubmitOperator"]._printed, []

        def meanwhile(task: Any) -> list[str]:
            if not theirs:
                theirs.append(count(pinned, OTHERS))
                publish_asked(theirs[0])
            return list(explain(task))

        monkeypatch.setattr("airflow_kafka_offsets.operators.spark_submit.KafkaSparkSubmitOperator._printed", meanwhile)
        report = load(window).execute(context)
        assert (report["attempt"], report["seconds"]) == (theirs[0].attempt.number, None)

    def test_what_a_later_attempt_has_published_while_this_one_counted_is_reported(
        self,
        window: XCom,
        pinned: Window,
        context: Context,
        ledger: Ledger,
        count: Count,
        in_sparks_place: InSparksPlace,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Its driver ended well, and what it has counted can't be published any more."""
        in_sparks_place(COUNT)
        ended, theirs = KafkaSparkSubmitOperator._ended, []

        def meanwhile(task: Any, *load: Any) -> XCom:
            theirs.append(count(pinned, OTHERS))
            publish_asked(theirs[0])
            return ended(task, *load)

        monkeypatch.setattr(KafkaSparkSubmitOperator, "_ended", meanwhile)
        report = load(window).execute(context)
        assert (report["attempt"], report["seconds"]) == (theirs[0].attempt.number, None)


def test_a_load_whose_window_is_reloaded_while_it_runs_is_retried_and_then_comes_through(
    window: XCom, context: Context, ledger: Ledger, in_sparks_place: InSparksPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sparks_place(COUNT)
    ended = KafkaSparkSubmitOperator._ended

    def meanwhile(task: Any, *load: Any) -> XCom:
        monkeypatch.setattr(KafkaSparkSubmitOperator, "_ended", ended)
        ledger.change(lambda state: load_decisions.reload(state, [window["window"]]))
        return ended(task, *load)

    monkeypatch.setattr(KafkaSparkSubmitOperator, "_ended", meanwhile)
    with pytest.raises(CommitConflictError, match="to be loaded again since"):
        load(window).execute(context)
    context["ti"].try_number = 2
    assert load(window).execute(context)["rows"] == 5


TRIED = """
from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG

from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator

with DAG("tried", schedule="@daily", start_date=datetime(2026, 11, 1, tzinfo=timezone.utc)):
    KafkaSparkSubmitOperator(
        task_id="load",
        window={window!r},
        application_args=["--output", "file:///t"],
        reload="{{{{ dag_run.conf.get('reload', '') }}}}",
        retries=1,
        retry_delay=timedelta(0),
    )
"""


@pytest.mark.filterwarnings("default")  # whole Airflow runs here: its warnings aren't ours to mend
def test_a_run_asks_for_a_reload_and_airflow_tells_a_retry_from_a_task_that_was_cleared(
    loaded: XCom, dag_from: DagFrom, in_sparks_place: InSparksPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, deaths = tmp_path / "starts", []

    def dies_once(*_: object) -> None:
        if not deaths:
            deaths.append(1)
            raise RuntimeError("after the publication, before the task's end")

    in_sparks_place(COUNT + f"open({str(starts)!r}, 'a').write('Spark was started\\n')")
    monkeypatch.setattr("airflow_kafka_offsets.operators.spark_submit.note_outlets", dies_once)
    dag = dag_from("tried", TRIED.format(window=loaded))

    (task,) = dag.test(logical_date=T0, run_conf={"reload": "true"}).get_task_instances()
    assert (task.state, task.try_number) == ("success", 2)
    assert starts.read_text().count("started") == 1
    _run_task(ti=cleared_in_airflow(task), task=dag.task_dict["load"])
    assert starts.read_text().count("started") == 2


def cleared_in_airflow(task: Any) -> Any:
    """Have a person clear a task, and the scheduler its next try begin."""
    with create_session() as session:
        found = session.merge(task)
        clear_task_instances([found], session)
        found.state, found.try_number = "scheduled", found.try_number + 1
    return found
