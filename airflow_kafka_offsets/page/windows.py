"""Windows: the list of a pipeline's, with time that no window has between them; one, with its ranges, evidence,
attempts, publication and proof, and what audits of tables have found; and which one a record is in. No records are
shown.

The list is in order of time. Time that no window has is a hole if there are offsets in it, else ``absent``. The log
says nearly all of it, so that a page of windows costs no file of theirs.

In all of the page, rows are those that the output holds; in the first one, if a job has several. Which partition they
are from is known only if each record is a row, not if a job makes other rows of the records.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from airflow_kafka_offsets.errors import LedgerError, shorten
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.ledger.audits import audit_problems, audit_words, audit_words_at, report_of
from airflow_kafka_offsets.ledger.counted import WindowStatus, running_ms, status, statuses
from airflow_kafka_offsets.ledger.entries import Attempted, Audited, Published, Refused
from airflow_kafka_offsets.ledger.files import audit_file
from airflow_kafka_offsets.ledger.find import Found, find
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.offsets.audits.report import Problem, problem_words
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.snapshots import Evidence
from airflow_kafka_offsets.page.lateness import backfilling
from airflow_kafka_offsets.page.overview import lost_of
from airflow_kafka_offsets.page.reasons import failure_of, told

Json = dict[str, Any]

_STATES = {
    WindowStatus.PINNED: "Its ranges are pinned, and no load has begun.",
    WindowStatus.LOADING: "A load has begun and may be running; no failure has been recorded.",
    WindowStatus.FAILED: "Its newest attempt has failed.",
    WindowStatus.PROVED: "A load has written and counted its rows, and they are proved, but not published yet.",
    WindowStatus.PUBLISHED: "Its rows are published, but the verify task hasn't recorded a verdict yet.",
    WindowStatus.VERIFIED: "Published, and proved: what was read, what was written and the log agree.",
}
"""What states mean, in words for somebody on call."""
_REFUSED = "Its newest load was refused before an attempt began."
_EVIDENCE = {
    Evidence.MATCHED: "there is a record at or after the instant",
    Evidence.LOG_END: "there was no record at or after the instant, so it is the end of the log",
    Evidence.LOG_START: "the log starts there; earlier records, if there were any, are gone",
    Evidence.NEW_PARTITION: "the partition was added later, and its log starts there",
    Evidence.CLAMPED: "the offset is limited by a neighbouring snapshot that was stored earlier",
    Evidence.MATCHED_MARKER: "there is a transaction marker or an aborted record; later records may be older",
    Evidence.COMMITTED: "a group committed that offset",
}
_NAMED = 20
"""How many of an audit's ranges are shown."""
WHO = ("dag_id", "run_id", "task_id", "map_index", "try_number", "by_hand")
"""What an attempt, or an audit, says about who made it: an Airflow task, or a person by a command."""
_OF_PLACE = ("window", "state", "failure", "attempt", "run", "output", "audits")


def windows_table(ledger: Ledger, before: str | None, most: int) -> Json:
    """The last windows, or the last ones before a given window.

    :param before: a window's name; None for the last windows of the pipeline.
    :param most: how many windows.
    :raises LedgerError: when a file can't be read or is damaged.
    """
    upto = [each for each in ledger.state.windows.values() if before is None or each.name < before]
    shown, earlier = upto[-most:], upto[-most - 1 :]
    gaps = {later.name: one.end_ms for one, later in pairwise(earlier) if one.end_ms < later.start_ms}
    states, backfills = statuses(ledger, shown), backfilling(ledger.state)
    entries: list[Json] = []
    for each in shown:
        if each.name in gaps:
            entries.append(_gap(ledger, gaps[each.name], each.start_ms))
        entries.append(_window(ledger, each, states[each.name]) | {"backfill": each.name in backfills})
    return {"entries": entries, "more": len(upto) > len(shown)}


