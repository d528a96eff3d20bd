"""Any 64-bit timestamp: a window with it is loaded, or says which record it is and how to load it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.record.default_records import DefaultRecordBatchBuilder
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import ConfigurationError, ExtremeTimestampError, UncheckedSourceError
from airflow_kafka_offsets.offsets.manifest import Manifest
from airflow_kafka_offsets.offsets.split_plan import ReadTask
from airflow_kafka_offsets.spark import extreme_timestamps, stretches
from airflow_kafka_offsets.spark.conf import RunConf
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.published import read_published
from dev.kafka import Broker
from tests.benchmarks.records import produce_batches
from tests.integration.spark.conftest import OpenWindow, delete_before, load
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
EXTREME = (-(2**63), -(10**16), FIVE_MS * 10**6, 2**63 - 1)


@pytest.fixture(scope="module")
def make_extreme(broker: Broker, admin: KafkaAdminClient) -> Callable[..., str]:
    """Make a topic of one partition with a record for each timestamp."""

    def make(*timestamps: int) -> str:
        topic = f"extreme-{uuid.uuid4().hex[:8]}"
        configs = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
        options = {"num_partitions": 1, "replication_factor": 1, "configs": configs}
        admin.create_topics({topic: options}, wait_for_metadata=True)
        for number, timestamp_ms in enumerate(timestamps):
            batch = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 16)
            batch.append(0, timestamp_ms, b"%d" % number, b"value %d" % number, [("n", b"%d" % number)])
            produce_batches(broker.bootstrap_servers, topic, {0: 1}, bytes(batch.build()))
        return topic

    return make


@pytest.fixture(scope="module")
def mixed(make_extreme: Callable[..., str]) -> str:
    """Offsets 2, 4 and 5 are extreme."""
    return make_extreme(FIVE_MS, FIVE_MS + 1, EXTREME[1], FIVE_MS + 2, EXTREME[2], EXTREME[0], FIVE_MS + 3)


@pytest.fixture
def manifest(mixed: str) -> Manifest:
    return manifest_of([(mixed, 0, 0, 7)])


@pytest.fixture
def told(pin: Callable[..., RunConf]) -> Callable[..., RunConf]:
    def tell(manifest: Manifest, records: str, attempt: str = "try-2") -> RunConf:
        return replace(pin(manifest, attempt), extreme_timestamps=records)

    return tell


class TestTimestampsThatSparkHas:
    def test_are_loaded_and_all_but_those_of_the_hour_lie_outside_of_it(
        self, open_window: OpenWindow, make_extreme: Callable[..., str], table: str
    ) -> None:
        topic = make_extreme(*FITTING)
        window = open_window(manifest_of([(topic, 0, 0, len(FITTING))]))
        run = load(window, table, strict_time=True)
        assert (run.rows, run.outside) == (len(FITTING), len(FITTING) - 1)


class TestTimestampsThatSparkHasNot:
    def test_are_named_with_what_loads_them(
        self, open_window: OpenWindow, manifest: Manifest, mixed: str, table: str
    ) -> None:
        with pytest.raises(ExtremeTimestampError) as caught:
            load(open_window(manifest), table)
        said = str(caught.value)
        assert (
            f"{mixed}-0 at 2, {EXTREME[1]} ms, {mixed}-0 at 4, {EXTREME[2]} ms, {mixed}-0 at 5, {EXTREME[0]} ms" in said
        )
        assert f"spark.kafkaOffsets.extremeTimestamps={mixed}-0:2,{mixed}-0:4,{mixed}-0:5." in said

    def test_that_has_the_driver_read_them_and_nothing_is_lost(
        self,
        spark: SparkSession,
        told: Callable[..., RunConf],
        manifest: Manifest,
        mixed: str,
        table: str,
        ledger: Path,
    ) -> None:
        window = PinnedWindow.open(spark, told(manifest, f"{mixed}-0:2, {mixed}-0:4-5, elsewhere-0:1"))
        run = load(window, table, strict_time=True, includeHeaders="true")
        assert (run.rows, run.outside) == (7, 3)
        pipeline = f"file://{ledger}"
        inside, outside = (read_published(spark, pipeline, outside=each).collect() for each in (False, True))
        assert sorted(each.offset for each in inside) == [0, 1, 3, 6]
        assert sorted((each.offset, each.timestamp, bytes(each.value)) for each in outside) == [
            (2, None, b"value 2"),
            (4, None, b"value 4"),
            (5, None, b"value 5"),
        ]
        assert {bytes(each.headers[0].value) for each in outside} == {b"2", b"4", b"5"}

    def test_they_are_proved_where_offsets_may_be_without_a_record_too(
        self, open_window: OpenWindow, spark: SparkSession, pin: Callable[..., RunConf], mixed: str, table: str
    ) -> None:
        records = f"{mixed}-0:2,{mixed}-0:4-5"
        conf = replace(pin(manifest_of([(mixed, 0, 0, 7)]), "try-3", allow_gaps=True), extreme_timestamps=records)
        assert load(PinnedWindow.open(spark, conf), table).rows == 7

    def test_a_rerun_reads_nothing_from_kafka_that_may_be_gone_by_then(
        self,
        told: Callable[..., RunConf],
        spark: SparkSession,
        make_extreme: Callable[..., str],
        broker: Broker,
        tmp_path: Path,
        table: str,
    ) -> None:
        topic = make_extreme(*EXTREME, FIVE_MS)
        manifest = manifest_of([(topic, 0, 0, 5)])
        assert load(PinnedWindow.open(spark, told(manifest, f"{topic}-0:0-3")), table).rows == 5
        delete_before(broker, tmp_path, topic, 4)
        window = PinnedWindow.open(spark, told(manifest, f"{topic}-0:0-3", "try-3"))
        assert load(window, table).published_attempt == "try-2"
        with pytest.raises(Exception, match="weren't read again: take its rows from read_published"):
            window.read().select("offset").collect()

    def test_the_plan_has_the_tasks_that_spark_makes(
        self, told: Callable[..., RunConf], spark: SparkSession, manifest: Manifest, mixed: str
    ) -> None:
        """Also where Spark splits what lies between them."""
        window = PinnedWindow.open(spark, replace(told(manifest, f"{mixed}-0:2,{mixed}-0:4-5"), bytes_per_record=10**8))
        plan, rows = window.plan(), window.read()
        assert plan.options
        assert [*window.tasks] == [*plan.tasks]
        found = rows.withColumn("task", F.spark_partition_id()).groupBy("task").agg(F.min("offset"), F.max("offset"))
        made = sorted((each[1], each[2] + 1) for each in found.collect())
        assert made == sorted((each.start_offset, each.end_offset) for each in plan.tasks)

    def test_a_kafka_that_says_nothing_is_not_waited_for_without_end(
        self, told: Callable[..., RunConf], spark: SparkSession, manifest: Manifest, mixed: str
    ) -> None:
        """Past the log's end it says nothing for ever."""
        window = PinnedWindow.open(spark, told(manifest, ""))
        window.read()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stretches, "_STALLED_S", 2.0)
            with pytest.raises(UncheckedSourceError, match=f"{mixed}-0 has a record from offset 7 to before 9"):
                extreme_timestamps.rows_of(window.clients(), [ReadTask(mixed, 0, 7, 9)], headers=False)

    def test_those_that_spark_can_read_are_not_to_be_named(
        self, spark: SparkSession, told: Callable[..., RunConf], manifest: Manifest, mixed: str, table: str
    ) -> None:
        window = PinnedWindow.open(spark, told(manifest, f"{mixed}-0:1-2"))
        with pytest.raises(ConfigurationError, match=rf"{mixed}-0:1 has the timestamp {FIVE_MS + 1}"):
            load(window, table)

    def test_a_window_of_nothing_else(
        self, spark: SparkSession, told: Callable[..., RunConf], make_extreme: Callable[..., str], table: str
    ) -> None:
        """Nanoseconds in place of milliseconds."""
        topic = make_extreme(*((FIVE_MS + number) * 10**6 for number in range(5)))
        window = PinnedWindow.open(spark, told(manifest_of([(topic, 0, 0, 5)]), f"{topic}-0:0-4"))
        assert load(window, table).rows == 5
