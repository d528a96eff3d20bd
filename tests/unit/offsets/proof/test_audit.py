"""The audit: one dropped, doubled or foreign row never passes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.run_result import PartitionTally, RunResult, Tally
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from tests.unit.offsets.builders import HOUR_MS, LEDGER_ID, T0, snapshot
from tests.unit.offsets.proof.results import run_result


def manifest(cleanup_policy: str = "delete") -> Manifest:
    first = snapshot({0: 10, 1: 0}, cleanup_policy=cleanup_policy)
    last = snapshot({0: 20, 1: 0}, at_ms=T0 + HOUR_MS, cleanup_policy=cleanup_policy)
    return Manifest.of("loads", LEDGER_ID, first, last)


def result(
    pinned: Manifest,
    read: list[int],
    written: list[int],
    *,
    allow_gaps: bool = False,
    unread: tuple[ReadPosition, ...] | None = (),
) -> RunResult:
    """A run over partition 0, with a checksum that tells sets of offsets apart, after which Kafka was asked."""

    def checksum(offsets: list[int]) -> int:
        value = 0
        for each in offsets:
            value ^= hash((each, "row"))
        return value

    rows = PartitionTally("t", 0, len(written), min(written), max(written), sum(written), checksum(written))
    tally = Tally(len(read), checksum(read), starts=7)
    return run_result(pinned, [rows], read=tally, allow_gaps=allow_gaps, task_starts=7, unread=unread)


def uncounted(pinned: Manifest, written: list[int], *, of: list[int] | None = None) -> RunResult:
    """A run whose read nobody counted: what it is compared with is every offset once."""
    counted = result(pinned, WHOLE if of is None else of, written, unread=None)
    return replace(counted, read=replace(counted.read, starts=None, counted=False), task_starts=None)


WHOLE = list(range(10, 20))


class TestVerdict:
    def test_every_offset_once_is_proved(self) -> None:
        verdict = judge(manifest(), result(manifest(), WHOLE, WHOLE))
        assert verdict.proved
        assert str(verdict) == "read = written = log"

    @pytest.mark.parametrize(
        ("read", "written"),
        [
            pytest.param(WHOLE, WHOLE[:-1], id="a row was dropped on the way"),
            pytest.param(WHOLE, [*WHOLE, 19], id="a row was written twice"),
            pytest.param(WHOLE, [*WHOLE[:-1], 18], id="one dropped and one doubled, the same count"),
            pytest.param(WHOLE[:-1], WHOLE[:-1], id="Kafka gave too little"),
            pytest.param([*WHOLE, 20], [*WHOLE, 20], id="a row past the window's end"),
            pytest.param([9, *WHOLE[1:]], [9, *WHOLE[1:]], id="a row before the window's start"),
            pytest.param([*WHOLE[:-1], 10], [*WHOLE[:-1], 10], id="one offset read twice, another not at all"),
        ],
    )
    def test_anything_else_is_not(self, read: list[int], written: list[int]) -> None:
        assert not judge(manifest(), result(manifest(), read, written)).proved

    @given(st.lists(st.integers(9, 20), min_size=1, max_size=12), st.booleans())
    def test_where_nobody_counted_the_read_nothing_but_each_offset_once_passes(
        self, written: list[int], allow_gaps: bool
    ) -> None:
        run = replace(uncounted(manifest(), written), allow_gaps=allow_gaps)
        assert judge(manifest(), run).proved == (sorted(written) == WHOLE)

    @given(st.integers(0, 20), st.integers())
    def test_nor_does_a_result_that_nobody_counted_and_that_claims_a_number(self, count: int, checksum: int) -> None:
        """As by a hand in the file: its rows are compared with what it says that every offset once would give."""
        run = uncounted(manifest(), WHOLE)
        claimed = replace(run, read=Tally(count, checksum, counted=False))
        verdict = judge(manifest(), claimed)
        assert verdict.proved == (count == 10 and checksum == run.read.checksum)
        assert count == 10 or f"says {count} rows for 10 offsets" in str(verdict)

    def test_what_lacks_then_is_named_by_partition_with_all_that_may_have_happened(self) -> None:
        said = str(judge(manifest(), uncounted(manifest(), WHOLE[3:])))
        assert said.startswith(
            "t-0 lacks 3 of 10 rows. The log may have no record there, as is usual with transactions: then allow gaps "
            "(allow_gaps=True). Or: rows may have been dropped between read() and write() (a filter"
        )
        assert "stopped early (limit, head, take)" in said
        assert "the output doesn't show all that was written" in said
        assert "write_derived" in said

    def test_so_is_what_is_there_too_often(self) -> None:
        said = str(judge(manifest(), uncounted(manifest(), [*WHOLE, 12, 12])))
        assert "t-0 has 2 more rows than offsets: rows were doubled between read() and write(), by explode" in said

    @given(st.sets(st.sampled_from(WHOLE), min_size=1), st.lists(st.sampled_from(WHOLE), min_size=1, max_size=12))
    def test_rows_written_that_differ_from_rows_read_never_pass(self, read: set[int], written: list[int]) -> None:
        verdict = judge(manifest(), result(manifest(), sorted(read), written, allow_gaps=True))
        assert verdict.proved == (sorted(read) == sorted(written))

    def test_gaps_pass_where_they_are_allowed_and_are_counted(self) -> None:
        """S11, E12: markers and aborted records leave offsets without a record."""
        verdict = judge(manifest(), result(manifest(), WHOLE[2:], WHOLE[2:], allow_gaps=True))
        assert verdict.proved
        assert verdict.gaps == 2
        assert "2 offsets without a record" in str(verdict)

    def test_gaps_do_not_pass_where_kafka_was_not_asked_or_has_a_record(self) -> None:
        """A read that was stopped early leaves offsets without a row, too."""
        for unread in (None, (ReadPosition("t", 0, 18),)):
            run = result(manifest(), WHOLE[:8], WHOLE[:8], allow_gaps=True, unread=unread)
            assert not judge(manifest(), run).proved

    def test_gaps_do_not_pass_where_tasks_began_with_other_records(self) -> None:
        """Some of them began twice, so that the count isn't of one read."""
        run = replace(result(manifest(), WHOLE[2:], WHOLE[2:], allow_gaps=True), task_starts=8)
        assert "more than once" in str(judge(manifest(), run))

    def test_gaps_pass_on_compacted_topics(self) -> None:
        """S14, E11."""
        pinned = manifest("compact,delete")
        assert judge(pinned, result(pinned, WHOLE[2:], WHOLE[2:])).proved

    def test_rows_of_a_partition_outside_the_window_do_not_pass(self) -> None:
        run = result(manifest(), WHOLE, WHOLE)
        stray = replace(run.written[0], topic="other")
        assert not judge(manifest(), replace(run, written=(*run.written, stray))).proved

    @pytest.mark.parametrize(
        "offsets",
        [
            pytest.param([12, 12], id="one record twice"),
            pytest.param([12, 13, 13], id="one of two records twice"),
            pytest.param([12, 12, 14], id="one twice and another one not at all"),
        ],
    )
    def test_rows_that_were_read_twice_do_not_pass_as_gaps(self, offsets: list[int]) -> None:
        """S24: what was written is what was read, and there are fewer rows than offsets."""
        assert not judge(manifest(), result(manifest(), offsets, offsets, allow_gaps=True)).proved

    def test_a_partition_that_is_counted_in_two_parts_does_not_pass(self) -> None:
        """One part would hide the other."""
        run = result(manifest(), WHOLE, WHOLE)
        (rows,) = run.written
        parts = (
            replace(rows, count=9, max_offset=18, offset_sum=sum(WHOLE[:-1])),
            replace(rows, count=1, min_offset=19, offset_sum=19, checksum=0),
        )
        verdict = judge(manifest(), replace(run, written=parts))
        assert "counted twice" in str(verdict)

    def test_a_run_of_another_manifest_does_not_pass(self) -> None:
        run = replace(result(manifest(), WHOLE, WHOLE), manifest_sha256="0" * 64)
        assert not judge(manifest(), run).proved

    def test_an_empty_run_of_an_empty_window_is_proved(self) -> None:
        """S6."""
        empty = Manifest.of("loads", LEDGER_ID, snapshot({0: 5}), snapshot({0: 5}, at_ms=T0 + 1))
        run = run_result(empty, [], output=None, source=None)
        assert judge(empty, run).proved


