"""Audits of tables that something else has written, against the logs of a real broker."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ConfigurationError, SparkFailedError, TopicChangedError
from airflow_kafka_offsets.ledger.certificate import check_query
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.audits import cells
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.audits.findings import Known, problem_at
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.loads import returned
from airflow_kafka_offsets.spark.audits import log_audit
from airflow_kafka_offsets.spark.audits.table_audit import Outcome, audit_table
from airflow_kafka_offsets.spark.audits.table_sums import AuditedWindow, AuditRequest
from airflow_kafka_offsets.spark.session.conf import RunConf
from dev.kafka import Broker
from tests.integration.spark.conftest import FIVE_MS, MakeFlights, delete_before
from tests.unit.spark.manifests import manifest_of

Audit = Callable[..., AuditReport]
NOBODY = "127.0.0.1:1"
"""An address where no broker is."""


@pytest.fixture
def audit_each(spark: SparkSession, broker: Broker, cluster_id: str) -> Callable[..., list[Outcome]]:
    """Audit a table for some windows, as a driver does."""

    def run(
        manifests: Sequence[Manifest],
        table: AuditedTable,
        *,
        census: Census | None = None,
        servers: str | None = None,
        gaps: bool = False,
        **asked: Any,
    ) -> list[Outcome]:
        conf = RunConf("", "", None, {"kafka.bootstrap.servers": servers or broker.bootstrap_servers}, allow_gaps=gaps)
        windows = [AuditedWindow(replace(each, cluster_id=cluster_id), census) for each in manifests]
        outcomes = audit_table(spark, windows, conf, AuditRequest(table=table, **{"run": "0a1b2c3d", **asked}))
        for window, found in zip(windows, outcomes, strict=True):
            if isinstance(found, AuditReport):
                found.check(window.manifest)
        return outcomes

    return run


@pytest.fixture
def audit(audit_each: Callable[..., list[Outcome]]) -> Audit:
    """Audit a table for one window."""

    def run(manifest: Manifest, *given: Any, **asked: Any) -> AuditReport:
        return returned(audit_each([manifest], *given, **asked)[0])

    return run


@pytest.fixture
def written(spark: SparkSession, tmp_path: Path) -> Callable[..., AuditedTable]:
    """A Parquet table of these rows (topic, partition, offset), which something else has written."""

    def write(rows: Iterable[tuple[str, int, int]]) -> AuditedTable:
        folder = f"file://{tmp_path}/table"
        frame(spark, rows).write.mode("overwrite").parquet(folder)
        return AuditedTable(folder, format="parquet")

    return write


def connected(broker: Broker) -> OffsetsClient:
    return OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers}))


def frame(spark: SparkSession, rows: Iterable[tuple[str, int, int]]) -> DataFrame:
    made = [f"('{topic}', {partition}, {offset}L)" for topic, partition, offset in rows]
    if not made:
        return spark.createDataFrame([], "topic string, partition int, offset bigint")
    return spark.sql(f"SELECT * FROM VALUES {', '.join(made)} AS rows(topic, partition, offset)")


def places(report: AuditReport) -> list[tuple[str, int, int, int]]:
    """Problem, partition, first and last offset of each finding."""
    return [(each.problem, each.partition, each.start_offset, each.end_offset - 1) for each in report.findings]


class TestTransactions:
    """Offsets 0 to 9 are records, 10 is a marker, 11 to 15 are aborted records, 16 is a marker."""

    def test_what_is_missing_doubled_or_foreign_is_named_and_nothing_else(
        self, spark: SparkSession, broker: Broker, audit: Audit, transactional: str, tmp_path: Path
    ) -> None:
        """A plain Spark job has written the table; then a row is removed, one doubled, and one is of an aborted
        record."""
        source = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": transactional}
        table, folder = AuditedTable(f"file://{tmp_path}/table", format="delta"), f"file://{tmp_path}/table"
        rows = spark.read.format("kafka").options(**source, **{"kafka.isolation.level": "read_committed"}).load()
        rows.write.format("delta").save(folder)
        manifest = manifest_of([(transactional, 0, 0, 17)])
        clean = audit(manifest, table)
        assert (clean.is_complete, clean.rows, clean.records) == (True, 10, 10)

        spark.sql(f"DELETE FROM delta.`{folder}` WHERE offset = 3")
        kept = spark.read.format("delta").load(folder)
        five = kept.where("offset = 5")
        five.withColumn("offset", F.col("offset") + 7).write.format("delta").mode("append").save(folder)
        five.write.format("delta").mode("append").save(folder)
        report = audit(manifest, table)
        assert dict(report.counts) == {"missing": 1, "doubled": 1, "foreign": 1}
        assert places(report) == [("doubled", 0, 5, 5), ("foreign", 0, 12, 12), ("missing", 0, 3, 3)]
        (missing,) = [each for each in report.findings if each.problem == "missing"]
        (key_hash,) = spark.sql("SELECT lower(hex(xxhash64(cast('3' AS binary))))").first() or ()
        assert (missing.first_ms, missing.key_hash) == (FIVE_MS + 3000, key_hash)
        assert report.source is not None
        assert "Missing: " + f"{transactional}-0 at 3." in str(report)

    def test_of_a_compacted_topic_a_row_without_a_record_may_have_had_one(
        self, audit: Audit, written: Any, transactional: str
    ) -> None:
        manifest = manifest_of([(transactional, 0, 0, 17)], cleanup_policy="compact")
        table = written((transactional, 0, offset) for offset in [*range(10), 12])
        report = audit(manifest, table)
        assert (report.is_complete, report.unconfirmed, report.records) == (True, 1, 10)

    def test_a_table_with_a_row_at_each_offset_is_not_complete_once_some_are_seen_to_lack_a_record(
        self, audit: Audit, written: Any, transactional: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody has said that there are transactions, and offsets 12 to 15 are all aborted records."""
        monkeypatch.setattr(cells, "SMALLEST", 4)
        table = written((transactional, 0, offset) for offset in range(17) if offset not in (10, 16))
        report = audit(manifest_of([(transactional, 0, 0, 17)]), table)
        assert dict(report.counts) == {"foreign": 5}
        assert places(report) == [("foreign", 0, 11, 15)]

    @pytest.mark.parametrize(("size", "is_counted"), [(4, False), (65_536, False), (4, True)])
    def test_each_offset_is_judged_by_the_rule(
        self,
        broker: Broker,
        audit: Audit,
        written: Any,
        sparse: Manifest,
        size: int,
        is_counted: bool,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Random rows, against the rule in Python: a record, its marker, three aborted ones and theirs, 8 times. Once
        its records are counted, no broker is asked."""
        monkeypatch.setattr(cells, "SMALLEST", size)
        (whole,) = [each.log_range for each in sparse.ranges]
        topic, dice, asked = whole.topic, random.Random(size), dict[str, Any]()
        if is_counted:
            with connected(broker) as client:
                counted = Census.of(client.log_contents([whole]).raise_for_errors())
            asked = {"census": Census.from_bytes(counted.to_bytes()), "servers": NOBODY}
        rows = Counter(dice.choices(range(48), k=30))
        report = audit(sparse, written((topic, 0, offset) for offset in rows.elements()), gaps=is_counted, **asked)
        found = {
            (each.problem, offset) for each in report.findings for offset in range(each.start_offset, each.end_offset)
        }
        known = Known(0, None, compacted=False)
        told = {offset: problem_at(offset, int(offset % 6 == 0), rows[offset], known) for offset in range(48)}
        assert found == {(problem, offset) for offset, problem in told.items() if problem}
        assert report.rows == rows.total()
        assert report.records == 8


class TestPlainTopics:
    def test_a_complete_table_is_judged_by_its_own_sums_without_a_broker(
        self, audit: Audit, written: Any, flights: str
    ) -> None:
        manifest = manifest_of([(flights, 0, 10, 90), (flights, 1, 0, 0), (flights, 2, 0, 125)])
        rows = [(flights, 0, offset) for offset in range(100)] + [(flights, 2, offset) for offset in range(130)]
        report = audit(manifest, written(rows), servers=NOBODY)
        assert (report.is_complete, report.rows, report.records) == (True, 205, 205)
        assert (report.looked_at, report.source) == (0, None)

    def test_only_cells_that_differ_are_read_and_the_missing_records_are_written(
        self, spark: SparkSession, audit: Audit, written: Any, flights: str, tmp_path: Path, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(cells, "SMALLEST", 50)
        manifest = manifest_of([(flights, 0, 10, 90), (flights, 2, 0, 250)])
        rows = [(flights, 0, offset) for offset in range(100)]
        rows += [(flights, 2, offset) for offset in range(250) if offset not in (60, 61, 200)]
        report = audit(manifest, written(rows), missing_to=f"file://{tmp_path}/missing")
        assert places(report) == [("missing", 2, 60, 61), ("missing", 2, 200, 200)]
        assert (report.looked_at, report.rows, report.records) == (100, 327, 330)
        assert report.written is not None
        assert report.written.rows == 3
        repaired = spark.read.parquet(report.written.output)
        assert {"key", "value", "timestamp"} <= set(repaired.columns)
        assert sorted(row.offset for row in repaired.collect()) == [60, 61, 200]

    def test_what_the_writers_group_has_not_come_to_is_not_missing(
        self, broker: Broker, audit: Audit, written: Any, flights: str
    ) -> None:
        manifest, group = manifest_of([(flights, 0, 0, 100)]), f"connect-{flights}"
        table = written((flights, 0, offset) for offset in range(80) if offset != 7)
        with pytest.raises(ConfigurationError, match=f"Group {group} has no commits on {flights}"):
            audit(manifest, table, writer_group=group)
        with connected(broker) as ask:
            ask.commit_offsets(group, CommittedOffsets([CommittedOffset(flights, 0, 80)])).raise_for_errors()
        report = audit(manifest, table, writer_group=group)
        assert dict(report.counts) == {"missing": 1, "not_yet": 20}
        assert places(report) == [("missing", 0, 7, 7), ("not_yet", 0, 80, 99)]

    def test_what_retention_has_taken_is_unknowable_but_what_is_doubled_is_known(
        self, broker: Broker, audit: Audit, written: Any, make_flights: MakeFlights, tmp_path: Path
    ) -> None:
        topic = make_flights({0: 60})
        rows = [(topic, 0, offset) for offset in range(60)]
        manifest, complete = manifest_of([(topic, 0, 0, 60)]), written(rows)
        delete_before(broker, tmp_path, topic, 40)
        assert audit(manifest, complete).is_complete
        report = audit(manifest, written([*(row for row in rows if row[2] not in (3, 50)), (topic, 0, 9)]))
        assert dict(report.counts) == {"missing": 1, "doubled": 1, "unknowable": 40}
        assert places(report) == [("doubled", 0, 9, 9), ("missing", 0, 50, 50), ("unknowable", 0, 0, 39)]
        assert report.records is None

    def test_a_log_that_ends_before_the_window_was_truncated(self, audit: Audit, written: Any, flights: str) -> None:
        manifest = manifest_of([(flights, 0, 90, 103), (flights, 1, 0, 50)])
        with pytest.raises(TopicChangedError, match=r"flights.*-0 \(at 100, before 103\)"):
            audit(manifest, written([(flights, 0, 90)]))

    def test_a_topic_that_was_made_anew_is_named(
        self, admin: KafkaAdminClient, audit: Audit, written: Any, make_flights: MakeFlights, broker: Broker
    ) -> None:
        topic = make_flights({0: 5})
        with connected(broker) as ask:
            facts = ask.topic_facts([topic])
        manifest = replace(manifest_of([(topic, 0, 0, 5)]), topics=facts)
        admin.delete_topics([topic])
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        with pytest.raises(TopicChangedError, match="re-created"):
            audit(manifest, written([]))
        every = written((topic, 0, offset) for offset in range(5))
        assert audit(manifest, every).is_complete, "its own sums tell"


class TestSeveralWindows:
    """Windows of one topic, audited by one pass over the table."""

    def test_each_has_its_own_verdict_and_checksums(
        self, spark: SparkSession, audit_each: Any, written: Any, flights: str, tmp_path: Path
    ) -> None:
        windows = [
            manifest_of([(flights, 0, 0, 30), (flights, 2, 0, 90)], start_ms=0, end_ms=FIVE_MS),
            manifest_of([(flights, 0, 30, 30), (flights, 2, 90, 100)], start_ms=FIVE_MS, end_ms=FIVE_MS + 1),
            manifest_of([(flights, 0, 30, 100), (flights, 2, 100, 250)], start_ms=FIVE_MS + 1, end_ms=FIVE_MS + 2),
        ]
        rows = [(flights, 0, offset) for offset in range(100) if offset not in (29, 30)]
        rows += [(flights, 2, offset) for offset in (*range(250), 100)]
        reports = audit_each(windows, written(rows), missing_to=f"file://{tmp_path}/missing")
        assert [places(each) for each in reports] == [
            [("missing", 0, 29, 29)],
            [],
            [("doubled", 2, 100, 100), ("missing", 0, 30, 30)],
        ]
        assert [each.rows for each in reports] == [119, 10, 220]
        assert [each.looked_at for each in reports] == [30, 0, 220]
        for report, offset in ((reports[0], 29), (reports[2], 30)):
            assert [row.offset for row in spark.read.parquet(report.written.output).collect()] == [offset]

    def test_of_a_topic_that_began_anew_are_judged_by_the_log_that_each_is_of(
        self, audit_each: Any, written: Any, make_flights: MakeFlights, broker: Broker
    ) -> None:
        """The table lacks a record of each; the old log's can't be asked for any more."""
        topic = make_flights({0: 5})
        with connected(broker) as ask:
            facts = ask.topic_facts([topic])
        old = {topic: replace(facts[topic], topic_id="00000000-0000-0000-0000-000000000001")}
        windows = [
            replace(manifest_of([(topic, 0, 0, 3)], start_ms=0, end_ms=1), topics=old),
            replace(manifest_of([(topic, 0, 3, 5)], start_ms=1, end_ms=2), topics=old),
            replace(manifest_of([(topic, 0, 0, 5)], start_ms=2, end_ms=3), topics=facts),
        ]
        first, second, third = audit_each(windows, written((topic, 0, offset) for offset in (0, 2, 3, 4)))
        assert isinstance(first, TopicChangedError)
        assert second.is_complete
        assert places(third) == [("missing", 0, 1, 1)]


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
        asked = log_audit.log_starts

        def meanwhile(*given: Any) -> Any:
            frame(spark, [(flights, 0, 9)]).write.format("delta").mode("append").save(folder)
            return asked(*given)

        monkeypatch.setattr(log_audit, "log_starts", meanwhile)
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
