"""Sensors on a real broker: which faults end a task at once."""

from __future__ import annotations

import time

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_offsets.sensors.group_sensors import KafkaGroupLagSensor
from dev.kafka import Broker
from tests.integration.airflow.conftest import Commit, Context, sasl, use_connection
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
