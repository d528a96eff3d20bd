"""What records may hold, and offsets that hold none: read by Spark as they are in Kafka."""

from __future__ import annotations

from contextlib import closing

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from airflow_kafka_offsets.spark.published import read_published
from dev.kafka import Broker
from tests.integration.kafka_clients import connect
from tests.integration.spark.conftest import MakeFlights, OpenWindow
from tests.integration.spark.publishing import load
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.manifests import FIVE_MS, manifest_of

TWICE = [("origin", b"radar"), ("origin", b"ads-b")]


@pytest.fixture(scope="module")
def odd(make_flights: MakeFlights, broker: Broker) -> str:
    """A topic: a record whose headers have one key twice, then a tombstone of the same key."""
    name = make_flights({0: 0})
    with closing(connect(KafkaProducer, bootstrap_servers=broker.bootstrap_servers)) as producer:
        for value, headers in ((b"airborne", TWICE), (None, [])):
            producer.send(name, value, b"3c0001", partition=0, timestamp_ms=FIVE_MS, headers=headers)
    return name


def test_a_tombstone_is_a_row_and_headers_keep_their_doubles(
    spark: SparkSession, open_window: OpenWindow, odd: str, table: str, ledger_uri: str
) -> None:
    """S27, S28: a null value is published and counted; a header's key may come twice."""
    run = load(open_window(manifest_of([(odd, 0, 0, 2)])), table, includeHeaders="true")
    assert run.rows == 2
    first, tombstone = read_published(spark, ledger_uri).orderBy("offset").collect()
    assert [(each["key"], bytes(each["value"])) for each in first["headers"]] == TWICE
    assert (bytes(tombstone["key"]), tombstone["value"], tombstone["headers"]) == (b"3c0001", None, None)


def test_a_range_with_gaps_splits_into_more_parts_than_it_needs_and_reads_the_same(
    open_window: OpenWindow, transactional: str
) -> None:
    """S29: parts are cut by offsets; those that hold only markers and aborted records give no rows."""
    rows = open_window(manifest_of([(transactional, 0, 0, 17)])).read(maxRecordsPerPartition="2")
    assert rows.rdd.getNumPartitions() > 5
    assert offsets(rows) == {0: list(range(10))}
