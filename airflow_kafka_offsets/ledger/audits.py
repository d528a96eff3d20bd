"""Audits of a window: what they have found about tables that something else has written, and recording it.

::

    windows/<window>/audits/<run>.json            what an audit has found; an entry names its hash
    windows/<window>/audits/<run>.failure.json    why one has failed
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.decisions import Entries
from airflow_kafka_offsets.ledger.entries import Audited
from airflow_kafka_offsets.ledger.files import audit_failure_file, audit_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.load_decisions import window_read_from
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.offsets.audits.findings import problem_words
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.windows.ledger_names import json_of
from airflow_kafka_offsets.offsets.windows.manifest import digest


def audited(state: State, wish: Audited, manifest: str) -> Entries:
    """Record an audit, once. A later one of the same table takes an earlier one's place.

    :param manifest: hash of the manifest that the audit was given.
    :raises LedgerConflictError: when the window isn't there, or is another one of that name.
    """
    window = window_read_from(state, wish.window, manifest)
    known = next((each for each in window.audits if each.table == wish.table), None)
    is_old = known is not None and (known.run == wish.run or known.audited_ms > wish.audited_ms)
    return () if is_old else (wish,)


def record(ledger: Ledger, window: Window, run: str, who: Mapping[str, Any]) -> AuditReport | None:
    """Record what an audit has found. Returns its report; None when it has left none.

    :raises LedgerConflictError: as :func:`audited`.
    :raises LedgerCorruptError: when the report is damaged, or another audit's.
    """
    content = ledger.files.read(audit_file(window.name, run))
    return None if content is None else _recorded(ledger, window, run, content, who)


def hand_over(ledger: Ledger, window: Window, content: bytes, who: Mapping[str, Any]) -> AuditReport:
    """Record what an audit has found whose driver couldn't reach the ledger. Errors as in :func:`record`.

    :param content: the report.
    """
    report = AuditReport.from_json(json_of(content))
    kept = report.to_bytes()
    if not ledger.files.create(audit_file(window.name, report.run), kept):
        raise LedgerCorruptError(f"Audit {report.run} of window {window.name} has left another report in the ledger.")
    return _recorded(ledger, window, report.run, kept, who)


def report_of(ledger: Ledger, window: Window, audit: Audited) -> AuditReport:
    """What a recorded audit has found.

    :raises LedgerCorruptError: when the file is missing, or was changed since.
    """
    content = ledger.files.read(audit_file(window.name, audit.run))
    if content is None or digest(content) != audit.report:
        what = "missing" if content is None else f"changed (its sha256 is {digest(content)})"
        raise LedgerCorruptError(
            f"{ledger.uri}/{audit_file(window.name, audit.run)} is {what}, though the ledger's log names it (sha256 "
            f"{audit.report}). Restore it as it was, or audit the table again."
        )
    return AuditReport.from_json(json_of(content))


def audit_words(audits: Iterable[Audited]) -> str | None:
    """What audits say of their tables, in words; None without any."""
    found = (f"{each.table}: {problem_words(each.counts) or 'complete'}" for each in audits)
    return "; ".join(found) or None


def audit_problems(audits: Iterable[Audited]) -> str | None:
    """What audits have found wrong with their tables, in words; None if nothing."""
    wrong = ((each.table, problem_words(each.counts)) for each in audits)
    return "; ".join(f"{table}: {words}" for table, words in wrong if words) or None


def failure_of(ledger: Ledger, window: str, run: str) -> FailureNote | None:
    """Why an audit has failed, as its driver says; None when it doesn't, or that can't be read."""
    with suppress(Exception):  # stores raise errors of their own; the failure itself must be raised
        content = ledger.files.read(audit_failure_file(window, run))
        return None if content is None else FailureNote.from_bytes(content)
    return None


def _recorded(ledger: Ledger, window: Window, run: str, content: bytes, who: Mapping[str, Any]) -> AuditReport:
    report = AuditReport.from_json(json_of(content))
    if (report.run, report.window, report.manifest_sha256) != (run, window.name, window.manifest):
        raise LedgerCorruptError(
            f"{audit_file(window.name, run)} is the report of audit {report.run} of window {report.window}, manifest "
            f"{report.manifest_sha256}."
        )
    wish = Audited(
        window=window.name,
        table=report.table.name,
        run=run,
        report=digest(content),
        counts=dict(report.counts),
        rows=report.rows,
        records=report.records,
        who=who,
        audited_ms=report.audited_ms,
    )
    ledger.change(lambda state: audited(state, wish, window.manifest))
    return report
