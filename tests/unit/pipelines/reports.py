"""Reports of audits made by hand, and left in a ledger as drivers leave them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ClusterUnreachableError, KafkaOffsetsError
from airflow_kafka_offsets.ledger.files import audit_file
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.report import AuditReport, PartitionCounts
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.pipelines.audits import record
from airflow_kafka_offsets.pipelines.loads import ClientFactory
from tests.unit.offsets.builders import T0


def complete(manifest: Manifest) -> AuditReport:
    """A report that a table has each offset of a window of one range, by its own sums."""
    (whole,) = [each.log_range for each in manifest.ranges]
    counts = whole.span, Checksum.of(manifest).every_offset([whole]).checksum
    return AuditReport(
        run="0a1b2c3d",
        window=manifest.window,
        manifest_sha256=manifest.sha256,
        table=AuditedTable(table="lake.t"),
        counts={},
        findings=(),
        partitions=(PartitionCounts(*whole, *counts, *counts),),
        audited_ms=T0,
        seconds=1.0,
    )


def nobody() -> AbstractContextManager[OffsetsClient]:
    """No broker can be asked."""
    raise ClusterUnreachableError("no broker answered")


def recorded(
    ledger: Ledger, report: AuditReport, *, client_factory: ClientFactory = nobody, **who: Any
) -> AuditReport | KafkaOffsetsError:
    """What comes of a report that a driver has left."""
    assert ledger.files.create(audit_file(report.window, report.run), report.to_bytes())
    wanted = Wanted(ledger, report.window, ledger.window(report.window).manifest)
    return record(client_factory, [wanted], report.run, who)[wanted]
