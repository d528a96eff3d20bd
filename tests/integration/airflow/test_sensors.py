"""Sensors on a real broker: which faults end a task at once, and which window a sensor waits for."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets.errors import IntervalError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.sensors.group_lag import KafkaGroupLagSensor
from airflow_kafka_offsets.sensors.window_complete import KafkaWindowCompleteSensor
from dev.kafka import Broker
from tests.integration.airflow.conftest import T0, Commit, Context, sasl, use_connection
from tests.integration.conftest import USERS
from tests.patience import GRACE_S


class TestFaults:
    def test_a_wrong_password_fails_at_once(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch, context: Context
    ) -> None:
        use_connection(monkeypatch, "locked", sasl(broker, "alice", "wrong"))
        started = time.monotonic()
        with pytest.raises(AirflowFailException) as failed:
            KafkaGroupLagSensor(task_id="s", groups="g", kafka_conn_id="locked").execute(context)
        assert time.monotonic() - started < GRACE_S
        assert "wrong" not in str(failed.value).split()

    def test_a_connection_of_our_own_type_takes_the_form_fields(
        self, ten: str, broker: Broker, monkeypatch: pytest.MonkeyPatch, commit: Commit, context: Context
    ) -> None:
        commit(f"done-{ten}", ten, 10)
        extra = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "ssl.ca.location": ""}
        use_connection(
            monkeypatch,
            "own",
            extra,
            conn_type="kafka_offsets",
            host=broker.sasl_bootstrap_servers,
            login="admin",
            password=USERS["admin"],
        )
        assert KafkaGroupLagSensor(task_id="s", groups=f"done-{ten}", kafka_conn_id="own").execute(context)

    def test_no_broker_is_waited_out(
        self, monkeypatch: pytest.MonkeyPatch, context: Context, caplog: pytest.LogCaptureFixture
    ) -> None:
        use_connection(monkeypatch, "nowhere", {"bootstrap.servers": "127.0.0.1:1"})
        monkeypatch.setenv("AIRFLOW__KAFKA_OFFSETS__CLIENT_TIMEOUT_S", "2")
        sensor = KafkaGroupLagSensor(task_id="s", groups="g", kafka_conn_id="nowhere")
        assert not sensor.poke(context)

    def test_an_unknown_key_of_a_connection_is_named(self, monkeypatch: pytest.MonkeyPatch, context: Context) -> None:
        use_connection(monkeypatch, "odd", {"bootstrap.servers": "127.0.0.1:1", "sasl.pasword": "x"})
        with pytest.raises(AirflowFailException, match=r"Connection odd: .*sasl\.pasword"):
            KafkaGroupLagSensor(task_id="s", groups="g", kafka_conn_id="odd").execute(context)

    def test_an_unknown_topic_fails(self, ten: str, commit: Commit, context: Context) -> None:
        commit(f"known-{ten}", ten, 10)
        with pytest.raises(AirflowFailException, match="no-such-topic"):
            KafkaGroupLagSensor(task_id="s", groups=f"known-{ten}", topics=["no-such-topic"]).execute(context)

    @pytest.mark.parametrize("event", [None, {}, {"status": "odd"}])
    def test_an_event_it_does_not_understand_fails(self, context: Context, event: dict[str, str] | None) -> None:
        with pytest.raises(AirflowFailException, match="doesn't understand"):
            KafkaGroupLagSensor(task_id="s", groups="g").execute_complete(context, event)


class TestInterval:
    def test_the_interval_of_the_run_is_the_default(self, ten: str, context: Context) -> None:
        context |= {"data_interval_start": T0 - timedelta(hours=1), "data_interval_end": T0}
        assert KafkaWindowCompleteSensor(task_id="s", pipeline=KafkaPipeline("loads", ten)).poke(context)

    def test_an_empty_interval_names_the_timetables_that_give_one(self, ten: str, context: Context) -> None:
        context |= {"data_interval_start": T0, "data_interval_end": T0}
        with pytest.raises(AirflowFailException, match="CronDataIntervalTimetable") as failed:
            KafkaWindowCompleteSensor(task_id="s", pipeline=KafkaPipeline("loads", ten)).execute(context)
        assert isinstance(failed.value.__cause__, IntervalError)
