"""Audits of tables of all kinds, and of what a stream has written that was killed and started again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_offsets.errors import ConfigurationError, SparkFailedError
from airflow_kafka_offsets.ledger.certificate import check_query
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.spark.audits import log_audit
from dev.kafka import Broker
from tests.integration.spark.audits.conftest import NOBODY, Audit, frame, places
from tests.integration.spark.conftest import MakeFlights
from tests.unit.spark.manifests import manifest_of


class TestTables:
    def test_rows_of_another_source_are_foreign(
        self, spark: SparkSession, audit: Audit, written: Any, flights: str
    ) -> None:
        """They are neither the window's records nor doubled ones; and Kafka isn't asked for that."""
        manifest = manifest_of([(flights, 0, 0, 10)])
        table = written([(flights, 0, offset) for offset in range(12)])
        rows = (
            "SELECT *, 'eu' AS cluster FROM parquet.`{0}` UNION ALL SELECT *, 'us' FROM parquet.`{0}` WHERE offset > 7"
        )
        by_query = AuditedTable(query=rows.format(table.path), source="cluster = 'eu'")
        report = audit(manifest, by_query, servers=NOBODY)
        assert (dict(report.counts), report.rows, report.records) == ({"foreign": 2}, 12, 10)
        assert places(report) == [("foreign", 0, 8, 9)]
        unknown = replace(by_query, source="IF(cluster = 'eu', true, NULL)")
        assert dict(audit(manifest, unknown).counts) == {"doubled": 2}, "what doesn't tell is taken as the window's"

    @pytest.mark.parametrize(
        ("expression", "found"),
        [
            ("cast(offset AS string)", {}),
            ("cast(offset AS decimal(38, 0))", {}),
            ("cast(offset AS double)", {}),
            ("IF(offset = 3, 2.5, offset)", {"missing": 1}),
            ("IF(offset = 3, 'three', cast(offset AS string))", {"missing": 1}),
            ("-offset", {"missing": 9}),
        ],
    )
    def test_offsets_are_whole_numbers_of_any_type(
        self, audit: Audit, written: Any, flights: str, expression: str, found: dict[str, int]
    ) -> None:
        table = written([(flights, 0, offset) for offset in range(10)])
        assert dict(audit(manifest_of([(flights, 0, 0, 10)]), replace(table, offset=expression)).counts) == found

    def test_one_that_changes_while_it_is_judged_is_audited_again(
        self, spark: SparkSession, audit: Audit, flights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its second reading has another row than its first one."""
        folder = f"file://{tmp_path}/table"
        frame(spark, [(flights, 0, offset) for offset in range(9)]).write.format("delta").save(folder)
        asked = log_audit.log_facts

        def meanwhile(*given: Any) -> Any:
            frame(spark, [(flights, 0, 9)]).write.format("delta").mode("append").save(folder)
            return asked(*given)

        monkeypatch.setattr(log_audit, "log_facts", meanwhile)
        with pytest.raises(SparkFailedError, match="has changed at the offsets of the windows"):
            audit(manifest_of([(flights, 0, 0, 10)]), AuditedTable(folder, format="delta"))

    def test_the_certificates_query_finds_what_the_audit_did(
        self, spark: SparkSession, audit: Audit, written: Any, flights: str
    ) -> None:
        manifest = manifest_of([(flights, 0, 10, 90), (flights, 2, 0, 125)])
        rows = [(flights, 0, offset) for offset in range(100)] + [(flights, 2, offset) for offset in range(130)]
        table = replace(written(rows), where="offset >= 0")
        report, relation = audit(manifest, table, servers=NOBODY), table.relation
        assert relation is not None
        query = check_query([relation], manifest, table.columns, table.where)
        assert [tuple(row) for row in spark.sql(query).collect()] == [
            (each.topic, each.partition, each.rows, each.checksum) for each in report.partitions
        ]

    @pytest.mark.parametrize(
        ("made", "described"),
        [
            (
                (
                    "CREATE TABLE lake.{name} USING iceberg AS "
                    "SELECT struct(topic, partition, offset) AS _kafka_metadata FROM rows"
                ),
                {"table": "lake.{name}", "preset": "iceberg-connect-nested"},
            ),
            (
                (
                    "CREATE TABLE delta.`{folder}` USING delta AS SELECT to_json(struct(topic, partition, offset)) AS "
                    "RECORD_METADATA, '2026-11-21' AS day FROM rows"
                ),
                {"path": "{folder}", "format": "delta", "preset": "snowflake", "where": "day = '2026-11-21'"},
            ),
            (
                (
                    "CREATE TABLE lake.{name} USING iceberg AS SELECT partition AS _hoodie_kafka_source_partition, "
                    "offset AS _hoodie_kafka_source_offset FROM rows"
                ),
                {"query": "SELECT * FROM lake.{name}", "preset": "hudi"},
            ),
        ],
        ids=["nested", "json", "query without a topic"],
    )
    def test_of_all_kinds_are_read_by_expressions(
        self, spark: SparkSession, audit: Audit, flights: str, tmp_path: Path, made: str, described: dict[str, str]
    ) -> None:
        names = {"name": f"audited_{flights.replace('-', '_')}_{abs(hash(made))}", "folder": f"file://{tmp_path}/table"}
        frame(spark, [(flights, 0, offset) for offset in range(9)]).createOrReplaceTempView("rows")
        spark.sql(made.format(**names))
        table = AuditedTable(**{name: value.format(**names) for name, value in described.items()})
        report = audit(manifest_of([(flights, 0, 0, 10)]), table)
        assert places(report) == [("missing", 0, 9, 9)]

    def test_a_wrong_expression_is_named_and_is_not_an_empty_table(
        self, spark: SparkSession, audit: Audit, written: Any, flights: str
    ) -> None:
        manifest, table = manifest_of([(flights, 0, 0, 10)]), written([(flights, 0, 1)])
        with pytest.raises(ConfigurationError, match=r"can't be read as it was described: .*ofset"):
            audit(manifest, replace(table, offset="ofset"))
        with pytest.raises(ConfigurationError, match=r"No row of .* tells topic, partition and offset"):
            audit(manifest, replace(table, offset="offset + 0.5"))
        assert dict(audit(manifest, written([])).counts) == {"missing": 10}


