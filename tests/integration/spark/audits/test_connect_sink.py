"""The table of Iceberg's own sink for Kafka Connect, audited by its preset; its worker is killed and started again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from dev.iceberg_sink import IcebergSink
from dev.kafka import Broker
from tests.integration.conftest import Produce
from tests.integration.spark.audits.conftest import Audit
from tests.integration.spark.conftest import MakeFlights, flight_records
from tests.patience import wait_until
from tests.unit.spark.manifests import manifest_of

pytestmark = pytest.mark.nightly("a worker of Kafka Connect of its own; test_verdicts.py has the comparison")


def test_it_has_each_record_once_though_its_worker_was_killed(
    spark: SparkSession,
    broker: Broker,
    admin: KafkaAdminClient,
    audit: Audit,
    make_flights: MakeFlights,
    produce: Produce,
    tmp_path: Path,
) -> None:
    """What isn't there yet is above the group's commits, or on its way: it commits its group before its table."""
    topic = make_flights({0: 300, 1: 200})
    sink = IcebergSink(broker.bootstrap_servers, topic, tmp_path)
    admin.create_topics({sink.control_topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    with sink:
        for name, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "hadoop",
            ".warehouse": sink.warehouse.as_uri(),
            ".cache-enabled": "false",
        }.items():
            spark.conf.set(f"spark.sql.catalog.connect{name}", value)
        table = AuditedTable(table=f"connect.{sink.table}", preset="iceberg-connect")

        def rows() -> int:
            try:
                return spark.table(f"connect.{sink.table}").count()
            except AnalysisException:  # nothing was committed yet
                return 0

        wait_until(lambda: rows() > 0, "the sink has committed rows")
        for partition in (0, 1):
            produce(topic, partition, flight_records(300))
        sink.kill()
        manifest = manifest_of([(topic, 0, 0, 600), (topic, 1, 0, 500)])
        halfway = audit(manifest, table, writer_group=sink.group)
        assert set(halfway.counts) <= {"missing", "not_yet"}
        assert sum(halfway.counts.values()) == 1100 - rows()
        sink.start()
        for _ in range(3):  # the group first gives up the worker that was killed, and its transactions time out
            with suppress(TimeoutError):
                wait_until(lambda: rows() >= 1100, "the table has as many rows as there are records")
        report = audit(manifest, table, writer_group=sink.group)
    assert report.is_complete, str(report)
    assert (report.rows, report.looked_at) == (1100, 0)
