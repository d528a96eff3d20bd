"""Audits of a window: what they have found about tables that something else has written, and recording it.

::

    windows/<window>/audits/<run>.json            what an audit has found; an entry names its hash
    windows/<window>/audits/<run>.failure.json    why one has failed
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerConflictError, LedgerCorruptError, or_error
from airflow_kafka_offsets.ledger.decisions import Entries
from airflow_kafka_offsets.ledger.entries import AnyEntry, Audited
from airflow_kafka_offsets.ledger.files import audit_failure_file, audit_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import State, Window
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.audits.findings import problem_words
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.windows.ledger_names import json_of
from airflow_kafka_offsets.offsets.windows.manifest import digest


def audited(state: State, wish: Audited, manifest: str) -> Entries:
    """Record an audit, once. A later one of the same table takes an earlier one's place.

    :param manifest: hash of the manifest that the audit was given.
    :raises LedgerConflictError: when the window isn't there, or is another one of that name.
    """
    window = state.window(wish.window, manifest)
    known = next((each for each in window.audits if each.table == wish.table), None)
    is_old = known is not None and (known.run == wish.run or known.audited_ms > wish.audited_ms)
    return () if is_old else (wish,)


class _Wish(NamedTuple):
    """What is to be recorded."""

    report: AuditReport
    entry: Audited


def record(
    ledger: Ledger, windows: Sequence[Window], run: str, who: Mapping[str, Any]
) -> list[AuditReport | KafkaOffsetsError | None]:
    """Record what an audit has found of some windows, in one commit. Returns the report of each; None if it has left
    none, and an error as in :func:`hand_over` where it can't be recorded."""

    def read(window: Window) -> _Wish | KafkaOffsetsError | None:
        content = ledger.files.read(audit_file(window.name, run))
        return None if content is None else or_error(lambda: _wish(ledger, window, run, content, who))

    found = in_parallel(read, windows)
    refused = _commit(ledger, [each for each in found if isinstance(each, _Wish)])
    return [refused.get(each.entry.window, each.report) if isinstance(each, _Wish) else each for each in found]


def hand_over(ledger: Ledger, content: bytes, who: Mapping[str, Any]) -> AuditReport:
    """Record what an audit has found of a window whose driver couldn't reach the ledger.

    :param content: the report.
    :raises LedgerConflictError: as :func:`audited`.
    :raises LedgerCorruptError: when the report is damaged, contradicts itself or the window, or is another audit's.
    """
    report = AuditReport.from_json(json_of(content))
    window, kept = ledger.window(report.window), report.to_bytes()
    wish = _wish(ledger, window, report.run, kept, who)
    if not ledger.files.create(audit_file(window.name, report.run), kept):
        raise LedgerCorruptError(f"Audit {report.run} of window {window.name} has left another report in the ledger.")
    for error in _commit(ledger, [wish]).values():
        raise error
    return report


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


def audit_words_at(ledger: Ledger, window: Window, partition: TopicPartition, offset: int) -> str | None:
    """What audits say of their tables, and of a record; None without any."""
    found = (f"{each.table}: {_words_at(ledger, window, each, partition, offset)}" for each in window.audits)
    return "; ".join(found) or None


def _words_at(ledger: Ledger, window: Window, audit: Audited, partition: TopicPartition, offset: int) -> str:
    words = problem_words(audit.counts) or "complete"
    report = or_error(lambda: report_of(ledger, window, audit))
    here = [
        each.problem
        for each in ([] if isinstance(report, KafkaOffsetsError) else report.findings)
        if TopicPartition.of(each) == partition and each.start_offset <= offset < each.end_offset
    ]
    return f"{words}; this one is {' and '.join(here).replace('_', ' ')}" if here else words


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


def _wish(ledger: Ledger, window: Window, run: str, content: bytes, who: Mapping[str, Any]) -> _Wish:
    report = AuditReport.from_json(json_of(content))
    if (report.run, report.window, report.manifest_sha256) != (run, window.name, window.manifest):
        raise LedgerCorruptError(
            f"{audit_file(window.name, run)} is the report of audit {report.run} of window {report.window}, manifest "
            f"{report.manifest_sha256}."
        )
    report.check(ledger.pinned(window).manifest)
    entry = Audited(
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
    return _Wish(report, entry)


def _commit(ledger: Ledger, wishes: Sequence[_Wish]) -> dict[str, LedgerConflictError]:
    """Record audits of several windows in one commit. Returns the errors of those that can't be."""
    refused: dict[str, LedgerConflictError] = {}

    def decide(state: State) -> Entries:
        entries: list[AnyEntry] = []
        refused.clear()
        for report, entry in wishes:
            try:
                entries += audited(state, entry, report.manifest_sha256)
            except LedgerConflictError as error:
                refused[entry.window] = error
        return tuple(entries)

    if wishes:
        ledger.change(decide)
    return refused
