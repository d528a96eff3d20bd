"""The ready-made audit: a table that something else has written, compared with windows of Kafka. Run it with
spark-submit; it changes neither the table nor Kafka.

What it finds is printed, one line for each window, and goes into one file in each window's folder of the ledger.
Airflow's side records it. An error of this package prints one line and exits with status 1; what was found of other
windows is there all the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress

from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError
from airflow_kafka_offsets.ledger.contents import Contents
from airflow_kafka_offsets.ledger.files import audit_failure_file, audit_file
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.proof.driver_notes import exit_line, note_of
from airflow_kafka_offsets.offsets.proof.run_result import RUN
from airflow_kafka_offsets.spark.audits.table_audit import Outcome, audit_table
from airflow_kafka_offsets.spark.audits.table_sums import AuditedWindow, AuditRequest
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.session.connect import files_of
from airflow_kafka_offsets.spark.session.files import hadoop_uri
from airflow_kafka_offsets.spark.window.ledger import PipelineFiles, log_of
from airflow_kafka_offsets.spark.window.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.windows import run_confs


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="audit_table.py", description="Compare a table with a pinned window of Kafka records."
    )
    parser.add_argument("--table", required=True, type=_table, metavar="JSON", help="an AuditedTable's arguments")
    parser.add_argument("--run", required=True, help="the audit's own name, 8 hex digits")
    parser.add_argument(
        "--writer-group", help="consumer group of the table's writer: offsets above its commits may be late"
    )
    parser.add_argument("--write-missing", metavar="FOLDER", help="write the missing records there")
    return parser.parse_args(argv)


def _table(text: str) -> AuditedTable:
    try:
        return AuditedTable.from_json(json.loads(text))
    except (ValueError, ConfigurationError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run_audit(spark: SparkSession, arguments: argparse.Namespace) -> list[Outcome]:
    """Audit the windows that the job's confs name; print and store what was found of each, or why it couldn't be."""
    if not RUN.fullmatch(arguments.run):
        raise ConfigurationError(f"--run is 8 hex digits, not {arguments.run!r}.")
    confs = run_confs(spark)
    try:
        windows = _windows(spark, confs)
        request = AuditRequest(arguments.run, arguments.table, arguments.writer_group, arguments.write_missing)
        outcomes = audit_table(spark, windows, confs[0], request)
    except KafkaOffsetsError as error:
        outcomes = [error] * len(confs)
    for conf, outcome in zip(confs, outcomes, strict=True):
        pipeline_uri, _, window, _ = hadoop_uri(conf.manifest_uri).rsplit("/", 3)
        files = PipelineFiles(files_of(spark), pipeline_uri)
        if isinstance(outcome, AuditReport):
            print(f"Window {window}: {outcome}", flush=True)
            files.create(audit_file(window, arguments.run), outcome.to_bytes())
            continue
        with suppress(Exception):  # the error itself is what counts
            files.create(audit_failure_file(window, arguments.run), note_of(outcome).to_bytes())
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


def main(argv: Sequence[str] | None = None) -> None:
    """The application."""
    arguments = parse_arguments(argv)
    spark = SparkSession.builder.appName("kafka-offsets-audit").getOrCreate()
    try:
        for outcome in run_audit(spark, arguments):
            if isinstance(outcome, KafkaOffsetsError):
                raise outcome
    except KafkaOffsetsError as error:
        sys.exit(exit_line(error))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
