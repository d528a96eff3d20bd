"""What a load returns: what its attempt read and wrote, and what is published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.instants import rate_text
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest


def load_report(
    folder: WindowFolder, manifest: Manifest, published: Publication, attempt: str, own: RunResult | None
) -> dict[str, Any]:
    """The XCom of ``KafkaSparkSubmitOperator``. What of a window published before was read and written is told of the
    attempt that published it: a later one reads nothing from Kafka, and takes no time for it.

    :param folder: the published revision.
    :param manifest: what it was pinned to.
    :param attempt: the attempt that has just ended.
    :param own: what it has read and written of that revision; None where it hasn't.
    :raises LedgerCorruptError: when no such counts are in the ledger.
    """
    result = own or folder.published_result()[1]
    return {
        "window": folder.id,
        "attempt": attempt,
        "published_attempt": published.attempt,
        "rows": published.rows,
        "revision": folder.revision,
        "lost": manifest.lost_offsets,
        "output": published.output,
        "outside": published.outside,
        "offsets": manifest.span,
        "read": result.read.count,
        "written": result.rows_written,
        "gaps": max(0, manifest.span - result.read.count),
        "seconds": None if own is None else own.seconds,
        "records_a_second": None if own is None else _rate(own),
        "application_id": result.application_id,
    }


def told(report: Mapping[str, Any]) -> tuple[int, str, str]:
    """How many rows are where, and what this attempt had to do with it: for a line of the log."""
    output = report["output"] or "no file (empty window)"
    if report["seconds"] is not None and report["attempt"] == report["published_attempt"]:
        rate = rate_text(report["read"], report["seconds"])
        how = f"read, written and counted in {report['seconds']} s, {rate}"
    elif report["seconds"] is not None:
        how = f"attempt {report['published_attempt']} came first, and what this one wrote counts for nothing"
    else:
        how = f"attempt {report['published_attempt']} published them before; this one counted them again"
    return report["rows"], output, how


def _rate(result: RunResult) -> float | None:
    return round(result.read.count / result.seconds, 3) if result.seconds else None
