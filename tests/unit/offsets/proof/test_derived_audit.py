"""The audit of derived rows: an output of more, fewer or other records than the window's never passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.run_result import JobCounts, OutputRows, RunResult, Tally
from tests.unit.offsets.proof.test_audit import WHOLE, manifest, result

MANIFEST = manifest()
RECORDS = result(MANIFEST, WHOLE, WHOLE, unread=None)
"""What was counted of the window, separately from the job."""


def output(name: str = "", made: int = 3, rows: int = 3, read: Tally = RECORDS.read) -> OutputRows:
    return OutputRows(name, f"file:/{name or 'out'}", "parquet", apart=True, rows=rows, job=JobCounts(made, read))


def derived(*outputs: OutputRows, **fields: Any) -> RunResult:
    assert outputs[0].job is not None
    return replace(RECORDS, outputs=outputs, read=outputs[0].job.read, **fields)


class TestVerdict:
    def test_what_was_made_of_each_record_once_is_proved_however_many_rows_it_is(self) -> None:
        verdict = judge(MANIFEST, derived(output(), output("dead", made=0, rows=0)))
        assert verdict.proved
        assert str(verdict) == "read = log (3 rows written by your job, 0 to dead)"

    @pytest.mark.parametrize(
        ("read", "words", "may_pass"),
        [
            (Tally(9, 1, starts=7), "made of 9 records, but the window has 10 offsets: the read was stopped", False),
            (Tally(0, 0, starts=0), "made of 0 records, but the window has 10 offsets: the read was stopped", False),
            (Tally(11, 1, starts=7), "made of 11 records, where the window has 10: Spark read some more", True),
            (
                replace(RECORDS.read, starts=14),
                "made of 10 records, where the window has 10: Spark read some more",
                True,
            ),
            (Tally(10, 1, starts=7), "as many as the window has, but not the same ones", False),
        ],
        ids=["fewer", "none", "more", "a task twice", "others"],
    )
    @pytest.mark.parametrize("name", ["", "dead"])
    def test_what_was_made_of_other_records_is_not(self, read: Tally, words: str, may_pass: bool, name: str) -> None:
        """S25. Each output by itself: one of them is enough."""
        outputs = [output(), output("dead")]
        outputs[bool(name)] = output(name, read=read)
        verdict = judge(MANIFEST, derived(*outputs))
        assert not verdict.proved
        assert ("the rows of output dead were" if name else "the job's rows were") in str(verdict)
        assert words in str(verdict)
        assert verdict.may_pass == may_pass

    @pytest.mark.parametrize(("rows", "may_pass"), [(2, True), (4, False)])
    def test_an_output_that_does_not_hold_what_was_made_is_not(self, rows: int, may_pass: bool) -> None:
        verdict = judge(MANIFEST, derived(output(), output("dead", rows=rows)))
        assert f"the job made 3 rows for file:/dead, but it holds {rows}" in str(verdict)
        assert (verdict.proved, verdict.may_pass) == (False, may_pass)

    def test_of_a_log_with_gaps_is_held_against_its_records(self) -> None:
        some = result(MANIFEST, WHOLE[:7], WHOLE[:7], allow_gaps=True)
        good = replace(some, outputs=(output(read=some.read),))
        assert str(judge(MANIFEST, good)) == "read = log (3 rows written by your job), 3 offsets without a record"
        fewer = replace(some.read, count=6)
        bad = replace(good, outputs=(output(read=fewer),), read=fewer)
        assert "made of 6 records, but the window has 7 records" in str(judge(MANIFEST, bad))

    def test_gaps_that_nobody_allowed_are_not(self) -> None:
        some = result(MANIFEST, WHOLE[:7], WHOLE[:7])
        verdict = judge(MANIFEST, replace(some, outputs=(output(read=some.read),)))
        assert not verdict.proved


def test_a_result_is_kept_as_json() -> None:
    kept = derived(output(), output("dead"))
    assert RunResult.from_json(kept.to_json()) == kept
    assert (kept.output, kept.rows_written) == ("file:/out", 3), "those of the first output"
