"""The ready-made audit: a table that something else has written, compared with a window of Kafka. Run it with
spark-submit; it changes neither the table nor Kafka.

What it finds goes into one file in the window's folder of the ledger, and the same JSON is the last line on stdout.
Airflow's side records it. An error of this package prints one line and exits with status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from airflow_kafka_offsets.compat.spark_versions import confs_of
from airflow_kafka_offsets.errors import ConfigurationError, KafkaOffsetsError, LedgerCorruptError
from airflow_kafka_offsets.ledger.files import audit_failure_file, audit_file
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.proof.driver_notes import exit_line, note_of
from airflow_kafka_offsets.offsets.proof.run_result import RUN
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.audits.kept_census import kept_census
from airflow_kafka_offsets.spark.audits.table_audit import AuditRequest, audit_table
from airflow_kafka_offsets.spark.session.conf import RunConf
from airflow_kafka_offsets.spark.session.connect import files_of
from airflow_kafka_offsets.spark.session.files import hadoop_uri
from airflow_kafka_offsets.spark.window.ledger import PipelineFiles


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


def run_audit(spark: SparkSession, arguments: argparse.Namespace) -> AuditReport:
    """Audit the window that the job's confs name, and store what was found."""
    conf = RunConf.read(confs_of(spark), os.environ)
    if not RUN.fullmatch(arguments.run):
        raise ConfigurationError(f"--run is 8 hex digits, not {arguments.run!r}.")
    pipeline_uri, _, window, _ = hadoop_uri(conf.manifest_uri).rsplit("/", 3)
    files, run = PipelineFiles(files_of(spark), pipeline_uri), arguments.run
    with _failures_noted(files, window, run):
        content = files_of(spark).read(conf.manifest_uri)
        if content is None:
            raise LedgerCorruptError(f"There is no manifest at {conf.manifest_uri}.")
        manifest = Manifest.from_bytes(content, conf.sha256)
        census = kept_census(spark, pipeline_uri, manifest)
        request = AuditRequest(run, arguments.table, arguments.writer_group, arguments.write_missing, census)
        report = audit_table(spark, manifest, conf, request)
        files.create(audit_file(window, run), report.to_bytes())
    return report


@contextmanager
def _failures_noted(files: PipelineFiles, window: str, run: str) -> Iterator[None]:
    """Note an error of this package that ends the block, for the waiting task, and re-raise it."""
    try:
        yield
    except KafkaOffsetsError as error:
        with suppress(Exception):  # the error itself is what counts
            files.create(audit_failure_file(window, run), note_of(error).to_bytes())
        raise


def main(argv: Sequence[str] | None = None) -> None:
    """The application."""
    arguments = parse_arguments(argv)
    spark = SparkSession.builder.appName("kafka-offsets-audit").getOrCreate()
    try:
        print(run_audit(spark, arguments).to_bytes().decode(), flush=True)
    except KafkaOffsetsError as error:
        sys.exit(exit_line(error))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
