"""All that tells of an audited window says the same: the report, the ledger's entry, the commands, the page, and the
certificate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_offsets.offsets.audits.report import Finding, PartitionCounts, Problem, problem_words
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.page.windows import record, window_panel
from tests.integration.airflow.conftest import Run
from tests.integration.ledger.loads import AT_T0, OFFSETS, new_ledger, resolve
from tests.unit.pipelines.reports import complete, recorded

MISSING = Finding(Problem.MISSING, "t", 0, AT_T0 + 3, AT_T0 + 5, 2, 5, 6, "0" * 16)
GONE = Finding(Problem.UNKNOWABLE, "t", 0, AT_T0, AT_T0 + 4, 4)


def partition(whole: LogRange, rows: int, records: int | None = OFFSETS) -> tuple[PartitionCounts, ...]:
    """The counts of the only partition."""
    return (PartitionCounts(*whole, rows, 7, records, None if records is None else 8),)


CHANGES: Mapping[str, Callable[[LogRange], dict[str, Any]]] = {
    "complete": lambda whole: {},
    "lacking": lambda whole: {"counts": {"missing": 2}, "findings": (MISSING,), "partitions": partition(whole, 8)},
    "gone": lambda whole: {
        "counts": {"unknowable": 4},
        "findings": (GONE,),
        "partitions": partition(whole, 9, None),
    },
    "compacted": lambda whole: {"compacted": ("t",), "unconfirmed": 1, "partitions": partition(whole, 10, 9)},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_is_told_alike(change: Callable[[LogRange], dict[str, Any]], ledger_root: Path, run: Run) -> None:
    ledger = new_ledger(ledger_root)
    window = resolve(ledger, 0)
    manifest = ledger.pinned(window).manifest
    (whole,) = [each.log_range for each in manifest.ranges]
    report = replace(complete(manifest), **change(whole))
    assert recorded(ledger, report, by_hand="me") == report
    window, words = ledger.window(window.name), problem_words(report.counts) or "complete"
    (entry,) = window.audits
    name, numbers = report.table.name, (report.rows, report.records)
    assert (entry.table, entry.counts, entry.rows, entry.records) == (name, report.counts, *numbers)

    def asked(*command: str, code: int = 0) -> Any:
        found, out, err = run("ledger", *command, "-o", "json")
        assert found == code, err
        (answer,) = json.loads(out)
        return answer

    assert asked("list", "loads")["audits"] == f"{name}: {words}"
    panel = window_panel(ledger, window)
    for shown in (panel["audits"], asked("show", "loads")["audits"]):
        ((found, rows, records),) = [(each["found"], each["rows"], each["records"]) for each in shown]
        assert (found or "complete", rows, records) == (words, *numbers)
    for offset in range(AT_T0, AT_T0 + OFFSETS):
        here = [each.problem for each in report.findings if each.start_offset <= offset < each.end_offset]
        told = f"{name}: {words}" + "".join(f"; this one is {each}" for each in here)
        assert asked("find", "loads", "t", "0", str(offset))["audits"] == told
        assert [each["audits"] for each in record(ledger, "t", 0, offset)] == [told]

    certificate = json.loads(
        asked("certificate", "loads", window.name, code=0 if report.is_complete else 1)["statement"]
    )
    (claim,) = certificate["claims"]
    assert (claim["holds"], claim["verdict"], claim["evidence_sha256"]) == (
        report.is_complete,
        str(report),
        entry.report,
    )
    (counted,) = claim["partitions"]
    assert (counted["rows"], counted["records"]) == numbers
    assert claim["findings"] == [each._asdict() for each in report.findings]
    is_alike = (counted["rows"], counted["checksum"]) == (counted["records"], counted["records_checksum"])
    assert is_alike == (report.is_complete and not report.unconfirmed), "what the check's query is compared with"
