"""The audit of derived rows: an output of more, fewer or other records than the window's never passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.run_result import OutputRows, RunResult
from tests.unit.offsets.proof.test_audit import WHOLE, manifest, result

MANIFEST = manifest()
RECORDS = result(MANIFEST, WHOLE, WHOLE, unread=None)
"""What was counted of the window, separately from the job."""


def output(name: str = "", made: int = 3, rows: int = 3) -> OutputRows:
    return OutputRows(name, f"file:/{name or 'out'}", "parquet", apart=True, rows=rows, made=made)


def derived(*outputs: OutputRows, **fields: Any) -> RunResult:
    return replace(RECORDS, outputs=outputs, **fields)


class TestVerdict:
    def test_what_was_made_of_each_record_once_is_proved_however_many_rows_it_is(self) -> None:
        verdict = judge(MANIFEST, derived(output(), output("dead", made=0, rows=0)))
        assert verdict.proved
        assert str(verdict) == "read = log (3 rows written by your job, 0 to dead)"

    def test_what_was_made_of_fewer_records_is_not(self) -> None:
        """S25. The records that transforms got are held against the window, as an output of records is."""
        some = result(MANIFEST, WHOLE[:9], WHOLE[:9])
        assert not judge(MANIFEST, replace(some, outputs=(output(),))).proved

    @pytest.mark.parametrize(("rows", "may_pass"), [(2, True), (4, False)])
    def test_an_output_that_does_not_hold_what_was_made_is_not(self, rows: int, may_pass: bool) -> None:
        verdict = judge(MANIFEST, derived(output(), output("dead", rows=rows)))
        assert f"the job made 3 rows for file:/dead, but it holds {rows}" in str(verdict)
        assert (verdict.proved, verdict.may_pass) == (False, may_pass)

    def test_of_a_log_with_gaps_is_held_against_its_records(self) -> None:
        some = result(MANIFEST, WHOLE[:7], WHOLE[:7], allow_gaps=True)
        good = replace(some, outputs=(output(),))
        assert str(judge(MANIFEST, good)) == "read = log (3 rows written by your job), 3 offsets without a record"

    def test_gaps_that_nobody_allowed_are_not(self) -> None:
        some = result(MANIFEST, WHOLE[:7], WHOLE[:7])
        verdict = judge(MANIFEST, replace(some, outputs=(output(),)))
        assert not verdict.proved


def test_a_result_is_kept_as_json() -> None:
    kept = derived(output(), output("dead"))
    assert RunResult.from_json(kept.to_json()) == kept
    assert (kept.output, kept.rows_written) == ("file:/out", 3), "those of the first output"
