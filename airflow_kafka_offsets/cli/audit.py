"""``kafka-offsets audit``: is a table complete that something else has written? Spark runs on this machine."""

from __future__ import annotations

import getpass
import shlex
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from secrets import token_hex
from typing import Any

from airflow_kafka_offsets.cli.connections import java_settings, kafka_client, stored_ledger
from airflow_kafka_offsets.cli.instants import instant
from airflow_kafka_offsets.cli.ledger import named_windows
from airflow_kafka_offsets.cli.printing import Column, Row, command, print_remark, print_rows
from airflow_kafka_offsets.errors import ConfigurationError, FailedWindow, LedgerError, WindowsFailedError, number_of
from airflow_kafka_offsets.ledger.audits import failure_of
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.report import AuditReport, Finding, problem_words
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.proof.run_result import RUN
from airflow_kafka_offsets.offsets.windows.ledger_names import whole_windows
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.pipelines.audits import record
from airflow_kafka_offsets.spark.session.conf import SECRETS_VARIABLE, secrets_text
from airflow_kafka_offsets.submission.audit_submission import AuditSubmission
from airflow_kafka_offsets.submission.spark_program import SparkProgram

_AUDITED = (
    *(Column("window"), Column("table", folds=True), Column("verdict", folds=True), Column("rows")),
    *(Column("records"), Column("looked_at", "looked at")),
    Column("written", "missing records are in", folds=True, unless=(None,)),
)
_FINDINGS = (
    Column("window", unless=(None,)),
    *(Column("problem"), Column("topic", folds=True), Column("partition", "part"), Column("first"), Column("last")),
    *(Column("amount"), Column("from", unless=(None,)), Column("to", unless=(None,))),
    Column("key_hash", "key hash", unless=(None,), spare=True),
)
_LAST_LINES = 200
"""How much of Spark's output is kept, to say why it has failed."""


@command
def audit_table(args: Any) -> int:
    """Audit the table for all windows by one Spark application, record the verdicts, and print them with the first
    findings."""
    ledger = stored_ledger(args)
    windows = [Wanted(ledger, name, ledger.window(name).manifest) for name in _windows(ledger, args)]
    found = _audited(windows, _table(args), args) if args.run is None else _left(windows, args)
    reports = [each for each in found.values() if isinstance(each, AuditReport)]
    errors = [
        FailedWindow(each.name, ledger.pipeline, why) for each, why in found.items() if isinstance(why, Exception)
    ]
    if reports or not errors:
        print_rows([_row(report) | _details(report, args) for report in reports], args, _AUDITED)
    findings = [(report.window, each) for report in reports for each in report.findings]
    if findings and args.output == "table":
        print()
        several = len(reports) > 1
        print_rows(
            [{"window": window if several else None, **finding_row(each)} for window, each in findings], args, _FINDINGS
        )
    if errors:
        raise errors[0].error if len(errors) == 1 else WindowsFailedError(errors, len(errors) + len(reports))
    return 0 if all(report.is_complete for report in reports) else 1


def finding_row(finding: Finding) -> Row:
    """A finding for people: its last offset is inclusive."""
    first_ms, last_ms = finding.first_ms, finding.last_ms
    return {
        **{name: getattr(finding, name) for name in ("problem", "topic", "partition", "amount", "key_hash")},
        "first": finding.start_offset,
        "last": finding.end_offset - 1,
        "from": None if first_ms is None else iso_instant(first_ms),
        "to": None if last_ms is None else iso_instant(last_ms),
    }


def _row(report: AuditReport) -> Row:
    return {
        "window": report.window,
        "table": report.table.name,
        "verdict": problem_words(report.counts) or "complete",
        "rows": report.rows,
        "records": report.records,
        "looked_at": report.looked_at,
        "written": None if report.written is None else report.written.output,
    }


def _details(report: AuditReport, args: Any) -> Row:
    """What only JSON has."""
    if args.output != "json":
        return {}
    findings = [finding_row(each) for each in report.findings]
    return {"complete": report.is_complete, "counts": dict(report.counts), "findings": findings, "run": report.run}


def _table(args: Any) -> AuditedTable:
    options = dict(_pair(each) for each in args.option or ())
    table = AuditedTable(
        **{name: getattr(args, name) for name in AuditedTable.template_fields}, options=options or None
    )
    table.check()
    return table


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigurationError(f"--option {text} is no NAME=VALUE.")
    return name, value


def _windows(ledger: Ledger, args: Any) -> list[str]:
    """The windows that are named, or that lie between two instants."""
    between = args.start is not None or args.end is not None
    if bool(args.windows or args.at) == between:
        raise ConfigurationError("Name the windows to audit, or give --start and --end; not both.")
    if not between:
        return named_windows(ledger, args.windows, args.at)
    start_ms, end_ms = (None if given is None else instant(given) for given in (args.start, args.end))
    found = whole_windows(ledger.state.windows, start_ms, end_ms)
    if not found:
        raise ConfigurationError(f"{ledger.uri} has no window in that time.")
    return found


def _left(windows: Sequence[Wanted], args: Any) -> Mapping[Wanted, AuditReport | Exception]:
    """Record what an audit has left whose driver something else has submitted."""
    if not RUN.fullmatch(args.run):
        raise ConfigurationError(f"--run is 8 hex digits, not {args.run!r}.")
    found = record(lambda: kafka_client(args), windows, args.run, _who())

    def not_left(wanted: Wanted) -> Exception:
        note, what = failure_of(wanted.ledger, wanted.name, args.run), f"no report of window {wanted.name}"
        return LedgerError(f"Audit {args.run} has left {what}.") if note is None else note.as_error()

    return {each: found.get(each) or not_left(each) for each in windows}


def _audited(windows: Sequence[Wanted], table: AuditedTable, args: Any) -> Mapping[Wanted, AuditReport | Exception]:
    kafka = java_settings(args)
    submission = AuditSubmission(windows, token_hex(4), table, args.writer_group, args.write_missing, args.allow_gaps)
    program = SparkProgram(args.spark_submit)
    if not args.verbose:
        print_remark(f"{args.spark_submit} audits {number_of(len(windows), 'window')}; --verbose shows what it prints.")
    printed: deque[str] = deque(maxlen=_LAST_LINES)
    with submission.command(program, kafka.plain, args.packages, shlex.split(args.spark_args or "")) as words:
        try:
            secret = {SECRETS_VARIABLE: secrets_text(kafka.secret)} if kafka.secret else {}
            code = _run(words, {**program.environment, **secret}, printed, shows=args.verbose)
        except OSError as error:
            program.explain(error, printed, None)
            raise LedgerError(f"{args.spark_submit} can't be run: {error}.") from error
    found = submission.outcomes(lambda: kafka_client(args), _who(), [line.strip() for line in printed])
    if code and not any(isinstance(each, Exception) for each in found.values()):
        print_remark(f"{args.spark_submit} ended with status {code} after the audit.")
    return found


def _run(words: Iterable[str], environment: dict[str, str], printed: deque[str], *, shows: bool) -> int:
    """Run Spark, and keep the last lines that it prints."""
    with subprocess.Popen(
        list(words), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None, "it is a pipe"
        for line in process.stdout:
            printed.append(line)
            if shows:
                sys.stderr.write(line)
        return process.wait()


def _who() -> dict[str, Any]:
    return {"by_hand": getpass.getuser()}