def _window(ledger: Ledger, window: Window, state: WindowStatus) -> Json:
    published = window.publication
    return {
        "kind": "window",
        "window": window.name,
        "state": state,
        "again": published is not None and window.loaded is None,
        "attempts": len(window.attempts),
        "running_ms": running_ms(window) if state is WindowStatus.LOADING else None,
        "failure": failure_of(ledger, window) if state is WindowStatus.FAILED else None,
        "start": iso_instant(window.start_ms),
        "end": iso_instant(window.end_ms),
        "offsets": window.offsets,
        "rows": None if published is None else published.rows,
        "lost": sum(lost_of(window).values()),
        "published_ms": None if published is None else published.published_ms,
        "audits": audit_words(window.audits),
        "audited_well": audit_problems(window.audits) is None,
    }


def _gap(ledger: Ledger, start_ms: int, end_ms: int) -> Json:
    """Time that no window has. Its offsets are None if a snapshot can't be read, which hides no window."""
    gap = {"kind": "hole", "start": iso_instant(start_ms), "end": iso_instant(end_ms)}
    try:
        missing = sorted(ledger.between(start_ms, end_ms), key=lambda each: -each.span)
    except LedgerError:
        return gap | {"state": "hole", "offsets": None, "worst": ""}
    worst = shorten(f"{each.topic}-{each.partition} ({each.span})" for each in missing) if missing else ""
    return gap | {
        "state": "hole" if missing else "absent",
        "offsets": sum(each.span for each in missing),
        "worst": worst,
    }


def window_panel(ledger: Ledger, window: Window, *, messages: bool = False) -> Json:
    """Everything about a window.

    :param messages: with the messages of errors of drivers, which may quote a record.
    :raises LedgerError: when a file can't be read or is damaged.
    """
    pinned, published = ledger.pinned(window), window.publication
    manifest = pinned.manifest
    result = None if published is None else ledger.published_result(window.name, published)
    state = status(ledger, window)
    return {
        "window": window.name,
        "state": state,
        "said": _STATES[state] if state is not WindowStatus.FAILED or window.refused is None else _REFUSED,
        "start": iso_instant(window.start_ms),
        "end": iso_instant(window.end_ms),
        "running_ms": running_ms(window) if state is WindowStatus.LOADING else None,
        "increment_of": window.by,
        "reloaded": window.reloaded or None,
        "again": published is not None and window.loaded is None,
        "manifest": pinned.uri,
        "sha256": pinned.sha256,
        "isolation_level": str(manifest.isolation_level),
        "offsets": manifest.span,
        "lost": sum(lost_of(window).values()),
        "publication": None if published is None else _publication(window, published, manifest, result),
        "attempts": [_attempt(ledger, window, manifest, attempt, messages) for attempt in window.attempts],
        "refusal": None if window.refused is None else _refusal(window.refused, messages),
        "audits": [_audit(ledger, window, audit) for audit in window.audits],
        "ranges": _ranges(window, manifest, result),
        "evidence": {str(kind): words for kind, words in _EVIDENCE.items()},
    }


def _ranges(window: Window, manifest: Manifest, result: RunResult | None) -> list[Json]:
    lost, rows = lost_of(window), _rows_by_partition(result)
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "start_offset": each.start_offset,
            "end_offset": each.end_offset,
            "offsets": each.span,
            "lost": lost[TopicPartition.of(each)],
            "rows": None if rows is None else rows.get(TopicPartition.of(each), 0),
            "start_evidence": str(each.start_evidence),
            "end_evidence": str(each.end_evidence),
        }
        for each in manifest.ranges
    ]


def _rows_by_partition(result: RunResult | None) -> dict[TopicPartition, int] | None:
    """Rows of each partition that has any; None without a result, and if a job made other rows of the records."""
    if result is None or result.derived:
        return None
    return {TopicPartition.of(tally): tally.count for tally in result.written}


def _publication(window: Window, published: Published, manifest: Manifest, result: RunResult | None) -> Json:
    attempt = window.attempt(published.attempt)
    lost = () if attempt is None else attempt.lost
    verdict = None if result is None else str(judge(manifest, result, lost))
    return {
        "attempt": published.attempt,
        "run": published.run,
        "published_at": iso_instant(published.published_ms),
        "read": None if result is None else result.read.count,
        "written": published.rows,
        "outputs": [output._asdict() for output in published.outputs],
        "verdict": (published.verdict or {}).get("verdict", verdict),
    }


