"""Gaps explained: what a log says must fit what was written, and a log that was compacted since says less."""

from __future__ import annotations

import pytest

from airflow_kafka_offsets.errors import ResponseError
from airflow_kafka_offsets.offsets.answers.records import GapCauses, LogContent, LogContents
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.audit import explain, ranges_with_gaps
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult, Tally
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from tests.unit.offsets.builders import HOUR_MS, LEDGER_ID, T0, snapshot
from tests.unit.offsets.proof.results import run_result


def rows(*offsets: int, partition: int = 0) -> PartitionTally:
    return PartitionTally("t", partition, len(offsets), min(offsets), max(offsets), sum(offsets), 0)


def result(*written: PartitionTally) -> RunResult:
    return run_result("sha", written, read=Tally(), allow_gaps=True)


def content(records: int, aborted: int, markers: int, missing: int, offset_sum: int | None = None) -> LogContent:
    """What offsets 10 to 20 of a partition hold."""
    return LogContent("t", 0, 10, 20, records, aborted, markers, missing, offset_sum)


EIGHT = rows(*range(10, 18))


def explained(written: PartitionTally, found: LogContent, *compacted: str) -> tuple[GapCauses, tuple[str, ...]]:
    return explain(result(written), LogContents([found]), compacted)


class TestRangesToRead:
    def test_are_those_with_fewer_rows_than_offsets(self) -> None:
        first = snapshot({0: 10, 1: 10, 2: 10, 3: 10})
        last = snapshot({0: 20, 1: 20, 2: 20, 3: 10}, at_ms=T0 + HOUR_MS)
        manifest = Manifest.of("loads", LEDGER_ID, first, last)
        written = result(rows(*range(10, 20)), rows(*range(10, 19), partition=1))
        assert ranges_with_gaps(manifest, written) == [LogRange("t", 1, 10, 20), LogRange("t", 2, 10, 20)]


class TestTopicsThatNothingCompacts:
    def test_gaps_are_markers_and_aborted_records_when_the_log_has_as_many_records(self) -> None:
        """E12, S10."""
        causes, problems = explained(EIGHT, content(8, 1, 1, 0, EIGHT.offset_sum))
        assert problems == ()
        assert causes == GapCauses(markers=1, aborted=1)
        assert str(causes) == "1 markers, 1 aborted records, 0 compacted away"

    def test_without_any_row_all_offsets_are_gaps(self) -> None:
        causes, problems = explain(result(), LogContents([content(0, 9, 1, 0, 0)]), ())
        assert (causes, problems) == (GapCauses(markers=1, aborted=9), ())

    @pytest.mark.parametrize(
        ("found", "problem"),
        [
            pytest.param(
                content(9, 0, 1, 0), "t-0 has 9 records in the log, but 8 were written", id="a row is missing"
            ),
            pytest.param(
                content(7, 2, 1, 0), "7 records in the log, but 8 were written, and it isn", id="a row is too many"
            ),
            pytest.param(content(8, 1, 1, 0, 999), "at other offsets", id="one is doubled and another one missing"),
        ],
    )
    def test_any_other_number_of_records_is_a_problem(self, found: LogContent, problem: str) -> None:
        _, (said,) = explained(EIGHT, found)
        assert problem in said


class TestCompactedTopics:
    def test_records_that_are_gone_by_now_were_there_for_the_load(self) -> None:
        """S14: three of the eight were taken since; of the ten offsets one had been empty before."""
        causes, problems = explained(EIGHT, content(5, 0, 1, 4), "t")
        assert problems == ()
        assert causes == GapCauses(markers=1, compacted=1, removed_since=3)
        assert "3 records were compacted away since" in str(causes)

    def test_records_that_nobody_wrote_are_a_problem_there_too(self) -> None:
        _, (said,) = explained(EIGHT, content(9, 0, 0, 1), "t")
        assert "9 records in the log, but 8 were written" in said

    def test_so_are_rows_at_offsets_that_are_none_of_records(self) -> None:
        _, (said,) = explained(EIGHT, content(5, 2, 1, 2), "t")
        assert "some are at markers or aborted records" in said


class TestLogsThatRetentionHasCut:
    def test_do_not_explain_anything_any_more(self) -> None:
        """E9: no guess."""
        gone = ResponseError("OFFSET_OUT_OF_RANGE", 1, False, "the log starts at 15, past offset 10")
        _, (said,) = explained(EIGHT, LogContent("t", 0, 10, 20, error=gone))
        assert said == "2 gaps of t-0 can no longer be explained: the log starts at 15, past offset 10"
