"""S6: windows without offsets. Nothing is to be read or written, so their loads don't start Spark."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.operators.commits import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from tests.integration.airflow.conftest import NEVER, Context, InSparksPlace, Publish, Resolve, Run, at, use_connection
from tests.integration.airflow.windows.conftest import DeleteBefore, XCom, load
from tests.integration.airflow.windows.test_tries import died_here


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
        assert (report["output"], report["application_id"], report["seconds"]) == (None, None, None)
        found = ledger.window(empty["window"])
        (attempt,) = found.attempts
        assert found.publication is not None
        assert (found.publication.attempt, attempt.who["task_id"]) == (attempt.number, "t")
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
        assert "0 rows in no file (empty window); the window has no offsets" in caplog.text

    def test_moves_a_group_to_its_end(self, empty: XCom, context: Context) -> None:
        load(empty).execute(context)
        done = KafkaCommitOffsetsOperator(task_id="c", window=empty, group="readers").execute(context)
        assert done["committed"] == 1

    def test_is_published_by_the_next_try_of_a_worker_that_died(
        self, empty: XCom, context: Context, ledger: Ledger
    ) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("airflow_kafka_offsets.pipelines.attempts.publish_each_asked", died_here)
            with pytest.raises(KeyboardInterrupt):
                load(empty).execute(context)
        assert ledger.window(empty["window"]).publication is None
        context["ti"].try_number = 2
        assert load(empty).execute(context)["rows"] == 0
        assert len(ledger.read().windows[empty["window"]].attempts) == 1

    def test_starts_spark_where_a_window_of_its_name_was_rewound(
        self,
        ten: str,
        resolve: Resolve,
        publish: Publish,
        delete_before: DeleteBefore,
        run: Run,
        in_sparks_place: InSparksPlace,
        context: Context,
    ) -> None:
        """A table may have its rows under that name."""
        window = resolve(ten, at(0), at(3))
        publish(window)
        delete_before(ten, 5)
        assert run("ledger", "rewind", "loads", "--to", "2026-11-20T05:59:59Z", "--force")[0] == 0
        again = resolve(ten, at(0), at(3))
        assert (again["window"], again["offsets"]) == (window["window"], 0)
        in_sparks_place(NEVER)
        with pytest.raises(Exception, match="Spark was started"):
            load(again).execute(context)

    def test_asks_nothing_of_kafka(self, empty: XCom, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
        """Which may be down, or have lost the topic."""
        use_connection(monkeypatch, "kafka_default", {"bootstrap.servers": "127.0.0.1:1"})
        assert load(empty).execute(context)["rows"] == 0
