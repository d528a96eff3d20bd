"""Any 64-bit timestamp: a window with it is loaded, or says which record it is and how to load it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.record.default_records import DefaultRecordBatchBuilder
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_offsets.errors import ExtremeTimestampError, UncheckedSourceError
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.kafka import extreme_timestamps, stretches
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.published import read_published
from airflow_kafka_offsets.spark.session.conf import RunConf
from dev.kafka import Broker
from tests.integration.batches import produce_batches
from tests.integration.spark.conftest import OpenWindow, Pin, delete_before
from tests.integration.spark.publishing import driver_of, load
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
MANY = 12_000


def milliseconds(rows: DataFrame) -> list[Row]:
    """Python has no timestamps beyond the year 9999."""
    return rows.selectExpr("offset", "unix_millis(timestamp) AS ms").orderBy("offset").collect()


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
def told(pin: Pin) -> Callable[..., RunConf]:
    def tell(manifest: Manifest, records: str, attempt: int | None = None) -> RunConf:
        return replace(pin(manifest, attempt), extreme_timestamps=records)

    return tell


class TestTimestampsThatSparkHas:
    def test_are_loaded(self, open_window: OpenWindow, make_extreme: Callable[..., str], table: str) -> None:
        topic = make_extreme(*FITTING)
        window = open_window(manifest_of([(topic, 0, 0, len(FITTING))]))
        assert load(window, table).rows == len(FITTING)


@pytest.mark.nightly("the driver reads them itself; TestTimestampsThatSparkHas loads the extreme ones")
class TestTimestampsThatSparkHasNot:
    def test_are_named_with_what_loads_them(
        self, open_window: OpenWindow, manifest: Manifest, mixed: str, table: str
    ) -> None:
        with pytest.raises(ExtremeTimestampError) as caught:
            load(open_window(manifest), table)
        said = str(caught.value)
        assert f"{mixed}-0 from 2 to 5, 3 records, the first of {EXTREME[1]} ms. Nothing is published" in said
        assert f"spark.kafkaOffsets.extremeTimestamps={mixed}-0:2-5." in said

    def test_are_named_in_turns_where_they_are_many(
        self,
        spark: SparkSession,
        told: Callable[..., RunConf],
        make_extreme: Callable[..., str],
        table: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Two of what is left at a time, each with as many records behind it as end a stretch."""
        monkeypatch.setattr(extreme_timestamps, "_FEW", 1)
        monkeypatch.setattr(extreme_timestamps, "_FOUND", 2)
        bad, good = EXTREME[1], FIVE_MS
        topic = make_extreme(bad, good, good, bad, good, bad, good, good, bad, good, good, bad, bad)
        manifest = manifest_of([(topic, 0, 0, 13)])
        named, advice = "elsewhere-0:1", []
        for _ in range(2):
            with pytest.raises(ExtremeTimestampError) as caught:
                load(PinnedWindow.open(spark, told(manifest, named)), table)
            advised = re.search(r"extremeTimestamps=(\S+)\.( There are more)?", str(caught.value))
            assert advised is not None
            assert "add these to the Spark application's conf: spark.kafkaOffsets" in str(caught.value)
            named += f",{advised[1]}"
            advice.append((advised[1], bool(advised[2])))
        assert advice == [(f"{topic}-0:0,{topic}-0:3-5", True), (f"{topic}-0:8,{topic}-0:11-12", False)]
        assert load(PinnedWindow.open(spark, told(manifest, named)), table).rows == 13

    def test_very_many_in_a_row_are_one_stretch_and_are_loaded_in_bounded_memory(
        self,
        spark: SparkSession,
        told: Callable[..., RunConf],
        make_extreme: Callable[..., str],
        broker: Broker,
        table: str,
        ledger_uri: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Whoever may write to the topic can write as many as he likes; every tenth is an ordinary one."""
        topic, batches = make_extreme(FIVE_MS), MANY // 100
        batch = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 16)
        for number in range(100):
            batch.append(number, FIVE_MS + number if number % 10 == 9 else FIVE_MS * 10**6, None, b"x" * 100, [])
        produce_batches(broker.bootstrap_servers, topic, {0: batches}, bytes(batch.build()))
        manifest = manifest_of([(topic, 0, 0, MANY + 1)])
        with pytest.raises(ExtremeTimestampError) as caught:
            load(PinnedWindow.open(spark, told(manifest, "")), table)
        assert f"{topic}-0 from 1 to {MANY - 1}, {MANY * 9 // 10} records" in str(caught.value)
        assert f"extremeTimestamps={topic}-0:1-{MANY - 1}." in str(caught.value)
        monkeypatch.setattr(extreme_timestamps, "_HELD_BYTES", 2**20)
        monkeypatch.setattr(extreme_timestamps, "_CHUNK_BYTES", 2**20)
        window = PinnedWindow.open(spark, told(manifest, f"{topic}-0:1-{MANY - 1}"))
        assert load(window, table).rows == MANY + 1
        assert read_published(spark, ledger_uri).where("timestamp IS NULL").count() == MANY * 9 // 10

    def test_that_has_the_driver_read_them_and_nothing_is_lost(
        self,
        spark: SparkSession,
        told: Callable[..., RunConf],
        manifest: Manifest,
        mixed: str,
        table: str,
        ledger_uri: str,
    ) -> None:
        window = PinnedWindow.open(spark, told(manifest, f"{mixed}-0:2, {mixed}-0:4-5, elsewhere-0:1"))
        assert load(window, table, includeHeaders="true").rows == 7
        rows = read_published(spark, ledger_uri)
        assert rows.where("timestamp IS NOT NULL").count() == 4
        extreme = rows.where("timestamp IS NULL").collect()
        assert sorted((each.offset, each.timestamp, bytes(each.value)) for each in extreme) == [
            (2, None, b"value 2"),
            (4, None, b"value 4"),
            (5, None, b"value 5"),
        ]
        assert {bytes(each.headers[0].value) for each in extreme} == {b"2", b"4", b"5"}

    def test_they_are_proved_where_offsets_may_be_without_a_record_too(
        self, open_window: OpenWindow, spark: SparkSession, pin: Pin, mixed: str, table: str
    ) -> None:
        records = f"{mixed}-0:2,{mixed}-0:4-5"
        conf = replace(pin(manifest_of([(mixed, 0, 0, 7)]), allow_gaps=True), extreme_timestamps=records)
        assert load(PinnedWindow.open(spark, conf), table).rows == 7

    def test_and_where_the_rows_are_cached(self, spark: SparkSession, pin: Pin, mixed: str, table: str) -> None:
        conf = pin(manifest_of([(mixed, 0, 0, 7)]), allow_gaps=True)
        window = PinnedWindow.open(spark, replace(conf, extreme_timestamps=f"{mixed}-0:2,{mixed}-0:4-5"))
        assert load(window, table, lambda rows: rows.cache()).rows == 7

    def test_another_driver_reads_nothing_from_kafka_that_may_be_gone_by_then(
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
        first = PinnedWindow.open(spark, told(manifest, f"{topic}-0:0-3"))
        run = load(first, table)
        assert run.rows == 5
        delete_before(broker, tmp_path, topic, 4)
        window = PinnedWindow.open(spark, told(manifest, f"{topic}-0:0-3", driver_of(first).number))
        assert load(window, table).result == run.result
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
                extreme_timestamps.DriverRows(spark, window.clients(), headers=False).frame(LogRange(mixed, 0, 7, 9))

    def test_those_among_them_that_spark_can_read_keep_their_timestamps(
        self, spark: SparkSession, told: Callable[..., RunConf], make_extreme: Callable[..., str], table: str
    ) -> None:
        """As Spark itself has them: which the driver reads makes no difference."""
        stamps = (EXTREME[0], *FITTING, EXTREME[3])
        topic = make_extreme(*stamps)
        last = len(stamps) - 1
        window = PinnedWindow.open(spark, told(manifest_of([(topic, 0, 0, last + 1)]), f"{topic}-0:0-{last}"))
        by_driver = {each.offset: each.ms for each in milliseconds(window.read())}
        window = PinnedWindow.open(spark, told(manifest_of([(topic, 0, 1, last)]), ""))
        by_spark = {each.offset: each.ms for each in milliseconds(window.read())}
        assert by_driver == by_spark | {0: None, last: None}
        recent = [each for each in stamps[1:-1] if each > -(10**13)]  # those before 1582 it moves to another calendar
        assert list(by_spark.values())[-len(recent) :] == recent

    def test_a_window_of_nothing_else(
        self, spark: SparkSession, told: Callable[..., RunConf], make_extreme: Callable[..., str], table: str
    ) -> None:
        """Nanoseconds in place of milliseconds."""
        topic = make_extreme(*((FIVE_MS + number) * 10**6 for number in range(5)))
        window = PinnedWindow.open(spark, told(manifest_of([(topic, 0, 0, 5)]), f"{topic}-0:0-4"))
        assert load(window, table).rows == 5