class TestLoss:
    """What Kafka had lost when the attempt began isn't asked of it: read + lost = window."""

    LOST = (LogRange("t", 0, 8, 13),)

    def test_the_rest_is_proved_and_the_loss_is_said(self) -> None:
        verdict = judge(manifest(), uncounted(manifest(), WHOLE[3:], of=WHOLE[3:]), self.LOST)
        assert (verdict.proved, verdict.lost, verdict.gaps) == (True, 3, 0)
        assert str(verdict) == "read = written = log, 3 offsets lost before"

    def test_less_than_the_rest_is_not_and_neither_is_more(self) -> None:
        for written in (WHOLE[4:], WHOLE[2:], WHOLE):
            assert not judge(manifest(), uncounted(manifest(), written, of=WHOLE[3:]), self.LOST).proved

    def test_a_loss_that_nobody_noted_is_no_excuse(self) -> None:
        assert not judge(manifest(), uncounted(manifest(), WHOLE[3:])).proved

    def test_where_all_is_lost_nothing_is_read_and_nobody_has_to_be_asked(self) -> None:
        run = run_result(manifest(), [], output=None, source=None)
        verdict = judge(manifest(), run, [LogRange("t", 0, 0, 20)])
        assert (verdict.proved, verdict.lost) == (True, 10)


