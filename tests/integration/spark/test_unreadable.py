"""Any 64-bit timestamp: a window with it is loaded, or says which record Spark can't read."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from kafka import KafkaAdminClient
from kafka.record.default_records import DefaultRecordBatchBuilder

from airflow_kafka_offsets.errors import ExtremeTimestampError
from dev.kafka import Broker
from tests.integration.batches import produce_batches
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.publishing import load
from tests.unit.spark.manifests import FIVE_MS, manifest_of

FITTING = (
    -(2**63) // 1000 + 1,
    -(10**15),
    -62_135_596_800_001,
    -1,
    FIVE_MS,
    253_402_300_800_000,
    10**15,
    2**63 // 1000,
)


@pytest.fixture(scope="module")
def make_extreme(broker: Broker, admin: KafkaAdminClient) -> Callable[..., str]:
    """Make a topic of two partitions, with a record for each timestamp in the second one."""

    def make(*timestamps: int) -> str:
        topic = f"extreme-{uuid.uuid4().hex[:8]}"
        configs = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
        options = {"num_partitions": 2, "replication_factor": 1, "configs": configs}
        admin.create_topics({topic: options}, wait_for_metadata=True)
        for partition, stamps in enumerate([(FIVE_MS,) * 3, timestamps]):
            for number, timestamp_ms in enumerate(stamps):
                batch = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 16)
                batch.append(0, timestamp_ms, b"%d" % number, b"value %d" % number, [])
                produce_batches(broker.bootstrap_servers, topic, {partition: 1}, bytes(batch.build()))
        return topic

    return make


def test_timestamps_that_spark_has_are_loaded(
    open_window: OpenWindow, make_extreme: Callable[..., str], table: str
) -> None:
    topic = make_extreme(*FITTING)
    assert load(open_window(manifest_of([(topic, 1, 0, len(FITTING))])), table).rows == len(FITTING)


@pytest.mark.parametrize("extreme", [-(2**63), FIVE_MS * 10**6], ids=["far back", "nanoseconds"])
def test_the_first_record_of_another_one_is_named_wherever_it_lies(
    open_window: OpenWindow, make_extreme: Callable[..., str], table: str, extreme: int
) -> None:
    topic = make_extreme(FIVE_MS, FIVE_MS, FIVE_MS, extreme, FIVE_MS, extreme)
    window = open_window(manifest_of([(topic, 0, 0, 3), (topic, 1, 0, 6)]))
    with pytest.raises(ExtremeTimestampError, match=f"offset 3 of {topic}-1. Nothing is published"):
        load(window, table)
