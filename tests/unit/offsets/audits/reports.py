"""Reports of audits made by hand."""

from __future__ import annotations

from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.report import AuditReport, PartitionCounts
from airflow_kafka_offsets.offsets.proof.checksum import Checksum
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from tests.unit.offsets.builders import T0


def complete(manifest: Manifest) -> AuditReport:
    """A report that a table has each offset of a window of one range, by its own sums."""
    (whole,) = [each.log_range for each in manifest.ranges]
    counts = whole.span, whole.span, Checksum.of(manifest).every_offset([whole]).checksum
    return AuditReport(
        run="0a1b2c3d",
        window=manifest.window,
        manifest_sha256=manifest.sha256,
        table=AuditedTable(table="lake.t"),
        counts={},
        findings=(),
        partitions=(PartitionCounts(*whole, *counts),),
        audited_ms=T0,
        seconds=1.0,
    )