class TestResult:
    def test_reads_back_as_it_was_written(self) -> None:
        run = result(manifest(), WHOLE, WHOLE, unread=(ReadPosition("t", 0, 18),))
        assert RunResult.from_json(json.loads(json.dumps(run.to_json()))) == run
        assert (run.output, run.rows_written, run.apart) == ("file:/out", 10, True)

    @pytest.mark.parametrize("fields", [{"attempt": "7"}, {"attempt": True}, {"run": "../a"}, {"read": []}, {"x": 1}])
    def test_something_else_is_refused(self, fields: dict[str, Any]) -> None:
        told = result(manifest(), WHOLE, WHOLE).to_json() | fields
        if "x" in fields:
            del told["outputs"]
        with pytest.raises(LedgerCorruptError, match="not the result of a run"):
            RunResult.from_json(told)


class TestCause:
    """A verdict names what happened, and the way on; where it can't tell which of two it was, it says so."""

    @pytest.mark.parametrize(
        ("read", "written", "unread", "words"),
        [
            pytest.param(WHOLE, WHOLE[::2], None, r"5 of them.* read_published\(", id="a filter"),
            pytest.param(WHOLE, WHOLE * 2, None, "doubled between", id="an explode"),
            pytest.param(WHOLE * 2, WHOLE[::2], None, "more than once, because of a sort", id="a sort, and a filter"),
            pytest.param(WHOLE, [*WHOLE[:-1], 18], None, "not the same ones", id="dropped and doubled"),
            pytest.param(
                WHOLE[:8],
                WHOLE[:8],
                (ReadPosition("t", 0, 18),),
                "offset 18 of t-0: the read was stopped",
                id="a limit",
            ),
            pytest.param(WHOLE[1:], WHOLE[1:], (), "usual with transactions.*allow_gaps=True", id="transactions"),
            pytest.param(WHOLE[1:], WHOLE[1:], None, "Kafka wasn't asked whether", id="nobody knows"),
        ],
    )
    def test_is_named(
        self, read: list[int], written: list[int], unread: tuple[ReadPosition, ...] | None, words: str
    ) -> None:
        verdict = str(judge(manifest(), result(manifest(), read, written, unread=unread)))
        assert re.search(words, verdict)
        assert ("allow_gaps" in verdict) == ("transactions" in verdict)


class TestWhatMayPass:
    """A lost executor has its tasks read anew: the next try may be proved, so that it isn't the end."""

    @pytest.mark.parametrize(
        ("starts", "written", "may_pass"),
        [
            pytest.param(7, WHOLE[:8], False, id="each task began once, and rows were dropped"),
            pytest.param(12, WHOLE[:8], True, id="one began twice"),
            pytest.param(14, WHOLE[:5], True, id="each began twice"),
            pytest.param(12, [*WHOLE, 20], False, id="and a row is outside of the window"),
        ],
    )
    def test_is_a_count_of_tasks_that_began_anew(self, starts: int, written: list[int], may_pass: bool) -> None:
        run = result(manifest(), WHOLE, written, allow_gaps=True)
        verdict = judge(manifest(), replace(run, read=replace(run.read, starts=starts)))
        assert (verdict.proved, verdict.may_pass) == (False, may_pass)

    def test_is_nothing_where_offsets_are_never_without_a_record(self) -> None:
        """All that was read may be counted there as often as it likes."""
        run = result(manifest(), WHOLE, WHOLE[:8])
        verdict = judge(manifest(), replace(run, read=replace(run.read, starts=None), task_starts=None))
        assert (verdict.proved, verdict.may_pass) == (False, False)


class TestWhatNobodyCanTell:
    @pytest.mark.parametrize(("topic_id", "told"), [("id-1", ""), (None, ", but Kafka doesn't tell the id of t")])
    def test_is_said(self, topic_id: str | None, told: str) -> None:
        """By brokers before 2.8."""
        pinned = manifest()
        topics = {topic: replace(facts, topic_id=topic_id) for topic, facts in pinned.topics.items()}
        pinned = replace(pinned, topics=topics)
        verdict = judge(pinned, result(pinned, WHOLE, WHOLE))
        assert verdict.proved
        assert str(verdict) == f"read = written = log{told}"
