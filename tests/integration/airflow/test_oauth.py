"""OAUTHBEARER from end to end: an identity server whose tokens last seconds, and a broker that checks them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.errors import AuthenticationError, ConfigurationError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.kafka_pipeline import KafkaPipeline
from airflow_kafka_offsets.operators.resolve import KafkaResolveWindowOperator
from airflow_kafka_offsets.operators.spark_submit import KafkaSparkSubmitOperator
from airflow_kafka_offsets.operators.verify_window import KafkaVerifyWindowOperator
from airflow_kafka_offsets.sensors.pipeline_sensors import KafkaWindowCompleteSensor
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from dev import ROOT
from dev.airflow_home import environment
from dev.kafka import Broker, BrokerSettings
from dev.spark_packages import jars_of
from dev.token_server import AUDIENCE, TokenServer
from tests.integration.airflow.conftest import RECORDS_A_DAY, Context, write_flights
from tests.integration.airflow.waits.whole_airflow import commit
from tests.patience import PATIENCE_S

SECRET = 'se"cret,=\\;'
LIFE_S = 5
SLOW_LOAD = ROOT / "tests" / "integration" / "spark" / "slow_load.py"
"""It takes 0.2 s for each record."""
BEARER = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    with TokenServer({"loader": SECRET, "stranger": "x"}, tmp_path_factory.mktemp("keys"), life_s=LIFE_S) as server:
        yield server


@pytest.fixture(scope="module")
def oauth_broker(tokens: TokenServer) -> Iterator[Broker]:
    """Sessions end with their tokens: who doesn't bring a new one is cut off."""
    keys = tokens.keys_file.as_uri()
    properties = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connections.max.reauth.ms": f"{LIFE_S * 1000}",
        "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{BEARER}.OAuthBearerLoginModule required;",
        "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": (
            f"{BEARER}.OAuthBearerValidatorCallbackHandler"
        ),
    }
    before = os.environ.get("JDK_JAVA_OPTIONS", "")
    os.environ["JDK_JAVA_OPTIONS"] = f"{before} -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
    try:
        broker = Broker(BrokerSettings(name="oauth", users={"loader": "unused"}, properties=properties))
        broker.start()
    finally:
        os.environ["JDK_JAVA_OPTIONS"] = before
    write_flights(broker.bootstrap_servers)
    yield broker
    broker.close()


@pytest.fixture
def keys(oauth_broker: Broker, tokens: TokenServer) -> dict[str, str]:
    """The extra of a connection of the Kafka provider."""
    return {
        "bootstrap.servers": oauth_broker.sasl_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "loader",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": tokens.endpoint,
        "sasl.oauthbearer.scope": "read",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
    }


