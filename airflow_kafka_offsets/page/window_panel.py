"""The panel of one window: its revisions with their ranges, evidence, attempts and proof. It shows no records, and no
driver's error message, because that may quote a record."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow_kafka_offsets.errors import LedgerError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.summaries import summary_of
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.ledger.window_listing import WindowState
from airflow_kafka_offsets.offsets.instants import iso_instant
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.windows.ranges import OffsetRange
from airflow_kafka_offsets.offsets.windows.snapshots import Evidence
from airflow_kafka_offsets.page.answer import Answer, encoded
from airflow_kafka_offsets.page.windows_table import rows_by_partition
from airflow_kafka_offsets.page.writers import dags_of_window

Json = dict[str, Any]

_STATES = {
    "pinned": "Its ranges are pinned, and no load has begun.",
    "loading": "A load was submitted and may be running; no failure has been recorded.",
    "failed": "Every attempt to load it is known to have failed. Clear the Airflow run to try again.",
    "counted": "A load has written and counted its rows, but they aren't published yet.",
    "lost": "Kafka deleted some of its records before they were loaded.",
    "published": "Its rows are published, but the verify task hasn't recorded a verdict yet.",
    "verified": "Published, and proved: what was read, what was written and the log agree.",
    "hole": "These offsets are between two windows, and no window has them.",
    "overlap": "Another published window contains some of the same offsets.",
    "revised": "The window was pinned again; the newest published revision counts.",
}
"""What states mean, in words for somebody on call."""
_EVIDENCE = {
    Evidence.MATCHED: "there is a record at or after the instant",
    Evidence.LOG_END: "there was no record at or after the instant, so it is the end of the log",
    Evidence.LOG_START: "the log starts there; earlier records, if there were any, are gone",
    Evidence.NEW_PARTITION: "the partition was added later, and its log starts there",
    Evidence.CLAMPED: "the offset is limited by a neighbouring snapshot that was stored earlier",
    Evidence.MATCHED_MARKER: "there is a transaction marker or an aborted record; later records may be older",
    Evidence.COMMITTED: "a group committed that offset",
    Evidence.CHOSEN: "the user chose that instant as the start of an added topic",
}


def window_panel(ledger: Ledger, window: str) -> Answer:
    """Everything about a window; empty if none of its revisions counts.

    :raises LedgerError: when a file can't be read or is damaged.
    """
    folders = ledger.window_folders.live(window)
    counting = ledger.window_folders.publication(window)
    revisions = [
        _revision(ledger, folder, pinned, counting) for folder in folders if (pinned := folder.pinned()) is not None
    ]
    if not revisions:
        return Answer(b"")
    shown = {
        "window": window,
        "revisions": revisions,
        "publications": [_publication(each, counting) for each in folders[0].publications.all()],
        "states": _STATES,
        "evidence": {str(kind): words for kind, words in _EVIDENCE.items()},
    }
    return Answer(encoded(shown), dags_of_window(ledger, window, folders))


def _revision(ledger: Ledger, folder: WindowFolder, pinned: PinnedManifest, counting: Publication | None) -> Json:
    manifest, listing = pinned.manifest, folder.listing()
    published = listing.publication
    result = None if published is None else folder.result(published.attempt)
    rows = rows_by_partition(result)
    summary = summary_of(folder, pinned, listing)
    later = folder.lost_since() if summary.state is WindowState.LOST else {}
    return {
        "revision": folder.revision,
        "counts": counting is not None and counting.revision == folder.revision,
        "state": summary.state,
        "manifest": pinned.uri,
        "sha256": pinned.sha256,
        "isolation_level": str(manifest.isolation_level),
        "offsets": manifest.span,
        "lost": manifest.lost_offsets,
        "noted_losses": [str(loss) for loss in folder.losses()],
        "read": None if result is None else result.read.count,
        "written": None if result is None else result.rows_written,
        "output": None if published is None else published.output,
        "further": [] if published is None else [asdict(output) for output in published.further],
        "verdict": None if result is None else str(judge(manifest, result, published)),
        "ranges": [
            {"topic": each.topic}
            | range_fields(each)
            | {"lost": each.lost_offsets + later.get(TopicPartition.of(each), 0)}
            | {"rows": None if rows is None else rows.get(TopicPartition.of(each), 0)}
            for each in manifest.ranges
        ],
        "attempts": [_attempt(folder, attempt) for attempt in listing.attempts],
    }


def range_fields(offset_range: OffsetRange) -> Json:
    """A range, as in all answers. Offsets are text, because a browser's numbers are exact only up to 2^53."""
    return {
        "partition": offset_range.partition,
        "start_offset": str(offset_range.start_offset),
        "end_offset": str(offset_range.end_offset),
        "offsets": offset_range.span,
        "lost": offset_range.lost_offsets,
        "start_evidence": str(offset_range.start_evidence),
        "end_evidence": str(offset_range.end_evidence),
    }


def _attempt(folder: WindowFolder, attempt: str) -> Json:
    noted = folder.attempt(attempt)
    run = noted.get("airflow") or {}
    try:
        application, failure, result = folder.application(attempt), folder.failure(attempt), folder.result(attempt)
    except LedgerError as error:
        return {"attempt": attempt, "problem": str(error)}
    return {
        "attempt": attempt,
        "started_at": noted.get("started_at"),
        **{name: run.get(name) for name in ("dag_id", "run_id", "task_id")},
        "application_id": None if application is None else application.id,
        "failed": None if failure is None else failure.error,
        "read": None if result is None else result.read.count,
        "written": None if result is None else result.rows_written,
        "seconds": None if result is None else result.seconds,
    }


def _publication(publication: Publication, counting: Publication | None) -> Json:
    return {
        "number": publication.number,
        "revision": publication.revision,
        "attempt": publication.attempt,
        "published_at": iso_instant(publication.published_ms),
        "rows": publication.rows,
        "sink": publication.sink,
        "counts": counting is not None and counting.number == publication.number,
    }
