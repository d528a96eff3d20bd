"""S6: windows without offsets. Nothing is to be read or written, so their loads don't start Spark."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient

from airflow_kafka_offsets.errors import TopicChangedError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.operators.commit_offsets import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from tests.integration.airflow.conftest import Context, InSparksPlace, Resolve, Run, at, fails_with, recreate
from tests.integration.airflow.windows.conftest import COUNT, DeleteBefore, XCom, load
from tests.integration.airflow.windows.test_tries import NEVER, died_here


@pytest.fixture
def empty(ten: str, resolve: Resolve, in_sparks_place: InSparksPlace) -> XCom:
    """A window after the last record, beside one with rows. Spark must not be started."""
    in_sparks_place(NEVER)
    window = resolve(ten, at(20), at(30))
    assert window["offsets"] == 0
    return window


class TestAWindowThatNeverHadOffsets:
    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param({"application_args": ["--output", "file:///t", "--sink", "delta"]}, id="ready-made load"),
            pytest.param({"application": "job.py"}, id="own job"),
        ],
    )
    def test_is_published_and_proved_without_spark(
        self, empty: XCom, context: Context, ledger: Ledger, run: Run, arguments: dict[str, Any]
    ) -> None:
        """S6."""
        report = load(empty, **arguments).execute(context)
        assert (report["rows"], report["offsets"], report["read"], report["written"]) == (0, 0, 0, 0)
        assert (report["output"], report["application_id"], report["seconds"]) == (None, None, 0.0)
        folder = ledger.window_folders.newest(empty["window"])
        assert folder.listing().state is WindowState.PUBLISHED
        assert folder.attempt(report["attempt"])["airflow"]["task_id"] == "t"
        verdict = KafkaVerifyWindowOperator(task_id="v", window=empty).execute(context)["verdict"]
        assert verdict == "read = written = log"
        (row,) = json.loads(run("ledger", "list", "loads", "-o", "json")[1])
        assert (row["state"], row["attempts"]) == ("verified", 1)
        assert run("ledger", "verify", "loads")[0] == 0

    def test_tells_the_log_that_it_has_no_offsets(
        self, empty: XCom, context: Context, caplog: pytest.LogCaptureFixture
    ) -> None:
        task = load(empty)
        task._cached_logger = logging.getLogger("task")
        with caplog.at_level(logging.INFO):
            task.execute(context)
        assert f"Window {empty['window']} has no offsets: publishing it without Spark" in caplog.text
        assert "0 rows in no file (empty window); the window has no offsets" in caplog.text

    def test_moves_a_group_to_its_end(self, empty: XCom, context: Context) -> None:
        load(empty).execute(context)
        done = KafkaCommitOffsetsOperator(task_id="c", window=empty, group="readers").execute(context)
        assert done["committed"] == 1

    def test_keeps_its_publication_when_the_task_is_cleared_or_another_run_loads_it(
        self, empty: XCom, context: Context, ledger: Ledger
    ) -> None:
        first = load(empty).execute(context)
        for run_id in (context["ti"].run_id, "another"):
            context["ti"].run_id, context["ti"].max_tries = run_id, 1
            again = load(empty).execute(context)
            assert (again["attempt"], again["published_attempt"]) == (first["attempt"],) * 2
        assert len(ledger.window_folders.newest(empty["window"]).listing().attempts) == 1

    def test_is_published_by_the_next_try_of_a_worker_that_died(
        self, empty: XCom, context: Context, ledger: Ledger
    ) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("airflow_kafka_offsets.operators.spark_submit.counted_attempt", died_here)
            with pytest.raises(KeyboardInterrupt):
                load(empty).execute(context)
        assert ledger.window_folders.publication(empty["window"]) is None
        context["ti"].try_number = 2
        assert load(empty).execute(context)["rows"] == 0
        assert len(ledger.window_folders.newest(empty["window"]).listing().attempts) == 1

    def test_is_refused_if_its_topic_was_made_anew(
        self, ten: str, empty: XCom, context: Context, admin: KafkaAdminClient
    ) -> None:
        recreate(admin, ten)
        with pytest.raises(AirflowFailException) as failed:
            load(empty).execute(context)
        assert fails_with(TopicChangedError, failed)


class TestAWindowThatHasLostItsOffsets:
    """An earlier attempt may have left rows in a table, which only Spark can remove."""

    def test_starts_spark(
        self, ten: str, resolve: Resolve, context: Context, delete_before: DeleteBefore, in_sparks_place: InSparksPlace
    ) -> None:
        window = resolve(ten, at(2), at(7))
        in_sparks_place("raise SystemExit('it has written, and died')")
        with pytest.raises(Exception, match="it has written, and died"):
            load(window).execute(context)
        delete_before(ten, 10)
        in_sparks_place(NEVER)
        with pytest.raises(Exception, match="Spark was started"):
            load(window, on_data_loss="load_rest").execute(context)
        in_sparks_place(COUNT)
        report = load(window, on_data_loss="load_rest").execute(context)
        assert (report["rows"], report["offsets"], report["lost"]) == (0, 0, 5)