def test_a_stream_that_was_killed_and_started_again_has_lost_and_doubled_nothing(
    spark: SparkSession, broker: Broker, audit: Audit, make_flights: MakeFlights, tmp_path: Path
) -> None:
    """``Trigger.AvailableNow`` into Parquet: its first run dies after its first batch's files are written, before the
    batch is committed. Readers of the sink's own log see each row once; readers of the files see those that were left
    behind, which is what the audit tells of a table read without that log."""
    topic = make_flights({0: 40})
    table, files, checkpoint = f"file://{tmp_path}/table", f"{tmp_path}/table", f"{tmp_path}/checkpoint"
    source = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, "maxOffsetsPerTrigger": "15"}
    rows = spark.readStream.format("kafka").options(**source, startingOffsets="earliest").load()

    def dies(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(table)
        if number == 1 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            raise RuntimeError("killed")

    def run() -> None:
        writer = rows.writeStream.foreachBatch(dies).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="killed"):
        run()
    manifest = manifest_of([(topic, 0, 0, 40)])
    halfway = audit(manifest, AuditedTable(table, format="parquet"))
    assert places(halfway) == [("missing", 0, 30, 39)]
    run()
    report = audit(manifest, AuditedTable(table, format="parquet"))
    assert dict(report.counts) == {"doubled": 15}, "foreachBatch writes a batch again that it didn't commit"
    assert places(report) == [("doubled", 0, 15, 29)]
    assert Path(files).is_dir()
