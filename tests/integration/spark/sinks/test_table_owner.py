"""Whose a table is: one ledger's, by a property that names it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession, functions as F

from airflow_kafka_offsets.errors import LedgerConflictError
from airflow_kafka_offsets.spark.sinks.table_owner import sql_name
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.sinks.conftest import OTHER, attempt_of, publish
from tests.unit.spark.manifests import manifest_of


class TestOwner:
    def test_a_table_that_the_user_has_made_becomes_the_ledgers_that_loads_it_first(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, table_sink: TableSink
    ) -> None:
        manifest = manifest_of([(flights, 0, 0, 9)])
        rows = open_window(manifest).read()
        made = (
            rows.limit(0)
            .withColumn("window", F.lit(""))
            .writeTo(sql_name(table_sink.kind, table_sink.table))
            .using(table_sink.kind)
        )
        made.partitionedBy(F.col("window")).create()
        table_sink.replace(rows, attempt_of(manifest))

        with pytest.raises(LedgerConflictError, match=rf"is a table of ledger {manifest.ledger_id}"):
            table_sink.replace(rows, attempt_of(manifest, ledger_id=OTHER))

    @pytest.mark.nightly("a name that Spark redacts; the first test shows whose a table is")
    def test_no_name_of_a_pipeline_is_taken_for_another_ones_because_spark_redacts_it(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, table_sink: TableSink
    ) -> None:
        name = "orders_hourly-tokens-secret_x-accesskey-password"  # each of them is redacted for a reason of its own
        manifest = replace(manifest_of([(flights, 0, 0, 10)]), pipeline=name)
        publish(open_window(manifest), table_sink)
        publish(open_window(manifest, again=True), table_sink)
        with pytest.raises(LedgerConflictError, match=rf"is a table of ledger {manifest.ledger_id} .*according to"):
            table_sink.current(spark, attempt_of(manifest, ledger_id=OTHER))

    def test_an_identity_that_a_sites_own_pattern_redacts_is_named(
        self, spark: SparkSession, open_window: OpenWindow, flights: str, table_sink: TableSink
    ) -> None:
        manifest = manifest_of([(flights, 0, 0, 10)])
        spark.conf.set("spark.sql.redaction.options.regex", "[0-9a-f]{32}")
        try:
            with pytest.raises(LedgerConflictError, match=r"redacted.*spark\.sql\.redaction\.options\.regex"):
                publish(open_window(manifest), table_sink)
        finally:
            spark.conf.unset("spark.sql.redaction.options.regex")