@pytest.fixture
def connection(keys: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Define a connection with these keys, and others in their place; None takes one away."""

    def define(others: Mapping[str, str | None]) -> str:
        extra = {name: value for name, value in {**keys, **others}.items() if value is not None}
        monkeypatch.setenv("AIRFLOW_CONN_BEARER", json.dumps({"conn_type": "kafka", "extra": extra}))
        return "bearer"

    return define


def cluster_of(keys: dict[str, str]) -> str:
    with OffsetsClient(ClientSettings.from_config(keys), timeout_s=15) as client:
        return client.cluster_id()


class TestClient:
    def test_answers_as_without_a_login(self, keys: dict[str, str], oauth_broker: Broker, tokens: TokenServer) -> None:
        assert cluster_of(keys) == cluster_of({"bootstrap.servers": oauth_broker.bootstrap_servers})
        assert tokens.given[-1] == "loader"
        assert tokens.scopes[-1] == "read"

    def test_a_wrong_secret_is_the_identity_servers_refusal(self, keys: dict[str, str], tokens: TokenServer) -> None:
        with pytest.raises(
            AuthenticationError, match=r"answered HTTP 401 for client loader: .*Invalid client"
        ) as failed:
            cluster_of(keys | {"sasl.oauthbearer.client.secret": "wr0ng"})
        assert "wr0ng" not in str(failed.value)

    def test_a_token_that_the_broker_refuses(self, keys: dict[str, str], tmp_path: Path) -> None:
        """Signed by somebody else."""
        with (
            TokenServer({"loader": SECRET}, tmp_path) as other,
            pytest.raises(AuthenticationError, match=r"refused OAUTHBEARER authentication: .*sasl.oauthbearer"),
        ):
            cluster_of(keys | {"sasl.oauthbearer.token.endpoint.url": other.endpoint})


def give_token(config: str) -> tuple[str, float]:
    """What a connection names as ``oauth_cb``."""
    from airflow_kafka_offsets.client.connection.oauth_tokens import OAuthSettings, TokenSource

    endpoint = json.loads(config)["endpoint"]
    token = TokenSource(OAuthSettings(endpoint=endpoint, client_id="loader", client_secret=SECRET)).token()
    return token.text, time.time() + LIFE_S


class TestCallback:
    NAME = f"{__name__}.give_token"

    @pytest.fixture
    def conn_id(self, connection: Callable[..., str], tokens: TokenServer) -> str:
        config = json.dumps({"endpoint": tokens.endpoint})
        return connection({"sasl.oauthbearer.method": None, "oauth_cb": self.NAME, "sasl.oauthbearer.config": config})

    def test_is_called_where_airflow_allows_it(self, conn_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", f"some.other, {self.NAME}")
        assert KafkaOffsetsHook(conn_id).test_connection()[0]
        with pytest.raises(
            ConfigurationError, match=r"Java, and can't call oauth_cb. Set sasl.oauthbearer.method=oidc"
        ):
            KafkaOffsetsHook(conn_id).java_settings()

    def test_is_not_imported_otherwise(self, conn_id: str) -> None:
        found, said = KafkaOffsetsHook(conn_id).test_connection()
        assert (found, "isn't in Airflow's setting [apache_kafka] callback_allowlist" in said) == (False, True)


@pytest.mark.nightly("a driver of its own; TestClient logs in by tokens")
@pytest.mark.timeout(900)
def test_a_day_from_kafka_to_its_proof_while_tokens_end(
    connection: Callable[..., str],
    tokens: TokenServer,
    oauth_broker: Broker,
    context: Context,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    for name, value in environment(tmp_path, oauth_broker.bootstrap_servers).items():
        if name not in ("AIRFLOW_HOME", "AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    flights, before = KafkaPipeline("oauth", "flights", kafka_conn_id=connection({})), len(tokens.given)
    day = {"start": "2013-03-09T00:00:00Z", "end": "2013-03-10T00:00:00Z"}
    KafkaWindowCompleteSensor(task_id="complete", pipeline=flights, **day).execute(context)
    resolve = KafkaResolveWindowOperator(task_id="resolve", pipeline=flights, **day)
    window = resolve.execute(context)
    time.sleep(LIFE_S)
    load = KafkaSparkSubmitOperator(
        task_id="load",
        window=window,
        application=str(SLOW_LOAD),
        application_args=[(tmp_path / "lake").as_uri()],
        conf={"spark.kafkaOffsets.kafka.max.poll.records": "5"},  # Kafka is asked again after so many
        jars=jars_of("connector"),
    )
    assert 0.2 * RECORDS_A_DAY > 1.5 * LIFE_S, "the read outlasts the token that it began with"
    assert load.execute(context)["rows"] == RECORDS_A_DAY
    verdict = KafkaVerifyWindowOperator(task_id="verify", window=window).execute(context)
    assert verdict["read"] == verdict["written"] == RECORDS_A_DAY
    assert len(tokens.given) - before >= 5
    assert SECRET not in caplog.text
    assert load._output is not None
    assert not any(SECRET in line for line in load._output())


@pytest.mark.nightly("waits until tokens end; TestClient has one that is renewed")
def test_a_deferred_wait_outlasts_its_tokens(
    connection: Callable[..., str], tokens: TokenServer, oauth_broker: Broker
) -> None:
    """In one loop, as on the triggerer."""
    condition = GroupsCaughtUp(groups=("slow-reader",), topics=("flights",), max_lag=0).to_json()
    trigger = KafkaWaitTrigger(kafka_conn_id=connection({}), condition=condition, poll_interval_s=1)
    commit(oauth_broker, "flights", 0, "slow-reader")

    async def fire() -> Any:
        first = asyncio.ensure_future(anext(aiter(trigger.run())))
        await asyncio.sleep(3 * LIFE_S)
        assert not first.done()
        await asyncio.to_thread(commit, oauth_broker, "flights", None, "slow-reader")
        return (await asyncio.wait_for(first, PATIENCE_S)).payload

    before = len(tokens.given)
    event = asyncio.run(fire())
    assert event["status"] == "done", event
    assert len(tokens.given) - before >= 3


def test_a_password_login_says_what_the_broker_takes(keys: dict[str, str]) -> None:
    plain = {name: value for name, value in keys.items() if "oauthbearer" not in name}
    with pytest.raises(AuthenticationError, match="PLAIN"):
        cluster_of(plain | {"sasl.mechanism": "PLAIN", "sasl.username": "loader", "sasl.password": "x"})


def test_failing_credentials_fail_a_task_for_good(
    connection: Callable[..., str], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn_id = connection({"sasl.oauthbearer.client.secret": "wrong"})
    flights = KafkaPipeline("oauth", "flights", kafka_conn_id=conn_id)
    sensor = KafkaWindowCompleteSensor(
        task_id="c", pipeline=flights, start="2013-03-09T00:00:00Z", end="2013-03-10T00:00:00Z"
    )
    with pytest.raises(AirflowFailException, match="HTTP 401 for client loader"):
        sensor.execute(context)
