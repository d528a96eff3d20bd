"""Kerberos from end to end: a key distribution centre, a broker that takes its tickets, and Spark's own login."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import AuthenticationError, ClusterUnreachableError, ConfigurationError
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.sensors.pipeline_sensors import KafkaWindowCompleteSensor
from dev.airflow_home import environment
from dev.kafka import Broker, BrokerSettings, unused_ports
from dev.kafka_properties import new_cluster
from dev.kerberos import Kdc, python_client
from dev.ports import HOST
from dev.spark_packages import jars_of
from tests.integration.airflow.conftest import RECORDS_A_DAY, Context, write_flights

_LOGIN = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    with Kdc() as running:
        yield running


@pytest.fixture(scope="module")
def kerberos_broker(kdc: Kdc) -> Iterator[Broker]:
    """A ticket is for a service on a host of that name: clients hear it from the brokers too."""
    node, service = new_cluster([unused_ports()])[0], "kafka/localhost"
    properties = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl.gssapi.sasl.jaas.config": login_as(kdc, service),
        "advertised.listeners": f"PLAIN://{HOST}:{node.ports.client},SASL://localhost:{node.ports.sasl}",
        "super.users": "User:ANONYMOUS;User:loader",
        "allow.everyone.if.no.acl.found": "false",
    }
    settings = BrokerSettings(name="kerberos", users={"nobody": "unused"}, properties=properties)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.krb5.conf={kdc.krb5_conf}")
        broker = Broker(settings, node)
        broker.start()
    write_flights(broker.bootstrap_servers)
    yield broker
    broker.close()


@pytest.fixture
def keys(kerberos_broker: Broker) -> dict[str, str]:
    """The extra of a connection of the Kafka provider."""
    return {
        "bootstrap.servers": kerberos_broker.sasl_bootstrap_servers.replace(HOST, "localhost"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
    }


@pytest.fixture(autouse=True)
def realm(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a machine of the realm has: the library, its settings, and the place of a ticket."""
    monkeypatch.syspath_prepend(str(python_client()))
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.folder / 'none'}")


def login_as(kdc: Kdc, principal: str) -> str:
    """How Java logs in by a keytab."""
    return f'{_LOGIN} keyTab="{kdc.keytab(principal)}" principal="{principal}";'


def cluster_of(keys: dict[str, str]) -> str:
    with OffsetsClient(ClientSettings.from_config(keys), timeout_s=15) as client:
        return client.cluster_id()


class TestClient:
    def test_answers_by_a_ticket_as_without_a_login(
        self, keys: dict[str, str], kerberos_broker: Broker, kdc: Kdc, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket('loader')}")
        assert cluster_of(keys) == cluster_of({"bootstrap.servers": kerberos_broker.bootstrap_servers})

    def test_has_no_ticket(self, keys: dict[str, str]) -> None:
        with pytest.raises(
            AuthenticationError, match=r"Kerberos login at .* failed: No Kerberos credentials available .*klist"
        ):
            cluster_of(keys)

    def test_has_one_that_has_ended(self, keys: dict[str, str], kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket('loader', '1s')}")
        time.sleep(2)
        with pytest.raises(AuthenticationError, match=r"Kerberos login at .* failed: .*[Ee]xpired"):
            cluster_of(keys)

    def test_asks_for_a_service_that_is_not_there(
        self, keys: dict[str, str], kdc: Kdc, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket('loader')}")
        with pytest.raises(AuthenticationError, match=r"Kerberos login at .* failed: Server broker/l.* not found"):
            cluster_of(keys | {"sasl.kerberos.service.name": "broker"})

    @pytest.mark.nightly("waits for a KDC that is gone; the tests beside it log in by tickets")
    def test_may_do_better_later_where_no_kdc_answers(
        self, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Kdc() as gone:
            monkeypatch.setenv("KRB5_CONFIG", str(gone.krb5_conf))
            monkeypatch.setenv("KRB5CCNAME", f"FILE:{gone.ticket('loader')}")
            gone.kill()
            with pytest.raises(ClusterUnreachableError, match="Cannot contact any KDC"):
                cluster_of(keys)

    def test_lacks_the_library(self, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "gssapi", None)
        with pytest.raises(
            ConfigurationError,
            match=r"pip install .airflow-kafka-offsets.kerberos.*a password, set sasl.mechanism",
        ):
            cluster_of(keys)


@pytest.mark.nightly("a driver of its own; TestClient logs in by a ticket")
@pytest.mark.timeout(900)
def test_a_day_from_kafka_to_its_proof(
    keys: dict[str, str],
    kerberos_broker: Broker,
    kdc: Kdc,
    context: Context,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow's side by the ticket that its machine has, Spark's by a keytab."""
    for name, value in environment(tmp_path, kerberos_broker.bootstrap_servers).items():
        if name not in ("AIRFLOW_HOME", "AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket('loader')}")
    monkeypatch.setenv("AIRFLOW_CONN_KERBEROS", json.dumps({"conn_type": "kafka", "extra": keys}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(f"KafkaClient {{ {login_as(kdc, 'loader')} }};")
    flights = KafkaPipeline("kerberos", "flights", kafka_conn_id="kerberos")
    day = {"start": "2013-03-09T00:00:00Z", "end": "2013-03-10T00:00:00Z"}
    KafkaWindowCompleteSensor(task_id="complete", pipeline=flights, **day).execute(context)
    resolve = KafkaResolveWindowOperator(task_id="resolve", pipeline=flights, **day)
    window = resolve.execute(context)
    java = f"-Djava.security.krb5.conf={kdc.krb5_conf} -Djava.security.auth.login.config={jaas}"
    load = KafkaSparkSubmitOperator(
        task_id="load",
        window=window,
        jars=jars_of("connector"),
        conf={"spark.driver.extraJavaOptions": java, "spark.executor.extraJavaOptions": java},
        application_args=["--output", (tmp_path / "lake").as_uri()],
    )
    assert load.execute(context)["rows"] == RECORDS_A_DAY
    verdict = KafkaVerifyWindowOperator(task_id="verify", window=window).execute(context)
    assert verdict["read"] == verdict["written"] == RECORDS_A_DAY


def test_a_missing_ticket_fails_a_task_for_good(
    keys: dict[str, str], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KERBEROS", json.dumps({"conn_type": "kafka", "extra": keys}))
    day = {"start": "2013-03-09T00:00:00Z", "end": "2013-03-10T00:00:00Z"}
    flights = KafkaPipeline("kerberos", "flights", kafka_conn_id="kerberos")
    sensor = KafkaWindowCompleteSensor(task_id="c", pipeline=flights, **day)
    with pytest.raises(AirflowFailException, match=r"Kerberos login at .* failed: "):
        sensor.execute(context)
