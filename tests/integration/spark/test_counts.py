"""What proves a window: its output alone where that has every offset, else the count of one read, and Kafka's word that
nothing is left at the ends of what its tasks wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.errors import DataLossError, UnprovenError
from airflow_kafka_offsets.offsets.answers.records import ReadPosition
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.proof.audit import judge
from airflow_kafka_offsets.offsets.proof.checksum import every_offset
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, left_of
from airflow_kafka_offsets.spark.kafka.clients import KafkaClients
from airflow_kafka_offsets.spark.kafka.unread import unread_records
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.sinks.sink import Attempt
from airflow_kafka_offsets.spark.window.counts import scan
from dev.kafka import Broker
from tests.integration.spark.conftest import MakeFlights, OpenWindow, delete_before
from tests.integration.spark.publishing import load, load_rows, result_of
from tests.unit.spark.manifests import manifest_of

pytestmark = pytest.mark.timeout(900)


class Sorting(FileSink):
    """A place that sorts what it gets, of which the plan of the rows tells nothing."""

    def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
        return super().replace(rows.orderBy("value", "offset"), attempt)


class TestAReadThatIsStoppedEarly:
    @pytest.mark.parametrize("options", [{}, {"maxRecordsPerPartition": "100"}], ids=["one task", "ten tasks"])
    @pytest.mark.parametrize(
        "compacted",
        [
            pytest.param(
                True, id="compacted", marks=pytest.mark.nightly("waits for the cleaner; transactions leave gaps too")
            ),
            pytest.param(False, id="gaps are allowed"),
        ],
    )
    def test_is_not_proved(
        self,
        open_window: OpenWindow,
        make_flights: MakeFlights,
        table: str,
        compacted: bool,
        options: dict[str, str],
    ) -> None:
        """What was read is what was written, and fits the window. Who verifies later comes to the same."""
        policy = "compact" if compacted else "delete"
        topic = make_flights({0: 1000}, **{"cleanup.policy": policy})
        window = open_window(manifest_of([(topic, 0, 0, 1000)], cleanup_policy=policy), allow_gaps=not compacted)
        with pytest.raises(UnprovenError, match=rf"offset 10 of {topic}-0: the read was stopped early, by limit"):
            load(window, table, lambda rows: rows.coalesce(1).limit(10), **options)

        result = result_of(window)
        assert (result.read.count, result.rows_written) == (10, 10)
        assert "stopped early" in str(judge(window.manifest, result))

    @pytest.mark.nightly("the first test stops a read early")
    def test_by_a_limit_over_many_tasks_is_not_tried_again(
        self, open_window: OpenWindow, make_flights: MakeFlights, table: str
    ) -> None:
        """Each task reads some rows, and most write none, which looks like a task that ran twice. Kafka knows."""
        topic = make_flights({0: 1000})
        window = open_window(manifest_of([(topic, 0, 0, 1000)]), allow_gaps=True)
        with pytest.raises(UnprovenError, match=r"the output lacks \d+ of them.*\(limit, head, take\)") as cut:
            load(window, table, lambda rows: rows.limit(10), maxRecordsPerPartition="100")
        assert not cut.value.retriable
        assert "executor" not in str(cut.value)

    def test_of_one_task_alone_is_found(
        self, spark: SparkSession, open_window: OpenWindow, sparse: Manifest, table: str
    ) -> None:
        """The other tasks read all of theirs: the last offset of the partition is there."""
        window = open_window(sparse, allow_gaps=True)
        rows = window.read(maxRecordsPerPartition="16")

        class Collected(FileSink):
            """Collects the rows of all tasks but the second one, and writes those."""

            def replace(self, _: DataFrame, attempt: Attempt) -> str | None:
                few = rows.where("offset < 16 OR offset >= 32").collect()
                return super().replace(spark.createDataFrame(few, rows.schema), attempt)

        with pytest.raises(UnprovenError, match=r"read 8 rows, wrote 5: the output lacks 3 of them"):
            window.write(rows, Collected(table))

    @pytest.mark.nightly("the tests above stop reads early by the newer interface")
    def test_by_the_older_interface_to_kafka_is_not_proved_either(
        self, spark: SparkSession, open_window: OpenWindow, sparse: Manifest, table: str
    ) -> None:
        for number, cut in enumerate((lambda rows: rows.coalesce(1).limit(4), lambda rows: rows)):
            window = open_window(sparse, allow_gaps=True)
            window.spark = spark.newSession()
            window.spark.conf.set("spark.sql.sources.useV1SourceList", "kafka")
            if number == 0:
                with pytest.raises(UnprovenError, match="stopped early"):
                    load(window, table, cut, maxRecordsPerPartition="16")
            else:
                assert load(window, table, cut, maxRecordsPerPartition="16").rows == 8

    def test_whose_end_kafka_no_longer_has_is_not_proved(
        self, open_window: OpenWindow, make_flights: MakeFlights, broker: Broker, table: str, tmp_path: Path
    ) -> None:
        topic = make_flights({0: 50})

        class Slow(FileSink):
            def replace(self, rows: DataFrame, attempt: Attempt) -> str | None:
                written = super().replace(rows, attempt)
                delete_before(broker, tmp_path, topic, 30)
                return written

        window = open_window(manifest_of([(topic, 0, 0, 50)]), allow_gaps=True)
        with pytest.raises(DataLossError, match="nobody can tell whether records were there"):
            window.write(window.read().limit(10), Slow(table))


class TestAPlainWindow:
    def test_is_written_and_read_back_and_no_other_job_runs(
        self, open_window: OpenWindow, manifest: Manifest, spark: SparkSession, table: str
    ) -> None:
        """One writes. The count of what was written is two, as it is grouped by partition."""
        window = open_window(manifest)
        context = spark.sparkContext
        context.setJobGroup("plain", "a plain window")
        try:
            assert load(window, table).rows == 205
        finally:
            context._jsc.sc().clearJobGroup()
        assert len(context.statusTracker().getJobIdsForGroup("plain")) == 3


@pytest.mark.nightly("reads that are counted twice; TestAPlainWindow has the usual count")
class TestAReadThatWasCountedTwice:
    def test_does_not_prove_rows_that_were_doubled_as_often(
        self, open_window: OpenWindow, sparse: Manifest, table: str
    ) -> None:
        """Count and checksum of what was read twice are those of rows that were written twice, and there are more
        offsets than rows all the same."""
        window = open_window(sparse, allow_gaps=True)
        rows = window.read().withColumn("copy", F.explode(F.array(F.lit(1), F.lit(2))))
        with pytest.raises(UnprovenError, match="more than once"):
            window.write(rows, Sorting(table))

    def test_is_not_needed_where_every_offset_was_written(
        self, open_window: OpenWindow, manifest: Manifest, table: str
    ) -> None:
        """What can't be known of it is None, and not doubled."""
        window = open_window(manifest, allow_gaps=True)
        run = load_rows(window, window.read(), Sorting(table))
        assert run.rows == 205
        assert judge(manifest, run.result).proved
        assert (run.result.read.count, run.result.read.bytes_per_record) == (205, None)

    def test_does_not_prove_what_gaps_may_hide(self, open_window: OpenWindow, sparse: Manifest, table: str) -> None:
        window = open_window(sparse, allow_gaps=True)
        with pytest.raises(UnprovenError, match=r"read 16 rows, wrote 8.*sortWithinPartitions"):
            window.write(window.read(maxRecordsPerPartition="16"), Sorting(table))


