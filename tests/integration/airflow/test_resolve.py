"""Resolving on a real broker: windows and snapshots that are kept, and what is refused."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from kafka import KafkaAdminClient, TopicPartition

from airflow_kafka_offsets.errors import (
    ConfigurationError,
    InstantError,
    IntervalError,
    OffsetsError,
    TopicChangedError,
)
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.operators.resolve import KafkaOffsetSnapshotOperator, KafkaResolveWindowOperator
from tests.integration.airflow.conftest import T0, T0_MS, Context, Resolve, at, fails_with, use_connection
from tests.integration.airflow.windows.conftest import ranges
from tests.integration.conftest import Produce
from tests.unit.offsets.builders import offsets_of


class TestResolve:
    def test_a_window_holds_the_records_between_its_instants(self, ten: str, resolve: Resolve) -> None:
        """S1: start inclusive, end exclusive."""
        window = resolve(ten, at(2), at(7))
        assert ranges(window) == [(0, 2, 7)]
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

    def test_the_interval_of_the_run_is_the_default(self, ten: str, context: Context) -> None:
        context |= {"data_interval_start": T0, "data_interval_end": T0 + timedelta(seconds=5)}
        window = KafkaResolveWindowOperator(task_id="r", pipeline=KafkaPipeline("loads", [ten])).execute(context)
        assert window["offsets"] == 5

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
        operator = KafkaResolveWindowOperator(task_id="r", pipeline=KafkaPipeline("loads", ten))
        operator.start, operator.end = start, end  # as templates leave them
        with pytest.raises(AirflowFailException, match=message) as failed:
            operator.execute(context)
        assert fails_with(kind, failed)

    def test_a_zero_length_interval_names_the_timetables_that_give_one(self, ten: str, context: Context) -> None:
        context |= {"data_interval_start": T0, "data_interval_end": T0}
        with pytest.raises(AirflowFailException, match="CronPartitionTimetable"):
            KafkaResolveWindowOperator(task_id="r", pipeline=KafkaPipeline("loads", ten)).execute(context)

    def test_an_unknown_topic_is_named(self, resolve: Resolve) -> None:
        with pytest.raises(AirflowFailException, match=r"no-such-topic.*UNKNOWN_TOPIC_OR_PARTITION") as failed:
            resolve("no-such-topic", at(0), at(1))
        assert fails_with(OffsetsError, failed)

    def test_a_ledger_of_another_cluster_is_refused(self, ten: str, resolve: Resolve, ledger: Ledger) -> None:
        ledger.create([ten], "some-other-cluster", IsolationLevel.READ_COMMITTED)
        with pytest.raises(AirflowFailException, match="belongs to cluster some-other-cluster") as failed:
            resolve(ten, at(0), at(1))
        assert fails_with(TopicChangedError, failed)

    def test_and_told_from_a_topic_that_is_missing_there(self, resolve: Resolve, ledger: Ledger) -> None:
        ledger.create(["of-another"], "some-other-cluster", IsolationLevel.READ_COMMITTED)
        with pytest.raises(AirflowFailException, match="belongs to cluster some-other-cluster"):
            resolve("of-another", at(0), at(1))

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
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline=KafkaPipeline("loads", ten), at=at(20))
        first = operator.execute(context)
        produce(ten, 0, [(T0_MS + 60_000, None, b"x")])
        assert operator.execute(context) == first
        assert (first["at_ms"], first["partitions"]) == (T0_MS + 20_000, 1)

    def test_latest_is_new_each_time(self, ten: str, context: Context, produce: Produce, ledger: Ledger) -> None:
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline=KafkaPipeline("loads", ten))
        first = operator.execute(context)
        produce(ten, 0, [(None, None, b"x")])
        second = operator.execute(context)
        stored = [list(offsets_of(ledger.contents.snapshot(each["snapshot"])).values()) for each in (first, second)]
        assert stored == [[10], [11]]

    def test_earliest_stands_at_the_log_start(self, ten: str, context: Context, admin: KafkaAdminClient) -> None:
        admin.delete_records({TopicPartition(ten, 0): 4})
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline=KafkaPipeline("early", ten), at="earliest")
        stored = operator.execute(context)
        assert (stored["as_of"], stored["at_ms"]) == ("earliest", None)

    def test_a_group_without_a_commit_is_not_zero(self, ten: str, context: Context) -> None:
        """E18."""
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline=KafkaPipeline("loads", ten), group="nobody")
        with pytest.raises(AirflowFailException, match="no committed offset"):
            operator.execute(context)

    def test_a_group_and_an_instant_exclude_each_other(self, ten: str, context: Context) -> None:
        operator = KafkaOffsetSnapshotOperator(task_id="s", pipeline=KafkaPipeline("loads", ten))
        operator.group, operator.at = "g", at(0)  # as templates leave them
        with pytest.raises(AirflowFailException, match="drop group= or at="):
            operator.execute(context)
