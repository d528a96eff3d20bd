"""Audits by a count of records, of a topic that was made a compacted one after they were counted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.pipelines.loads import returned
from airflow_kafka_offsets.spark.audit_table import audit_table
from airflow_kafka_offsets.spark.audits.table_rows import AuditedWindow, AuditRequest
from airflow_kafka_offsets.spark.session.conf import RunConf
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import PATIENCE_S, connected_client, new_topic, records
from tests.integration.kafka_clients import connect
from tests.integration.spark.audits.conftest import places
from tests.patience import wait_until
from tests.unit.spark.manifests import manifest_of

pytestmark = pytest.mark.nightly("waits for the cleaner; test_verdicts.py has counts and compacted topics")

EACH = 10
ALONE = 4
"""Offset of the only record of its key; those of the others have one key."""
NOW_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def send(cluster: KafkaCluster, topic: str, alone: int | None) -> None:
    with closing(connect(KafkaProducer, bootstrap_servers=cluster.bootstrap_servers)) as producer:
        for number in range(EACH):
            key = b"alone" if number == alone else b"key"
            producer.send(topic, key=key, value=b"%d" % number, partition=0).get(timeout=PATIENCE_S)


@pytest.fixture
def compacted_later(cluster: KafkaCluster) -> tuple[str, Census]:
    """A topic, and which of its first ten offsets had a record before it was compacted: all of them."""
    topic = new_topic(cluster)
    send(cluster, topic, ALONE)
    whole = [each.log_range for each in manifest_of([(topic, 0, 0, EACH)]).ranges]
    with connected_client(cluster.bootstrap_servers) as client:
        counted = Census.of(client.log_contents(whole).raise_for_errors())
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in NOW_COMPACTED.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()
    send(cluster, topic, None)
    wait_until(lambda: left(cluster, topic) == [ALONE], "the cleaner has removed records")
    return topic, counted


def left(cluster: KafkaCluster, topic: str) -> list[int]:
    """The first ten offsets that still have a record."""
    return [each.offset for each in records(cluster, topic) if each.offset < EACH]


@pytest.fixture
def audit(
    spark: SparkSession, cluster: KafkaCluster, compacted_later: tuple[str, Census]
) -> Callable[..., AuditReport]:
    topic, counted = compacted_later

    def run(table: AuditedTable, **asked: Any) -> AuditReport:
        with connected_client(cluster.bootstrap_servers) as client:
            cluster_id = client.topics([topic]).cluster_id
        manifest = replace(manifest_of([(topic, 0, 0, EACH)]), cluster_id=cluster_id)
        conf = RunConf("", "", None, {"kafka.bootstrap.servers": cluster.bootstrap_servers})
        (found,) = audit_table(
            spark, [AuditedWindow(manifest, counted)], conf, AuditRequest("0a1b2c3d", table, **asked)
        )
        report = returned(found)
        report.check(manifest)
        return report

    return run


def test_what_compaction_has_taken_is_not_missing_and_what_is_left_is(
    spark: SparkSession,
    cluster: KafkaCluster,
    audit: Callable[..., AuditReport],
    compacted_later: tuple[str, Census],
    written: Callable[..., AuditedTable],
    tmp_path: Path,
) -> None:
    topic, _ = compacted_later
    whole = audit(written((topic, 0, offset) for offset in range(EACH)))
    assert (whole.is_complete, whole.rows, whole.records, whole.looked_at) == (True, EACH, EACH, 0), "read in time"

    late = audit(written([(topic, 0, ALONE)]), missing_to=f"file://{tmp_path}/missing")
    assert late.is_complete, f"a writer that came late got no more: {late}"

    lacking = audit(written((topic, 0, offset) for offset in range(3)), missing_to=f"file://{tmp_path}/missing")
    assert places(lacking) == [("missing", 0, ALONE, ALONE)]
    assert lacking.written is not None
    assert [row.offset for row in spark.read.parquet(lacking.written.output).collect()] == [ALONE]
