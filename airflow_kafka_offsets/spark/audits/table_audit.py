"""The audit of a table: does it have each record of some windows, once, and no other row of them?

The table is read first, once for all windows. A cell (:mod:`~airflow_kafka_offsets.offsets.audits.cells`) whose sums
are those of all its offsets is complete: if every offset has a record, Kafka isn't asked at all. Of the others, the
log's offsets are summed up too, and where these sums differ, rows and records are compared one by one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.offsets.audits.cells import total
from airflow_kafka_offsets.offsets.audits.findings import UNCONFIRMED, Problem
from airflow_kafka_offsets.offsets.audits.report import AuditReport, PartitionCounts
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.spark.audits.log_audit import KAFKA, LogAudit
from airflow_kafka_offsets.spark.audits.log_facts import commits_of
from airflow_kafka_offsets.spark.audits.table_sums import AuditedWindow, AuditRequest, TableSums
from airflow_kafka_offsets.spark.session.connect import application_of, require_driver
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_kafka_offsets.spark.session.conf import RunConf

Outcome = AuditReport | KafkaOffsetsError
"""A window's report; or the error because of which there is none."""


def audit_table(
    spark: SparkSession, windows: Sequence[AuditedWindow], conf: RunConf, request: AuditRequest
) -> list[Outcome]:
    """Compare a table with windows of one cluster. Returns what was found of each; for a window that can't be judged,
    the error that says why: see :meth:`.LogAudit.compare`.

    :param windows: at least one, in order of time.
    :raises ConfigurationError: when the table can't be read as it was described, or the writer's group has no commits.
    :raises UncheckedSourceError: when Kafka can't be asked for the group's commits.
    """
    started = time.monotonic()
    # The group is asked first: what it had committed by then should be in the table.
    commits = _commits(spark, windows, conf, request.writer_group)
    table = TableSums.of(spark, request.table, windows)
    suspect = list(table.not_shown_complete(allow_gaps=conf.allow_gaps))
    outcomes = dict[int, Outcome]()
    for places in table.logs():
        audit, own = LogAudit(table, places, conf, request, commits), set(places)
        try:
            audit.compare(key for key in suspect if key.window in own)
        except KafkaOffsetsError as error:
            unjudged = {key.window for key in (*audit.suspect, *table.others)}
            outcomes |= {place: error for place in places if place in unjudged}
        for place in places:
            if place not in outcomes:
                report = _report(table, place, audit, request)
                outcomes[place] = replace(report, seconds=round(time.monotonic() - started, 3))
    return [outcomes[place] for place in range(len(windows))]


def _commits(
    spark: SparkSession, windows: Sequence[AuditedWindow], conf: RunConf, group: str | None
) -> Mapping[TopicPartition, int]:
    ranges = {TopicPartition.of(each): each for window in windows for each in window.manifest.non_empty()}
    if group is None or not ranges:
        return {}
    require_driver(spark, KAFKA)
    read = PinnedRead(spark, replace(windows[-1].manifest, ranges=tuple(ranges.values())), conf)
    read.frame({})
    return commits_of(read.clients(), group, ranges)


def _report(table: TableSums, place: int, audit: LogAudit, request: AuditRequest) -> AuditReport:
    """The report of a window."""
    found, manifest = audit.found, table.windows[place].manifest
    counts, application = found.counts.get(place, {}), application_of(table.rows.sparkSession)
    named = (each for each in found.findings.get(place, ()) if each.problem != UNCONFIRMED)
    return AuditReport(
        run=request.run,
        window=manifest.window,
        manifest_sha256=manifest.sha256,
        table=request.table,
        counts={problem: counts[problem] for problem in Problem if counts.get(problem)},
        findings=tuple(sorted(named)),
        partitions=tuple(_partitions(table, place, audit)),
        looked_at=found.looked_at[place],
        counted=found.counted[place],
        compacted=tuple(sorted(audit.compacted.intersection(manifest.topics))),
        unconfirmed=counts.get(UNCONFIRMED, 0),
        source=found.source if found.looked_at[place] else None,
        written=found.written.get(place),
        application_id=None if application is None else application.id,
        seconds=0.0,
        audited_ms=now_ms(),
    )


def _partitions(table: TableSums, place: int, audit: LogAudit) -> Iterator[PartitionCounts]:
    """The counts of each partition of a window."""
    for whole in table.ranges[place]:
        keys = table.cells.of_partition(place, whole)
        # A cell that isn't suspect has the sums of the log.
        of_log = [audit.found.of_log.get(key) if key in audit.suspect else table.own[key] for key in keys]
        records = total(of_log) if None not in of_log else None
        rows = total(sums.get(key) for sums in (table.own, table.others) for key in keys)
        yield PartitionCounts(*whole, *rows, *((None, None) if records is None else records))
