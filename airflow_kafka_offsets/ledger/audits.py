"""Audits of a window: what they have found about tables that something else has written.

::

    windows/<window>/audits/<run>.json            what an audit has found; an entry names its hash
    windows/<window>/audits/<run>.failure.json    why one has failed
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerCorruptError, or_error
from airflow_kafka_offsets.ledger.entries import Audited
from airflow_kafka_offsets.ledger.files import audit_failure_file, audit_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.audits.report import AuditReport, problem_words
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.windows.manifest import digest


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
    return AuditReport.from_bytes(content)


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
