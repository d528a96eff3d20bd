"""Audits of tables and counts of records in the ledger's log: which are recorded, and what the state keeps of them."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger import audits, checkpoints, load_decisions
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.entries import Audited, RecordsCounted
from airflow_kafka_offsets.ledger.files import audit_file, census_file
from airflow_kafka_offsets.offsets.answers.records import LogContent
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.audits.report import AuditReport, PartitionCounts
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from tests.unit.ledger.memory import MemoryFiles
from tests.unit.ledger.states import NAME, NOW, after, pinned
from tests.unit.offsets.builders import HOUR_MS, T0
from tests.unit.spark import ledgers
from tests.unit.spark.manifests import manifest_of

STATE = pinned(Contents(MemoryFiles(), "memory"), 0, 10, 20)
MANIFEST = STATE.windows[NAME].manifest
FIRST = Audited(NAME, "lake.t", "0" * 8, "hash", {"missing": 3}, 7, {"task_id": "audit"}, NOW, 10)


def complete(manifest: Manifest) -> AuditReport:
    """A report that a table has each offset of a window of one range."""
    (whole,) = [each.log_range for each in manifest.ranges]
    counts = whole.span, whole.span, Checksum.of(manifest).every_offset([whole]).checksum
    return AuditReport(
        run="0a1b2c3d",
        window=manifest.window,
        manifest_sha256=manifest.sha256,
        table=AuditedTable(table="lake.t"),
        counts={},
        findings=(),
        partitions=(PartitionCounts(*whole, *counts),),
        audited_ms=NOW,
        seconds=1.0,
    )


def recorded(*wishes: Audited) -> list[tuple[str, str]]:
    """Table and run of the audits that the state has after these."""
    state = STATE
    for wish in wishes:
        state = after(state, audits.audited(state, wish, MANIFEST))
    assert checkpoints.from_bytes(checkpoints.to_bytes(state)) == state
    return [(each.table, each.run) for each in state.windows[NAME].audits]


class TestAudits:
    def test_the_last_one_of_each_table_counts(self) -> None:
        second = FIRST._replace(run="1" * 8, audited_ms=NOW + 1)
        other = FIRST._replace(table="a", run="2" * 8)
        assert recorded(FIRST, other, second) == [("a", "2" * 8), ("lake.t", "1" * 8)]

    def test_one_is_recorded_once_and_an_older_one_takes_no_place(self) -> None:
        older = FIRST._replace(run="1" * 8, audited_ms=NOW - 1)
        assert recorded(FIRST, FIRST, older) == [("lake.t", "0" * 8)]

    def test_one_of_other_offsets_is_refused(self) -> None:
        with pytest.raises(LedgerConflictError, match="resolved anew"):
            audits.audited(STATE, FIRST, "another manifest")

    def test_of_several_windows_one_that_is_wrong_does_not_hold_up_the_others(self, tmp_path: Path) -> None:
        """One report is damaged, one of a window that is another one now, one isn't there; the rest is one commit."""
        ledger = ledgers.ledger_in(tmp_path / "flights")
        manifests = [
            manifest_of([("t", 0, at, at + 10)], start_ms=T0 + at * HOUR_MS, end_ms=T0 + (at + 10) * HOUR_MS)
            for at in range(0, 50, 10)
        ]
        windows = [ledgers.pin(ledger, each) for each in manifests]
        reports = [complete(each) for each in manifests]
        reports[1] = replace(reports[1], partitions=())
        for report in reports[:4]:
            ledger.files.create(audit_file(report.window, report.run), report.to_bytes())
        ledgers.pin(ledger, replace(manifests[2], ranges=manifests[3].ranges))
        before = ledger.state.number
        found = audits.record(ledger, windows, reports[0].run, {})
        assert [found[0], found[3], found[4]] == [reports[0], reports[3], None]
        assert [type(each) for each in found[1:3]] == [LedgerCorruptError, LedgerConflictError]
        assert ledger.read().number == before + 1
        assert [len(each.audits) for each in ledger.state.windows.values()] == [1, 0, 0, 1, 0]

    def test_a_report_that_was_changed_is_noticed(self, tmp_path: Path) -> None:
        ledger = ledgers.ledger_in(tmp_path / "flights")
        manifest = manifest_of([("t", 0, 0, 10)])
        window, report = ledgers.pin(ledger, manifest), complete(manifest)
        assert audits.record(ledger, [window], report.run, {}) == [None], "the driver has left none"
        other = replace(report, partitions=(PartitionCounts("t", 0, 0, 9, 9, 9, 7),))
        with pytest.raises(LedgerCorruptError, match="can't be right: its partitions aren't the window's"):
            audits.hand_over(ledger, other.to_bytes(), {})
        assert audits.hand_over(ledger, report.to_bytes(), {"by_hand": "me"}) == report
        (kept,) = ledger.read().windows[window.name].audits
        assert audits.report_of(ledger, window, kept) == report
        assert audits.audit_words([kept]) == "lake.t: complete"
        with pytest.raises(LedgerCorruptError, match="has left another report"):
            audits.hand_over(ledger, replace(report, seconds=2.0).to_bytes(), {})
        with pytest.raises(LedgerCorruptError, match="is the report of audit"):
            audits.hand_over(ledger, replace(report, manifest_sha256="other").to_bytes(), {})
        file = tmp_path / "flights" / audit_file(window.name, report.run)
        file.write_bytes(file.read_bytes().replace(b"lake.t", b"lake.u"))
        with pytest.raises(LedgerCorruptError, match="is changed"):
            audits.report_of(ledger, window, kept)


class TestCounts:
    def test_records_are_counted_once(self) -> None:
        wish = RecordsCounted(NAME, "hash", 9)
        state = after(STATE, load_decisions.count(STATE, wish, MANIFEST))
        assert state.windows[NAME].census == "hash"
        assert load_decisions.count(state, RecordsCounted(NAME, "other", 8), MANIFEST) == ()
        assert checkpoints.from_bytes(checkpoints.to_bytes(state)) == state
        with pytest.raises(LedgerConflictError, match="resolved anew"):
            load_decisions.count(STATE, wish, "another manifest")

    def test_the_file_is_there_before_the_entry_that_names_it(self, tmp_path: Path) -> None:
        ledger = ledgers.ledger_in(tmp_path / "flights")
        window = ledgers.pin(ledger, manifest_of([("t", 0, 0, 10)]))
        census = Census.of([LogContent("t", 0, 0, 10, 3, runs=((0, 2), (5, 6)))])
        wish = RecordsCounted(window.name, ledger.contents.add_census(window.name, census), census.records)
        ledger.change(lambda state: load_decisions.count(state, wish, window.manifest))
        again = ledgers.ledger_in(tmp_path / "flights")
        found = again.window(window.name).census
        assert found is not None
        stored = again.files.read(census_file(window.name, found))
        assert stored is not None
        assert Census.from_bytes(gzip.decompress(stored)) == census
