"""Audits that are recorded: which reports count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_kafka_offsets.errors import ClusterUnreachableError, LedgerConflictError, LedgerCorruptError
from airflow_kafka_offsets.ledger import audits
from airflow_kafka_offsets.ledger.files import audit_file
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.pipelines.audits import record
from tests.unit.offsets.builders import HOUR_MS, T0
from tests.unit.pipelines.reports import complete, nobody, recorded
from tests.unit.spark import ledgers
from tests.unit.spark.manifests import manifest_of


def test_one_that_is_wrong_does_not_hold_up_those_of_other_windows(tmp_path: Path) -> None:
    """One report is damaged, one of a window that is another one now, one isn't there, and one has looked at a log
    that nobody can be asked about; the rest is one commit."""
    ledger = ledgers.ledger_in(tmp_path / "flights")
    manifests = [
        manifest_of([("t", 0, at, at + 10)], start_ms=T0 + at * HOUR_MS, end_ms=T0 + (at + 10) * HOUR_MS)
        for at in range(0, 60, 10)
    ]
    windows = [Wanted(ledger, each.window, ledgers.pin(ledger, each).manifest) for each in manifests]
    reports = [complete(each) for each in manifests]
    reports[1] = replace(reports[1], partitions=())
    reports[5] = replace(reports[5], looked_at=10)
    for report in (*reports[:4], reports[5]):
        ledger.files.create(audit_file(report.window, report.run), report.to_bytes())
    ledgers.pin(ledger, replace(manifests[2], ranges=manifests[3].ranges))
    before = ledger.state.number
    found = record(nobody, windows, reports[0].run, {})
    assert [found.get(windows[place]) for place in (0, 3, 4)] == [reports[0], reports[3], None]
    refused = [type(found[windows[place]]) for place in (1, 2, 5)]
    assert refused == [LedgerCorruptError, LedgerConflictError, ClusterUnreachableError]
    assert ledger.read().number == before + 1
    assert [len(each.audits) for each in ledger.state.windows.values()] == [1, 0, 0, 1, 0, 0]


def test_one_that_was_changed_is_noticed(tmp_path: Path) -> None:
    ledger = ledgers.ledger_in(tmp_path / "flights")
    manifest = manifest_of([("t", 0, 0, 10)])
    window, report = ledgers.pin(ledger, manifest), complete(manifest)
    other = recorded(ledger, replace(report, run="1" * 8, manifest_sha256="other"))
    assert isinstance(other, LedgerCorruptError)
    assert "is the report of audit" in str(other)
    assert recorded(ledger, report, by_hand="me") == report
    (kept,) = ledger.read().windows[window.name].audits
    assert (audits.report_of(ledger, window, kept), kept.who) == (report, {"by_hand": "me"})
    assert audits.audit_words([kept]) == "lake.t: complete"
    file = tmp_path / "flights" / audit_file(window.name, report.run)
    file.write_bytes(file.read_bytes().replace(b"lake.t", b"lake.u"))
    with pytest.raises(LedgerCorruptError, match="is changed"):
        audits.report_of(ledger, window, kept)
