"""What a load says of itself when it has ended, and which run of a task it belongs to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_offsets.submission.tries import report_line, run_of, who_of

REPORT: dict[str, Any] = {
    "window": "w",
    "attempt": 7,
    "rows": 60,
    "offsets": 60,
    "read": 60,
    "output": "file:/lake",
    "seconds": 6.0,
    "outputs": [{"name": "", "sink": "parquet", "output": "file:/lake", "rows": 60}],
}


@pytest.mark.parametrize(
    ("own", "changed", "said"),
    [
        (7, {}, "read, written and counted in 6.0 s, 10 a second"),
        (None, {"seconds": None}, "attempt 7 has loaded them, so Spark isn't started"),
        (9, {"seconds": None}, "attempt 7 came first, and what attempt 9 wrote doesn't count"),
    ],
    ids=["its own", "nothing to do", "overtaken"],
)
def test_time_is_told_of_what_this_task_has_read(own: int | None, changed: dict[str, Any], said: str) -> None:
    assert report_line(REPORT | changed, own) == f"Window w: 60 rows in file:/lake; {said}"


def test_a_jobs_further_outputs_are_told() -> None:
    further = {"name": "refused", "sink": "parquet", "output": "file:/refused", "rows": 2}
    line = report_line(REPORT | {"outputs": [*REPORT["outputs"], further]}, 7)
    assert line.startswith("Window w: 60 rows in file:/lake, 2 of refused in file:/refused; ")


def ti(**fields: Any) -> Any:
    """The context of a task instance."""
    usual = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1, "max_tries": 2}
    return {"ti": SimpleNamespace(**{**usual, **fields})}


class TestRun:
    def test_a_retry_belongs_to_the_same_run_of_the_task(self) -> None:
        assert run_of(ti()) == run_of(ti(try_number=2)) == "d/r/t/-1/2"

    @pytest.mark.parametrize("changed", [{"max_tries": 4}, {"run_id": "s"}, {"task_id": "u"}, {"map_index": 3}])
    def test_one_that_was_cleared_and_another_task_do_not(self, changed: dict[str, Any]) -> None:
        assert run_of(ti()) != run_of(ti(**changed))

    def test_the_ledger_notes_the_try_too(self) -> None:
        assert who_of(ti(try_number=2)) == {
            "dag_id": "d",
            "run_id": "r",
            "task_id": "t",
            "map_index": -1,
            "try_number": 2,
        }
