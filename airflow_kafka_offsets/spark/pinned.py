"""The pinned window: what a Spark job reads, and writes with its proof."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.spark.conf import ALLOW_GAPS, MANIFEST, SHA256, RunConf
from airflow_kafka_offsets.spark.files.hadoop import hadoop_uri
from airflow_kafka_offsets.spark.ledger.failure_file import failures_noted
from airflow_kafka_offsets.spark.pinned_read import PinnedRead
from airflow_kafka_offsets.spark.sink import Sink
from airflow_kafka_offsets.spark.writing import write


class PinnedWindow(PinnedRead):
    """A window that a Spark session may read, and write."""

    def write(self, rows: DataFrame, sink: Sink) -> RunResult:
        """Write the rows and prove them; see :func:`~airflow_kafka_offsets.spark.writing.write`. Airflow's side
        publishes them then."""
        with failures_noted(self.spark, self.folder, self.attempt):
            result = write(self, rows, sink)
        self.proved_read = result.read
        return result


def pinned_window(
    spark: SparkSession,
    manifest_uri: str | None = None,
    sha256: str | None = None,
    *,
    allow_gaps: bool | None = None,
) -> PinnedWindow:
    """The window that a Spark job is to read.

    Without more arguments it is the one that this job was submitted for, from its confs (see
    :mod:`airflow_kafka_offsets.spark.conf`). Elsewhere, as in a notebook or under Spark Connect, name the manifest and
    its hash, which ``KafkaResolveWindowOperator`` returns; brokers then come from confs or from ``read()``'s options.

    :param spark: the session, also one of Spark Connect.
    :param manifest_uri: URI of the window's ``manifest.json``.
    :param sha256: hex digest that its bytes must have.
    :param allow_gaps: offsets without a record are expected, as transactions leave them; None goes by the conf.
    :raises ConfigurationError: when a conf is missing or malformed.
    :raises LedgerCorruptError: when the manifest isn't the one that was pinned.
    """
    given = {MANIFEST: manifest_uri, SHA256: sha256}
    confs = dict(spark.conf.getAll) | {name: value for name, value in given.items() if value is not None}
    if allow_gaps is not None:
        confs[ALLOW_GAPS] = str(allow_gaps).lower()
    conf = RunConf.read(confs, os.environ)
    with failures_noted(spark, hadoop_uri(conf.manifest_uri).rpartition("/")[0], conf.attempt):
        return PinnedWindow.open(spark, conf)
