"""What a load returns: what its attempt read and wrote, and what is published."""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.audit import RunResult
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.publication import Publication


def load_report(folder: WindowFolder, manifest: Manifest, published: Publication, attempt: str) -> dict[str, Any]:
    """The XCom of ``KafkaSparkSubmitOperator``. What a window published before was read and written is told of the
    attempt that published it: a later one reads nothing from Kafka.

    :param folder: the published revision.
    :param manifest: what it was pinned to.
    :param attempt: the attempt that has just ended.
    :raises LedgerCorruptError: when no such counts are in the ledger.
    """
    result = folder.result(attempt) or folder.published_result()[1]
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
        "seconds": result.seconds,
        "records_a_second": _rate(result),
        "application_id": result.application_id,
    }


def _rate(result: RunResult) -> int | None:
    return round(result.read.count / result.seconds) if result.seconds else None
