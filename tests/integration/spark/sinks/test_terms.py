"""Terms of tables, and confs of sessions: what would send rows elsewhere is refused by name, and the rest changes
nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession, functions as F

from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, KafkaOffsetsError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import DeltaSink, IcebergSink, Sink, read_published
from airflow_kafka_offsets.spark.session.session import held
from airflow_kafka_offsets.spark.sinks.table_owner import sql_name
from airflow_kafka_offsets.spark.sinks.table_sink import TableSink
from tests.integration.spark.conftest import OpenWindow
from tests.integration.spark.sinks.conftest import EXPECTED, Holds, attempt_of, publish, write_shown
from tests.integration.spark.sinks.test_branches import branches
from tests.integration.spark.test_pinned_window import offsets
from tests.unit.spark.manifests import SEVEN_MS, SIX_MS, manifest_of

MakeSink = Callable[[str], Sink]
UNUSUAL = {
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.maxRecordsPerFile": "7",
    "spark.sql.session.timeZone": "Pacific/Auckland",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.databricks.delta.write.txnAppId": "another",
    "spark.databricks.delta.write.txnVersion": "1",
    "spark.databricks.delta.commitInfo.userMetadata": "another's",
    "spark.wap.branch": "audit",
    "spark.wap.id": "another",
}
"""Confs by which other loads are steered."""


@contextmanager
def with_confs(spark: SparkSession, confs: Mapping[str, str]) -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in confs.items():
            stack.enter_context(held(spark, name, lambda _, value=value: value))  # type: ignore[misc]
        yield


def load_two(open_window: OpenWindow, flights: str, sink: TableSink, change: str) -> tuple[Manifest, KafkaOffsetsError]:
    """Load a window, change its table with SQL, and load another one; why that was refused."""
    first = manifest_of([(flights, 0, 0, 9)])
    second = manifest_of([(flights, 0, 9, 12)], start_ms=SIX_MS, end_ms=SEVEN_MS)
    window = open_window(first)
    publish(window, sink)
    window.spark.sql(f"ALTER TABLE {sql_name(sink.kind, sink.table)} {change}")
    with pytest.raises(ConfigurationError) as refused:
        publish(open_window(second), sink)
    assert sink.rows(window.spark).count() == 9
    return second, refused.value


ANOTHER = pytest.mark.nightly("one more table and its terms; each kind of table is refused once in make test")


class TestDelta:
    @pytest.mark.parametrize(
        ("name", "value", "why"),
        [
            ("delta.appendOnly", "true", "lets no row of it be replaced"),
            pytest.param(
                *("delta.setTransactionRetentionDuration", "interval 1 second"),
                "forgets which attempt wrote a window last",
                marks=ANOTHER,
            ),
        ],
    )
    def test_a_property_that_breaks_the_promise_is_named_and_the_statement_that_mends_it(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        flights: str,
        make_sink: MakeSink,
        name: str,
        value: str,
        why: str,
    ) -> None:
        """With an expired history, a late attempt would replace the rows of a newer one."""
        sink = make_sink("delta")
        assert isinstance(sink, DeltaSink)
        second, refused = load_two(open_window, flights, sink, f"SET TBLPROPERTIES ('{name}' = '{value}')")
        assert f"has the property {name}={value}" in str(refused)
        assert why in str(refused)
        (remedy,) = re.findall(r"ALTER TABLE .*?\)", str(refused))
        spark.sql(remedy)
        publish(open_window(second), sink)

    @ANOTHER
    def test_a_path_where_there_can_be_no_folder_is_named(
        self, open_window: OpenWindow, manifest: Manifest, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(ConfigurationError, match=rf"the delta table file://{tmp_path}/file/t: .*Cannot create"):
            publish(open_window(manifest), DeltaSink(f"file://{tmp_path}/file/t"))

    @ANOTHER
    def test_a_constraint_that_rows_violate_is_named(
        self, open_window: OpenWindow, flights: str, make_sink: MakeSink
    ) -> None:
        sink = make_sink("delta")
        assert isinstance(sink, DeltaSink)
        _, refused = load_two(open_window, flights, sink, "ADD CONSTRAINT small CHECK (offset < 10)")
        assert "CHECK constraint small (offset < 10) violated" in str(refused)


class TestIceberg:
    @pytest.mark.nightly("Iceberg's confs; the tests above refuse a table's properties")
    @pytest.mark.parametrize("conf", ["spark.wap.branch", pytest.param("spark.wap.id", marks=ANOTHER)])
    def test_a_conf_that_sends_rows_elsewhere_is_named_before_a_row_is_written(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        flights: str,
        make_sink: MakeSink,
        ledger_uri: str,
        conf: str,
    ) -> None:
        """A reader whose session stages what it writes gets what is published."""
        sink = make_sink("iceberg")
        assert isinstance(sink, IcebergSink)
        with with_confs(spark, {conf: "audit"}):
            second, refused = load_two(open_window, flights, sink, "SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        assert f"the conf {conf}=audit" in str(refused)
        assert branches(spark, sink) == set()
        ours = F.col("summary")["kafka-offsets.window"] == second.window
        assert spark.table(f"{sink.table}.snapshots").where(ours).count() == 0

        spark.sql(f"ALTER TABLE {sink.table} CREATE BRANCH audit")
        publish(open_window(second), sink)
        with with_confs(spark, {"spark.wap.id": "audit"}):
            assert read_published(spark, ledger_uri).count() == 12

    @ANOTHER
    def test_rows_that_something_else_sends_elsewhere_are_not_taken_for_an_earlier_attempts(
        self,
        spark: SparkSession,
        open_window: OpenWindow,
        flights: str,
        make_sink: MakeSink,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """As if this conf weren't known here. The branch begins with the earlier attempt's rows."""
        sink, manifest = make_sink("iceberg"), manifest_of([(flights, 0, 0, 9)])
        assert isinstance(sink, IcebergSink)
        publish(open_window(manifest), sink)
        spark.sql(f"ALTER TABLE {sink.table} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        monkeypatch.setattr(IcebergSink, "_refuse_terms", lambda *_: None)
        rows = open_window(manifest, again=True).read()
        with with_confs(spark, {"spark.wap.id": "1"}), pytest.raises(CommitConflictError, match="holds those of"):
            write_shown(sink, rows, attempt_of(manifest))


_TABLES = pytest.mark.nightly("each kind of sink once more; test_files.py has such times and names in json")


@pytest.mark.parametrize(
    "kind",
    [
        "parquet",
        pytest.param("json", marks=_TABLES),
        pytest.param("delta", marks=_TABLES),
        pytest.param("iceberg", marks=_TABLES),
    ],
)
def test_confs_of_the_session_change_nothing(
    spark: SparkSession,
    open_window: OpenWindow,
    manifest: Manifest,
    make_sink: MakeSink,
    holds: Holds,
    ledger_uri: str,
    kind: str,
) -> None:
    """A window is loaded, and one without rows replaces it in a table."""
    sink = make_sink(kind)
    with with_confs(spark, UNUSUAL):
        publish(open_window(manifest), sink)
        assert holds(sink, manifest) == EXPECTED
        times = read_published(spark, ledger_uri).agg(F.min(F.to_timestamp("timestamp")).cast("long")).first()
        if isinstance(sink, TableSink):
            none = open_window(manifest, again=True).read().limit(0)
            write_shown(sink, none, attempt_of(manifest))
            assert offsets(sink.rows(spark)) == {}
    assert times is not None
    assert times[0] * 1000 == 1_795_237_200_000
