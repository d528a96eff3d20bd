"""Audits of tables that something else has written, against the logs of a real broker."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from pyspark.sql import SparkSession, functions as F

from airflow_kafka_offsets.errors import ConfigurationError, TopicChangedError
from airflow_kafka_offsets.offsets import plain_json
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.audits import cells
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from dev.kafka import Broker
from tests.integration.spark.audits.conftest import NOBODY, Audit, connected, places
from tests.integration.spark.audits.test_rule import expected
from tests.integration.spark.conftest import FIVE_MS, MakeFlights, delete_before, write_transactions
from tests.unit.spark.manifests import manifest_of


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

    @pytest.mark.parametrize("resolved", ["compact", "delete"])
    def test_of_a_compacted_topic_a_row_without_a_record_may_have_had_one(
        self, audit: Audit, written: Any, broker: Broker, make_flights: MakeFlights, resolved: str
    ) -> None:
        """Even if it wasn't compacted yet when the window was resolved. Here, compaction is put off for ten years."""
        made = make_flights({0: 0}, **{"cleanup.policy": "compact", "min.compaction.lag.ms": "315360000000"})
        topic = write_transactions(broker, made, committed=10, aborted=5)
        manifest = manifest_of([(topic, 0, 0, 17)], cleanup_policy=resolved)
        report = audit(manifest, written((topic, 0, offset) for offset in [*range(10), 12]))
        assert (report.is_complete, report.unconfirmed, report.records) == (True, 1, 10)
        doubled = audit(manifest, written((topic, 0, offset) for offset in [*range(10), 12, 12]))
        assert (dict(doubled.counts), doubled.rows) == ({"doubled": 1}, 12)

    def test_a_table_with_a_row_at_each_offset_is_not_complete_once_some_are_seen_to_lack_a_record(
        self, audit: Audit, written: Any, transactional: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody has said that there are transactions, and offsets 12 to 15 are all aborted records."""
        monkeypatch.setattr(cells, "SMALLEST", 4)
        table = written((transactional, 0, offset) for offset in range(17) if offset not in (10, 16))
        report = audit(manifest_of([(transactional, 0, 0, 17)]), table)
        assert dict(report.counts) == {"foreign": 5}
        assert places(report) == [("foreign", 0, 11, 15)]

    def test_a_table_with_a_row_at_each_offset_is_not_complete_if_their_records_were_counted(
        self, broker: Broker, audit: Audit, written: Any, transactional: str
    ) -> None:
        """All of a small window may be aborted records, with their marker after its end."""
        manifest = manifest_of([(transactional, 0, 11, 16)])
        with connected(broker) as client:
            ranges = [each.log_range for each in manifest.ranges]
            census = Census.of(client.log_contents(ranges).raise_for_errors())
        table = written((transactional, 0, offset) for offset in range(16))
        assert places(audit(manifest, table, census=census, servers=NOBODY)) == [("foreign", 0, 11, 15)]

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
        """Random rows, against the rule's oracle: a record, its marker, three aborted ones and theirs, 8 times. Once
        its records are counted, no broker is asked."""
        monkeypatch.setattr(cells, "SMALLEST", size)
        (whole,) = [each.log_range for each in sparse.ranges]
        topic, dice, asked = whole.topic, random.Random(size), dict[str, Any]()
        if is_counted:
            with connected(broker) as client:
                counted = Census.of(client.log_contents([whole]).raise_for_errors())
            asked = {
                "census": plain_json.from_bytes(Census, plain_json.to_bytes(counted), "a census"),
                "servers": NOBODY,
            }
        rows = Counter(dice.choices(range(48), k=30))
        report = audit(sparse, written((topic, 0, offset) for offset in rows.elements()), gaps=is_counted, **asked)
        found = {
            (each.problem, offset) for each in report.findings for offset in range(each.start_offset, each.end_offset)
        }
        told = {offset: expected(record=offset % 6 == 0, rows=rows[offset]) for offset in range(48)}
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
        table, missing_to = written(rows), f"file://{tmp_path}/missing"
        report = audit(manifest, table, missing_to=missing_to)
        assert places(report) == [("missing", 2, 60, 61), ("missing", 2, 200, 200)]
        assert (report.looked_at, report.rows, report.records) == (100, 327, 330)
        assert report.written is not None
        assert report.written.rows == 3
        repaired = spark.read.parquet(report.written.output)
        assert {"key", "value", "timestamp"} <= set(repaired.columns)
        assert sorted(row.offset for row in repaired.collect()) == [60, 61, 200]
        again = audit(manifest, table, missing_to=missing_to, run="1" * 8)
        assert again.written == report.written
        assert spark.read.parquet(missing_to).count() == 3, "a retry adds nothing"

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