class TestRowsOfAnotherOrigin:
    def test_prove_nothing_where_the_count_is_needed(
        self, spark: SparkSession, open_window: OpenWindow, sparse: Manifest, table: str
    ) -> None:
        """The action that collected them was counted, and read no more than they are. Kafka has others."""
        window = open_window(sparse, allow_gaps=True)
        rows = window.read()
        few = spark.createDataFrame(rows.coalesce(1).limit(3).collect(), rows.schema)
        with pytest.raises(UnprovenError, match="the read was stopped early"):
            window.write(few, FileSink(table))


class TestUnreadRecords:
    """Asked of Kafka's own consumer: offsets 0, 6, 12 and so on have a committed record, the others none."""

    @pytest.mark.parametrize(
        ("stretches", "expected"),
        [
            pytest.param([], [], id="no stretch"),
            pytest.param([(1, 6), (7, 12), (43, 48)], [], id="markers and aborted records, up to the log's end"),
            pytest.param([(1, 6), (7, 13), (13, 30)], [12], id="a record in the second of three"),
            pytest.param([(0, 48)], [0], id="the whole window"),
        ],
    )
    def test_are_found(
        self, open_window: OpenWindow, sparse: Manifest, stretches: list[tuple[int, int]], expected: list[int]
    ) -> None:
        window = open_window(sparse)
        window.read()
        (topic,) = sparse.topics
        found = unread_records(window.clients(), [LogRange(topic, 0, *each) for each in stretches])
        assert found == tuple(ReadPosition(topic, 0, each) for each in expected)

    def test_are_what_the_windows_isolation_level_sees(
        self, spark: SparkSession, open_window: OpenWindow, sparse: Manifest
    ) -> None:
        window = open_window(sparse)
        window.read()
        (topic,) = sparse.topics
        clients = window.clients()
        dirty = KafkaClients(spark, {**clients.options, "kafka.isolation.level": "read_uncommitted"})
        assert unread_records(dirty, [LogRange(topic, 0, 1, 6)]) == (ReadPosition(topic, 0, 2),)


@pytest.mark.parametrize("topics", [("flights",), ("flights", "gulls", "departures-of-all-airlines-of-the-continent")])
def test_spark_sums_up_what_a_complete_output_must_hold(spark: SparkSession, topics: tuple[str, ...]) -> None:
    """Offsets in any order, from the largest that Kafka can have, in topics with short and long names."""
    largest = (1 << 63) - 1
    places = [(0, 100, 160), (7, largest - 3, largest), (131_072, 0, 1)]
    manifest = manifest_of([(topic, *place) for topic in sorted(topics) for place in places])
    offsets = [
        (each.topic, each.partition, offset) for each in manifest.ranges for offset in range(*each.log_range[2:])
    ]
    rows = spark.createDataFrame(offsets, "topic string, partition int, offset bigint")
    assert scan(rows.orderBy("offset"), manifest) == every_offset(manifest, left_of(manifest))
    doubled = scan(rows.where("offset <> 101").union(rows.where("offset = 102")), manifest)
    assert sum(each.count for each in doubled) == len(offsets)
    assert doubled != every_offset(manifest, left_of(manifest))


def test_an_offset_that_no_log_has_is_summed_up_all_the_same(spark: SparkSession, manifest: Manifest) -> None:
    """A transform may have put it there; the verdict says so, not Spark's arithmetic."""
    rows = spark.createDataFrame([("flights", 0, (1 << 63) - 1)], "topic string, partition int, offset bigint")
    (found,) = scan(rows, manifest)
    assert (found.count, found.max_offset) == (1, (1 << 63) - 1)
