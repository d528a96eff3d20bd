"""The ready-made audit: a table that something else has written, compared with windows of Kafka. Run it with
spark-submit; it changes neither the table nor Kafka.

What it finds is printed, one line for each window, and goes into one file in each window's folder of the ledger.
Airflow's side records it. An error of this package prints one line and exits with status 1; what was found of other
windows is there all the same.

The table is read first, once for all windows. A cell (:mod:`~airflow_kafka_offsets.offsets.audits.cells`) whose sums
are those of all its offsets is complete: if every offset has a record, Kafka isn't asked at all. Of the others, the
log's offsets are summed up too, and where these sums differ, rows and records are compared one by one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.files import audit_failure_file, audit_file
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.cells import total
from airflow_kafka_offsets.offsets.audits.report import UNCONFIRMED, AuditReport, PartitionCounts, Problem
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.proof.driver_notes import exit_line, note_of
from airflow_kafka_offsets.offsets.proof.run_result import RUN
from airflow_kafka_offsets.spark.audits.log_audit import KAFKA, LogAudit
from airflow_kafka_offsets.spark.audits.table_rows import AuditedWindow, AuditRequest, TableSums
from airflow_kafka_offsets.spark.kafka.clients import commits_of
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.session.files import files_of, hadoop_uri
from airflow_kafka_offsets.spark.session.session import application_of, require_driver
from airflow_kafka_offsets.spark.window.ledger import PipelineFiles, log_of
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.windows import run_confs

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
                outcomes[place] = _report(table, place, audit, request, started)
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


def _report(table: TableSums, place: int, audit: LogAudit, request: AuditRequest, started: float) -> AuditReport:
    """The report of a window; ``started`` is when the audit began, on the monotonic clock."""
    manifest = table.windows[place].manifest
    counts, application = audit.counts.get(place, {}), application_of(table.rows.sparkSession)
    named = (each for each in audit.findings.get(place, ()) if each.problem != UNCONFIRMED)
    return AuditReport(
        run=request.run,
        window=manifest.window,
        manifest_sha256=manifest.sha256,
        table=request.table,
        counts={problem: counts[problem] for problem in Problem if counts.get(problem)},
        findings=tuple(sorted(named)),
        partitions=tuple(_partitions(table, place, audit)),
        looked_at=audit.looked_at[place],
        counted=audit.counted[place],
        compacted=tuple(sorted(audit.compacted.intersection(manifest.topics))),
        unconfirmed=counts.get(UNCONFIRMED, 0),
        source=audit.source if audit.looked_at[place] else None,
        written=audit.written.get(place),
        application_id=None if application is None else application.id,
        seconds=round(time.monotonic() - started, 3),
        audited_ms=now_ms(),
    )


def _partitions(table: TableSums, place: int, audit: LogAudit) -> Iterator[PartitionCounts]:
    """The counts of each partition of a window."""
    for whole in table.ranges[place]:
        keys = table.cells.of_partition(place, whole)
        # A cell that isn't suspect has the sums of the log.
        of_log = [audit.of_log.get(key) if key in audit.suspect else table.own[key] for key in keys]
        records = total(of_log) if None not in of_log else None
        rows = total(sums.get(key) for sums in (table.own, table.others) for key in keys)
        yield PartitionCounts(*whole, *rows, *((None, None) if records is None else records))


def run_audit(spark: SparkSession, request: AuditRequest) -> list[Outcome]:
    """Audit the windows that the job's confs name; print and store what was found of each, or why it couldn't be."""
    if not RUN.fullmatch(request.run):
        raise ConfigurationError(f"--run is 8 hex digits, not {request.run!r}.")
    confs = run_confs(spark)
    try:
        outcomes = audit_table(spark, _windows(spark, confs), confs[0], request)
    except KafkaOffsetsError as error:
        outcomes = [error] * len(confs)
    for conf, outcome in zip(confs, outcomes, strict=True):
        pipeline_uri, _, window, _ = hadoop_uri(conf.manifest_uri).rsplit("/", 3)
        files = PipelineFiles(files_of(spark), pipeline_uri)
        if isinstance(outcome, AuditReport):
            print(f"Window {window}: {outcome}", flush=True)
            files.create(audit_file(window, request.run), outcome.to_bytes())
            continue
        with suppress(Exception):  # the error itself is what counts
            files.create(audit_failure_file(window, request.run), note_of(outcome).to_bytes())
    return outcomes


def _windows(spark: SparkSession, confs: Sequence[RunConf]) -> list[AuditedWindow]:
    """The manifests, and what was counted of their windows."""
    states, found = dict[str, State](), []
    for conf in confs:
        manifest = PinnedRead.open(spark, conf).manifest
        folder = hadoop_uri(conf.manifest_uri).rsplit("/", 3)[0]
        if folder not in states:
            states[folder] = log_of(spark, folder, conf.commit).read()
        window = states[folder].windows.get(manifest.window)
        census = None
        if window is not None and window.manifest == manifest.sha256:
            census = Contents(PipelineFiles(files_of(spark), folder), folder).census(window)
        found.append(AuditedWindow(manifest, census))
    return found


def _request(argv: Sequence[str] | None) -> AuditRequest:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="audit_table.py", description="Compare a table with a pinned window of Kafka records."
    )
    parser.add_argument("--table", required=True, type=_table, metavar="JSON", help="an AuditedTable's arguments")
    parser.add_argument("--run", required=True, help="the audit's own name, 8 hex digits")
    parser.add_argument(
        "--writer-group", help="consumer group of the table's writer: offsets above its commits may be late"
    )
    parser.add_argument("--write-missing", dest="missing_to", metavar="FOLDER", help="write the missing records there")
    return AuditRequest(**vars(parser.parse_args(argv)))


def _table(text: str) -> AuditedTable:
    try:
        return AuditedTable.from_json(json.loads(text))
    except (ValueError, ConfigurationError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def main(argv: Sequence[str] | None = None) -> None:
    """The application."""
    request = _request(argv)
    spark = SparkSession.builder.appName("kafka-offsets-audit").getOrCreate()
    try:
        for outcome in run_audit(spark, request):
            if isinstance(outcome, KafkaOffsetsError):
                raise outcome
    except KafkaOffsetsError as error:
        sys.exit(exit_line(error))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