def _attempt(ledger: Ledger, window: Window, manifest: Manifest, attempt: Attempted, messages: bool) -> Json:
    """An attempt: who made it, since when, what was lost when it began, and what each of its drivers says."""
    files = ledger.attempt(window.name, attempt.number)
    failure = files.failure()
    message = {} if failure is None or not messages else {"message": failure.message}
    return {
        "attempt": attempt.number,
        **_who(attempt),
        "begun_ms": attempt.begun_ms,
        "newest": attempt is window.newest_attempt,
        "lost": sum(each.span for each in attempt.lost),
        "losses": [each._asdict() | {"offsets": each.span} for each in attempt.lost],
        "failure": None if failure is None else told(failure) | message,
        "runs": [{"run": run} | _driver(files, run, manifest, attempt) for run in files.runs()],
    }


def _refusal(refused: Refused, messages: bool) -> Json:
    """A load that was refused before an attempt began: who wanted it, when, and why not."""
    note = FailureNote(refused.error, refused.message)
    message = {"message": note.message} if messages else {}
    return {**_who(refused), "refused_ms": refused.refused_ms, "failure": told(note) | message}


def _audit(ledger: Ledger, window: Window, audit: Audited) -> Json:
    """What an audit has found, with the first ranges, the missing ones first."""
    found = {
        "table": audit.table,
        "found": problem_words(audit.counts) or None,
        "counts": dict(audit.counts),
        "report": f"{ledger.uri}/{audit_file(window.name, audit.run)}",
        "rows": audit.rows,
        "records": audit.records,
        "audited_ms": audit.audited_ms,
        **_who(audit),
    }
    try:
        report = report_of(ledger, window, audit)
    except LedgerError as error:
        return found | {"problem": str(error), "ranges": []}
    order = list(Problem)
    named = sorted(report.findings, key=lambda each: order.index(Problem(each.problem)))
    ranges = [
        {
            **{name: getattr(each, name) for name in ("problem", "topic", "partition", "amount")},
            "start_offset": each.start_offset,
            "last_offset": each.end_offset - 1,
        }
        for each in named[:_NAMED]
    ]
    written = None if report.written is None else report.written.output
    return found | {"ranges": ranges, "more": len(named) > len(ranges), "written": written}


def _who(made: Attempted | Refused | Audited | None) -> Json:
    """Who made an attempt or an audit, or wanted to; None for what isn't known."""
    return {name: None if made is None else made.who.get(name) for name in WHO}


def _driver(files: AttemptFiles, run: str, manifest: Manifest, attempt: Attempted) -> Json:
    try:
        application, found = files.application(run), files.result(run)
    except LedgerError as error:
        return {"problem": str(error)}
    result = None if found is None else found[0]
    return {
        "application_id": None if application is None else application.id,
        "read": None if result is None else result.read.count,
        "written": None if result is None else result.rows_written,
        "seconds": None if result is None else result.seconds,
        "verdict": None if result is None else str(judge(manifest, result, attempt.lost)),
    }


def record(ledger: Ledger, topic: str, partition: int, offset: int) -> list[Json]:
    """Where a record is, with the attempt whose rows count; if none is published, the newest, or who was refused one
    since. Several places if the
    topic's log has begun anew, the oldest first; none if no window has the partition.

    :raises LedgerError: when a file can't be read or is damaged.
    """
    key = TopicPartition(topic, partition)
    return [_place(ledger, found, key, offset) for found in find(ledger, key, offset)]


def _place(ledger: Ledger, found: Found, partition: TopicPartition, offset: int) -> Json:
    place = {
        "where": found.where,
        "earlier": None if found.earlier is None else found.earlier.name,
        "later": None if found.later is None else found.later.name,
    }
    window = found.window
    if window is None:
        return place | dict.fromkeys(_OF_PLACE) | _who(None)
    published, state = window.publication, status(ledger, window)
    attempt = window.newest_attempt if published is None else window.attempt(published.attempt)
    refused = window.refused if published is None else None
    return place | {
        "window": window.name,
        "state": state,
        "failure": failure_of(ledger, window) if state is WindowStatus.FAILED else None,
        "attempt": None if attempt is None else attempt.number,
        "run": None if published is None else published.run,
        "output": None if published is None else published.output_of(partition.topic),
        "audits": audit_words_at(ledger, window, partition, offset),
        **_who(refused or attempt),
    }
