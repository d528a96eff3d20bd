"""Operators on a real broker, without Spark: what they keep, and what they refuse before Spark would start."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.exceptions import AirflowFailException
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.settings import ClientSettings
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    DataLossError,
    InstantError,
    IntervalError,
    LedgerCorruptError,
    OffsetsError,
    TopicChangedError,
    UnprovenError,
)
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import WindowState
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.operators.commit_offsets import KafkaCommitOffsetsOperator
from airflow_kafka_offsets.operators.resolve_window import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.snapshot import KafkaOffsetSnapshotOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from dev.kafka import Broker
from tests.integration.airflow.conftest import Context, Publish, Resolve, use_connection
from tests.integration.conftest import MakeTopic, Produce

T0 = datetime(2026, 11, 20, 6, tzinfo=UTC)
T0_MS = int(T0.timestamp() * 1000)
LOCAL_SPARK = json.dumps({"conn_type": "spark", "host": "local[2]"})
CLUSTER_SPARK = json.dumps({"conn_type": "spark", "host": "spark://nowhere:7077", "extra": {"deploy-mode": "cluster"}})
FOR_EVER = {"retention.ms": "-1"}


def at(seconds: float) -> str:
    """An instant relative to T0, as a template would give it."""
    return (T0 + timedelta(seconds=seconds)).isoformat()


def fails_with(kind: type[Exception], failed: pytest.ExceptionInfo[AirflowFailException]) -> bool:
    """The task failed for good, for this reason."""
    return isinstance(failed.value.__cause__, kind)


@pytest.fixture
def ten(topic: MakeTopic, produce: Produce) -> str:
    """A topic of one partition with ten records, a second apart from T0 on."""
    name = topic(config=FOR_EVER)
    produce(name, 0, [(T0_MS + n * 1000, None, b"x") for n in range(10)])
    return name


@pytest.fixture
def ledger(ledger_root: Path) -> Ledger:
    return Ledger(ObjectStoragePath(ledger_root.as_uri()), "loads")


class TestResolve:
    def test_a_window_holds_the_records_between_its_instants(self, ten: str, resolve: Resolve, ledger: Ledger) -> None:
        """S1: start inclusive, end exclusive."""
        window = resolve(ten, at(2), at(7))
        manifest = ledger.pinned(window["window"]).manifest
        assert [(each.start_offset, each.end_offset) for each in manifest.ranges] == [(2, 7)]
        assert (window["offsets"], window["partitions"], window["version"]) == (5, 1, 1)

    def test_the_xcom_is_small_plain_json(self, ten: str, resolve: Resolve) -> None:
        """S-§9: a URI, a hash and totals; never the offsets."""
        window = resolve(ten, at(2), at(7))
        assert json.loads(json.dumps(window)) == window
        assert len(json.dumps(window)) < 1000

    def test_a_rerun_returns_the_same_although_the_log_grew(self, ten: str, resolve: Resolve, produce: Produce) -> None:
        """S21, S23: late records change nothing."""
        first = resolve(ten, at(2), at(20))
        produce(ten, 0, [(T0_MS + 3000, None, b"late"), (T0_MS + 30_000, None, b"next")])
        assert resolve(ten, at(2), at(20)) == first

    def test_neighbours_tile_although_a_late_record_came_between(
        self, ten: str, resolve: Resolve, produce: Produce, ledger: Ledger
    ) -> None:
        """S2, E3: the late record is in the window in which it arrived, once."""
        first = resolve(ten, at(0), at(20))
        produce(ten, 0, [(T0_MS + 5000, None, b"late"), (T0_MS + 25_000, None, b"on time")])
        second = resolve(ten, at(20), at(40))
        ranges = [ledger.pinned(each["window"]).manifest.ranges[0] for each in (first, second)]
        assert [(each.start_offset, each.end_offset) for each in ranges] == [(0, 10), (10, 12)]

    def test_the_interval_of_the_run_is_the_default(self, ten: str, context: Context) -> None:
        context |= {"data_interval_start": T0, "data_interval_end": T0 + timedelta(seconds=5)}
        window = KafkaResolveWindowOperator(task_id="r", pipeline="loads", topics=[ten]).execute(context)
        assert window["offsets"] == 5

    def test_a_record_from_the_future_is_named(
        self, ten: str, context: Context, produce: Produce, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """E5, S7: every window up to its time will be empty."""
        ahead_ms = int((datetime.now(UTC) + timedelta(minutes=59)).timestamp() * 1000)
        produce(ten, 0, [(ahead_ms, None, b"x")])
        with pytest.MonkeyPatch.context() as patch:
            # A worker whose clock is two hours behind that record: a broker takes none that far ahead of its own.
            patch.setattr("airflow_kafka_offsets.resolver.now_ms", lambda: ahead_ms - 7_200_000)
            KafkaResolveWindowOperator(task_id="r", pipeline="loads", topics=ten, start=at(0), end=at(20)).execute(
                context
            )
        assert "Records from the future" in "".join(capfd.readouterr())

    def test_an_empty_partition_makes_an_empty_window(self, topic: MakeTopic, resolve: Resolve) -> None:
        """S6."""
        assert resolve(topic(partitions=3), at(0), at(1))["offsets"] == 0

    def test_a_partition_added_between_two_windows_starts_at_its_log_start(
        self, ten: str, resolve: Resolve, broker: Broker, admin: KafkaAdminClient, ledger: Ledger
    ) -> None:
        """S17, E23."""
        resolve(ten, at(0), at(5))
        admin.create_partitions({ten: 2})
        with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers)) as producer:
            for seconds in (6, 60):
                producer.send(ten, b"new", partition=1, timestamp_ms=T0_MS + seconds * 1000)
        window = resolve(ten, at(5), at(30))
        ranges = ledger.pinned(window["window"]).manifest.ranges
        assert [(each.partition, each.start_offset, each.end_offset) for each in ranges] == [(0, 5, 10), (1, 0, 1)]

    @pytest.mark.parametrize(
        ("start", "end", "kind", "message"),
        [
            pytest.param(at(5), at(5), IntervalError, "is empty", id="empty"),
            pytest.param(at(5), at(1), IntervalError, "after its end", id="start after end"),
            pytest.param("2026-11-20T06:00", "2026-11-20T07:00", InstantError, "no time zone", id="naive"),
            pytest.param("1795240800", "1795244400", InstantError, "not an instant", id="E35: seconds"),
            pytest.param(at(0), "2999-01-01T00:00:00Z", InstantError, "future", id="E36: in the future"),
            pytest.param(at(0), None, ConfigurationError, "go together", id="one of the two"),
        ],
    )
    def test_a_wrong_interval_fails_at_once(
        self, ten: str, context: Context, start: str, end: str | None, kind: type[Exception], message: str
    ) -> None:
        operator = KafkaResolveWindowOperator(task_id="r", pipeline="loads", topics=ten, start=start, end=end)
        with pytest.raises(AirflowFailException, match=message) as failed:
            operator.execute(context)
        assert fails_with(kind, failed)

    def test_a_zero_length_interval_names_the_timetables_that_give_one(self, ten: str, context: Context) -> None:
        context |= {"data_interval_start": T0, "data_interval_end": T0}
        with pytest.raises(AirflowFailException, match="CronPartitionTimetable"):
            KafkaResolveWindowOperator(task_id="r", pipeline="loads", topics=ten).execute(context)

    def test_an_unknown_topic_is_named(self, resolve: Resolve) -> None:
        with pytest.raises(AirflowFailException, match=r"no-such-topic.*UNKNOWN_TOPIC_OR_PARTITION") as failed:
            resolve("no-such-topic", at(0), at(1))
        assert fails_with(OffsetsError, failed)

    def test_a_ledger_of_another_cluster_is_refused(self, ten: str, resolve: Resolve, ledger: Ledger) -> None:
        ledger.open([ten], "some-other-cluster", IsolationLevel.READ_COMMITTED)
        with pytest.raises(AirflowFailException, match="written by cluster some-other-cluster") as failed:
            resolve(ten, at(0), at(1))
        assert fails_with(TopicChangedError, failed)

    def test_a_recreated_topic_is_refused(
        self, ten: str, resolve: Resolve, admin: KafkaAdminClient, produce: Produce
    ) -> None:
        """S16, E24."""
        resolve(ten, at(0), at(5))
        recreate(admin, ten)
        with pytest.raises(AirflowFailException, match="re-created") as failed:
            resolve(ten, at(5), at(10))
        assert fails_with(TopicChangedError, failed)

    def test_no_broker_fails_the_try_and_leaves_the_retry_to_airflow(
        self, monkeypatch: pytest.MonkeyPatch, resolve: Resolve
    ) -> None:
        use_connection(monkeypatch, "nowhere", {"bootstrap.servers": "127.0.0.1:1"})
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S", "2")
        with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as failed:
            resolve("t", at(0), at(1), kafka_conn_id="nowhere")
        assert not isinstance(failed.value, AirflowFailException)
        assert "\n" not in str(failed.value)

    def test_without_a_ledger_root_it_says_where_to_set_one(
        self, ten: str, resolve: Resolve, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("AIRFLOW__KAFKA_OFFSETS__LEDGER_ROOT")
        with pytest.raises(AirflowFailException, match="ledger_root"):
            resolve(ten, at(0), at(1))


class TestSnapshot:
    def test_an_instant_is_resolved_once(self, ten: str, context: Context, produce: Produce) -> None:
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline="loads", topics=ten, at=at(20))
        first = operator.execute(context)
        produce(ten, 0, [(T0_MS + 60_000, None, b"x")])
        assert operator.execute(context) == first
        assert (first["snapshot"], first["partitions"]) == (1, 1)

    def test_latest_is_new_each_time(self, ten: str, context: Context, produce: Produce, ledger: Ledger) -> None:
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline="loads", topics=ten)
        first = operator.execute(context)
        produce(ten, 0, [(None, None, b"x")])
        second = operator.execute(context)
        stored = [list(ledger.snapshots.read(each["snapshot"]).offsets().values()) for each in (first, second)]
        assert stored == [[10], [11]]

    def test_earliest_stands_at_the_log_start(self, ten: str, context: Context, admin: KafkaAdminClient) -> None:
        admin.delete_records({TopicPartition(ten, 0): 4})
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline="early", topics=ten, at="earliest")
        assert operator.execute(context)["as_of"] == "earliest"

    def test_a_group_without_a_commit_is_not_zero(self, ten: str, context: Context) -> None:
        """E18."""
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline="loads", topics=ten, group="nobody")
        with pytest.raises(AirflowFailException, match="no committed offset"):
            operator.execute(context)

    def test_a_group_and_an_instant_exclude_each_other(self, ten: str, context: Context) -> None:
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline="loads", topics=ten, group="g", at=at(0))
        with pytest.raises(AirflowFailException, match="drop group= or at="):
            operator.execute(context)


class TestPreflight:
    """Refused on the worker, before a Spark cluster starts. ``spark_binary`` is one that would be noticed."""

    def load(self, window: dict[str, Any], **arguments: Any) -> KafkaSparkSubmitOperator:
        return KafkaSparkSubmitOperator(task_id="load", window=window, spark_binary="spark-submit", **arguments)

    def test_loss_names_partitions_and_exact_counts(
        self, ten: str, resolve: Resolve, admin: KafkaAdminClient, context: Context, ledger: Ledger
    ) -> None:
        """S12, E10: retention or DeleteRecords between resolve and run."""
        window = resolve(ten, at(2), at(7))
        admin.delete_records({TopicPartition(ten, 0): 5})
        with pytest.raises(AirflowFailException, match=rf"3 of 5 offsets .* {ten}-0: 3 offsets from 2 on") as failed:
            self.load(window).execute(context)
        assert fails_with(DataLossError, failed)
        assert ledger.window(window["window"]).state() is WindowState.RESOLVED

    def test_a_published_window_whose_records_are_gone_by_now_stays_published(
        self, ten: str, resolve: Resolve, admin: KafkaAdminClient, context: Context, publish: Publish
    ) -> None:
        """S22: the worker died after Spark had published, and retention passed before the retry."""
        window = resolve(ten, at(2), at(7))
        publish(window)
        admin.delete_records({TopicPartition(ten, 0): 5})
        result = self.load(window).execute(context)
        assert (result["published_attempt"], result["rows"]) == ("try-1", 5)

    def test_a_deleted_topic_is_named(
        self, ten: str, resolve: Resolve, admin: KafkaAdminClient, context: Context
    ) -> None:
        window = resolve(ten, at(2), at(7))
        admin.delete_topics([ten])
        with pytest.raises(AirflowFailException, match="no longer exists") as failed:
            self.load(window).execute(context)
        assert fails_with(TopicChangedError, failed)

    def test_a_recreated_topic_is_named(
        self, ten: str, resolve: Resolve, admin: KafkaAdminClient, produce: Produce, context: Context
    ) -> None:
        """S16: Spark itself would read the wrong records."""
        window = resolve(ten, at(2), at(7))
        recreate(admin, ten)
        produce(ten, 0, [(T0_MS, None, b"other")] * 10)
        with pytest.raises(AirflowFailException, match="re-created") as failed:
            self.load(window).execute(context)
        assert fails_with(TopicChangedError, failed)

    def test_a_manifest_changed_after_it_was_hashed_is_refused(
        self, ten: str, resolve: Resolve, context: Context, ledger_root: Path
    ) -> None:
        window = resolve(ten, at(2), at(7))
        file = ledger_root / "loads" / "windows" / window["window"] / "manifest.json"
        file.write_bytes(file.read_bytes().replace(b'"end_offset":[7]', b'"end_offset":[9]'))
        with pytest.raises(AirflowFailException, match="changed after it was pinned") as failed:
            self.load(window).execute(context)
        assert fails_with(LedgerCorruptError, failed)

    def test_missing_java_is_one_clear_line(
        self, ten: str, resolve: Resolve, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        window = resolve(ten, at(2), at(7))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", LOCAL_SPARK)
        with pytest.raises(AirflowFailException, match="needs Java 17"):
            self.load(window).execute(context)
        with pytest.raises(AirflowFailException, match="has no bin/java"):
            self.load(window, env_vars={"JAVA_HOME": str(tmp_path)}).execute(context)

    def test_credentials_are_refused_in_cluster_mode(
        self, ten: str, resolve: Resolve, context: Context, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        extra = {
            "bootstrap.servers": broker.sasl_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": "admin-secret",
        }
        use_connection(monkeypatch, "locked", extra)
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", CLUSTER_SPARK)
        with pytest.raises(AirflowFailException, match="client deploy mode") as failed:
            self.load(resolve(ten, at(2), at(7)), kafka_conn_id="locked").execute(context)
        assert "admin-secret" not in str(failed.value)

    @pytest.mark.parametrize("window", [None, "text", {}, {"version": 9}])
    def test_something_that_is_no_window_is_refused(self, context: Context, window: Any) -> None:
        with pytest.raises(AirflowFailException, match=r"its \.output"):
            KafkaVerifyWindowOperator(task_id="v", window=window).execute(context)


class TestVerify:
    def verify(self, window: dict[str, Any]) -> KafkaVerifyWindowOperator:
        return KafkaVerifyWindowOperator(task_id="v", window=window)

    def test_a_published_window_is_proved_and_recorded(
        self, ten: str, resolve: Resolve, context: Context, publish: Publish, ledger: Ledger
    ) -> None:
        window = resolve(ten, at(2), at(7))
        publish(window)
        assert self.verify(window).execute(context)["verdict"] == "read = written = log"
        assert ledger.window(window["window"]).state() is WindowState.VERIFIED

    def test_a_window_that_was_never_published_is_not_proved(
        self, ten: str, resolve: Resolve, context: Context
    ) -> None:
        with pytest.raises(AirflowFailException, match="never published") as failed:
            self.verify(resolve(ten, at(2), at(7))).execute(context)
        assert fails_with(UnprovenError, failed)

    def test_a_published_window_that_overlaps_is_not_proved(
        self, ten: str, resolve: Resolve, context: Context, publish: Publish
    ) -> None:
        whole, part = resolve(ten, at(0), at(9)), resolve(ten, at(2), at(7))
        publish(part)
        assert self.verify(part).execute(context)["tiling"] == "tiles"  # the whole was never loaded
        publish(whole)
        with pytest.raises(AirflowFailException, match="overlap in time"):
            self.verify(whole).execute(context)


class TestCommit:
    def commit(self, window: dict[str, Any], topic: str) -> KafkaCommitOffsetsOperator:
        return KafkaCommitOffsetsOperator(task_id="c", window=window, group=f"g-{topic}")

    def committed(self, broker: Broker, group: str) -> list[int | None]:
        with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})) as client:
            found = client.committed_offsets({group: None}).raise_for_errors().lookup(group)
        return [] if found is None else [each.offset for each in found.offsets]

    def test_the_end_of_the_window_is_committed(
        self, ten: str, resolve: Resolve, context: Context, broker: Broker, publish: Publish
    ) -> None:
        window = resolve(ten, at(2), at(7))
        publish(window)
        assert self.commit(window, ten).execute(context) == {"group": f"g-{ten}", "committed": 1, "kept": 0}
        assert self.committed(broker, f"g-{ten}") == [7]

    def test_an_earlier_window_never_moves_a_group_back(
        self, ten: str, resolve: Resolve, context: Context, broker: Broker, publish: Publish
    ) -> None:
        """A backfill, or a rerun of an old window."""
        late, early = resolve(ten, at(5), at(9)), resolve(ten, at(0), at(5))
        for window in (late, early):
            publish(window)
        self.commit(late, ten).execute(context)
        assert self.commit(early, ten).execute(context) == {"group": f"g-{ten}", "committed": 0, "kept": 1}
        assert self.committed(broker, f"g-{ten}") == [9]

    def test_a_window_that_was_never_published_is_not_committed(
        self, ten: str, resolve: Resolve, context: Context
    ) -> None:
        with pytest.raises(AirflowFailException, match="never published"):
            self.commit(resolve(ten, at(2), at(7)), ten).execute(context)

    def test_a_recreated_topic_gets_no_offsets_of_the_old_one(
        self, ten: str, resolve: Resolve, context: Context, admin: KafkaAdminClient, publish: Publish
    ) -> None:
        """S16."""
        window = resolve(ten, at(2), at(7))
        publish(window)
        recreate(admin, ten)
        with pytest.raises(AirflowFailException, match="re-created") as failed:
            self.commit(window, ten).execute(context)
        assert fails_with(TopicChangedError, failed)


def recreate(admin: KafkaAdminClient, topic: str) -> None:
    """Delete a topic and make another one of the same name."""
    admin.delete_topics([topic])
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1, "configs": FOR_EVER}})
