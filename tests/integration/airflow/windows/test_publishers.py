"""Publishers beside the load: verify for another submitter, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.errors import CommitConflictError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.verification import verify
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from tests.integration.airflow.conftest import Context, Run
from tests.integration.airflow.windows.conftest import XCom
from tests.integration.airflow.windows.counted import Count, count, pinned, published, window
from tests.integration.ledger.loads import begin, publish_asked, reload
from tests.integration.ledger.results import result_of

__all__ = ["count", "pinned", "window"]
TABLE: dict[str, Any] = {"sink": "delta", "apart": False, "output": "lake.flights"}


def verified(window: XCom, context: Context, **arguments: Any) -> XCom:
    return KafkaVerifyWindowOperator(task_id="v", window=window, **arguments).execute(context)


def handed_over(ledger: Ledger, window: Window, **fields: Any) -> RunResult:
    """What a client of Spark Connect has counted: it reaches no ledger, and can't ask Kafka where its server reads."""
    attempt = begin(ledger, window)
    return replace(result_of(ledger, window, attempt, **fields), application_id=None, source=None)


def told(result: RunResult) -> Any:
    """A result as XCom has it."""
    return json.loads(json.dumps(result.to_json()))


class TestAnotherSubmitter:
    def test_verify_publishes_what_its_driver_has_counted(
        self, window: XCom, pinned: Window, count: Count, context: Context, ledger: Ledger
    ) -> None:
        counted = count(pinned)
        report = verified(window, context)
        assert (report["verdict"], report["written"]) == ("read = written = log", 5)
        found = published(ledger, pinned)
        assert found is not None
        assert (found.attempt, found.run) == (counted.attempt.number, counted.result.run)
        assert found.verdict == {"verdict": "read = written = log"}

    def test_verified_again_it_says_the_same_and_records_nothing(
        self, window: XCom, pinned: Window, count: Count, context: Context, ledger: Ledger
    ) -> None:
        count(pinned)
        report = verified(window, context)
        number = ledger.read().number
        assert verified(window, context) == report
        assert ledger.read().number == number

    @pytest.mark.parametrize("left", [b"file:///old/attempt/a.parquet\n", None], ids=["outdated", "missing"])
    def test_verify_writes_the_list_of_files_that_a_publisher_left_as_it_was(
        self, window: XCom, pinned: Window, count: Count, context: Context, ledger: Ledger, left: bytes | None
    ) -> None:
        """It died once it had published. Once verified, a list is right."""
        publish_asked(count(pinned, files=("b.parquet",)))
        name = f"files/window={pinned.name}/files.txt"
        right = ledger.files.read(name)
        assert right is not None
        assert right.endswith(b"/b.parquet\n")
        if left is None:
            (ledger.folder / name).fs.rm((ledger.folder / name).path)
        else:
            ledger.files.replace(name, left)
        verified(window, context)
        assert ledger.files.read(name) == right

    def test_verify_takes_over_what_a_driver_hands_over(
        self, window: XCom, pinned: Window, context: Context, ledger: Ledger
    ) -> None:
        result = told(handed_over(ledger, pinned))
        report = verified(window, context, result=result)
        assert report["verdict"] == "read = written = log"
        found = published(ledger, pinned)
        assert found is not None
        kept = ledger.published_result(pinned.name, found)
        assert kept.source is not None
        assert kept.source.cluster_id == ledger.state.cluster_id
        assert verified(window, context, result=result)["verdict"] == report["verdict"]
        assert [each.found for each in verify(ledger) if not each.holds] == []

    def test_verify_refuses_what_is_handed_over_of_an_attempt_whose_rows_another_one_may_have_replaced(
        self, window: XCom, pinned: Window, context: Context, ledger: Ledger
    ) -> None:
        """A client of Spark Connect that was paused, and another try that began meanwhile."""
        late, newer = (handed_over(ledger, pinned, **TABLE) for _ in range(2))
        with pytest.raises(CommitConflictError, match="began later"):
            verified(window, context, result=told(late))
        assert verified(window, context, result=told(newer))["attempt"] == newer.attempt
        assert verified(window, context, result=told(late))["attempt"] == newer.attempt, "what counts is verified"

    def test_what_nobody_has_loaded_is_not_published(self, window: XCom, context: Context) -> None:
        with pytest.raises(AirflowFailException, match="never published"):
            verified(window, context)

    def test_what_is_to_be_loaded_again_is_not_verified_before(
        self, window: XCom, pinned: Window, context: Context, ledger: Ledger, count: Count
    ) -> None:
        publish_asked(count(pinned))
        reload(ledger, pinned)
        with pytest.raises(AirflowFailException, match="is to be loaded again: run its load first"):
            verified(window, context)
        again = count(pinned)
        assert verified(window, context)["attempt"] == again.attempt.number


class TestTheCommand:
    def test_it_publishes_what_was_counted_and_shows_it(
        self, window: XCom, pinned: Window, count: Count, run: Run
    ) -> None:
        counted = count(pinned)
        code, out, _ = run("ledger", "publish", "loads", window["window"], "-o", "json")
        (row,) = json.loads(out)
        assert code == 0
        assert (row["published"], row["rows"], row["verdict"]) == (counted.attempt.number, 5, "read = written = log")

    def test_it_takes_a_result_from_a_file(
        self, window: XCom, pinned: Window, tmp_path: Path, run: Run, ledger: Ledger
    ) -> None:
        handed = tmp_path / "result.json"
        result = handed_over(ledger, pinned)
        handed.write_text(json.dumps(result.to_json()))
        assert run("ledger", "publish", "loads", window["window"], "--result", str(handed))[0] == 0
        found = published(ledger, pinned)
        assert found is not None
        assert found.attempt == result.attempt
