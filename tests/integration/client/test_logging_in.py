"""Logins that take long, come again (KIP-368) or lack a token: they keep to the deadline, and say what is late."""

from __future__ import annotations

import itertools
import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import AuthenticationError, ClusterUnreachableError
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from dev.certificates import make_certificates
from tests.integration.client.scripted import Answer, ScriptedCluster
from tests.integration.client.scripted_answers import offsets_are, silence
from tests.patience import GRACE_S, wait_until

A0 = TopicPartition("a", 0)
PASSWORD = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "s3cret"}
BEARER = {"sasl.mechanism": "OAUTHBEARER"}
SESSION_MS = 4_000
"""Within which a busy machine, too, has its first answer."""


def let_in(session_lifetime_ms: int = 0, said: bytes = b"") -> Answer:
    """A SaslAuthenticate answer: the login counts for so long, or for good."""
    return lambda _: SaslAuthenticateResponse(
        error_code=0, error_message=None, auth_bytes=said, session_lifetime_ms=session_lifetime_ms
    )


def guarded(*logins: Answer, tls: ssl.SSLContext | None = None) -> ScriptedCluster:
    """A cluster of one broker that has clients log in.

    :param logins: what it answers to the first login, the second, and so on.
    """
    cluster = ScriptedCluster({"a": [0]}, tls=tls)
    (broker,) = cluster.brokers
    mechanisms = ["PLAIN", "OAUTHBEARER", "AWS_MSK_IAM"]
    broker.on(SaslHandshakeRequest, lambda _: SaslHandshakeResponse(error_code=0, mechanisms=mechanisms))
    broker.on(SaslAuthenticateRequest, *logins)
    broker.on(ListOffsetsRequest, offsets_are(5))
    return cluster


def client_of(cluster: ScriptedCluster, timeout_s: float, **keys: Any) -> OffsetsClient:
    return cluster.client(timeout_s, **{"security.protocol": "SASL_PLAINTEXT"}, **keys)


def latest(client: OffsetsClient) -> Any:
    """The log end, or the name of the error instead."""
    (listed,) = client.list_offsets([A0], OffsetSpec.LATEST)
    return listed.offset if listed.error is None else listed.error.name


class TestNewLoginOnAnOpenConnection:
    """After 85 % of a session, a client logs in again, and sends nothing else meanwhile. A new client has two
    connections: to the address that it was given, and to the leader."""

    def test_that_hangs_costs_its_partitions_an_error_within_the_deadline(self) -> None:
        """Also where one answer may take longer than that."""
        with guarded(let_in(SESSION_MS), let_in(SESSION_MS), silence) as cluster:
            client = client_of(cluster, 2, **PASSWORD, **{"socket.timeout.ms": 60_000})
            assert latest(client) == 5
            wait_for_logins(cluster, 4)
            started = time.monotonic()
            assert latest(client) in ("REQUEST_TIMED_OUT", "NETWORK_EXCEPTION")
            assert time.monotonic() - started < 2 + GRACE_S

    def test_that_hangs_is_given_up_after_the_time_of_one_answer(self) -> None:
        """The request goes over another connection then."""
        with guarded(let_in(SESSION_MS), let_in(SESSION_MS), silence, silence, let_in()) as cluster:
            client = client_of(cluster, 6, **PASSWORD, **{"socket.timeout.ms": 1_000})
            assert latest(client) == 5
            wait_for_logins(cluster, 4)
            assert latest(client) == 5


class TestTokens:
    """From a user's function, or an identity server (KIP-255)."""

    def test_that_come_too_late_are_told_by_the_deadline(self, hung_port: int) -> None:
        """Brokers aren't to blame: none was asked."""
        endpoint = f"http://127.0.0.1:{hung_port}/token"
        server = {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": endpoint}
        secret = {"sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": "s3cret"}
        with guarded(let_in()) as cluster:
            started = time.monotonic()
            with pytest.raises(ClusterUnreachableError, match=r"/token gave no token within \d+ m?s\. No broker was"):
                client_of(cluster, 1, **BEARER, **server, **secret).cluster_id()
            assert time.monotonic() - started < 1 + GRACE_S
            assert cluster.asked == []

    def test_of_a_function_that_hangs_are_told_by_the_deadline(self) -> None:
        """Its token isn't lost: the next call has it, and the function isn't called beside itself."""
        go, calls = threading.Event(), list[str]()

        def give(config: str) -> tuple[str, float]:
            calls.append(config)
            go.wait(20)
            return "t0ken", time.time() + 100

        with guarded(let_in()) as cluster:
            client, started = client_of(cluster, 1, **BEARER, oauth_cb=give), time.monotonic()
            for _ in range(2):
                with pytest.raises(
                    ClusterUnreachableError, match=r"oauth_cb .*give gave no token within \d+ m?s\. No br"
                ):
                    client.cluster_id()
            assert time.monotonic() - started < 2 + GRACE_S
            go.set()
            assert cluster.given_time(client).cluster_id() == "scripted"
            assert len(calls) == 1

    def test_of_one_login_are_one(self) -> None:
        """Text and extensions belong together, whatever the function gives next."""
        given = itertools.count()

        def give(config: str) -> tuple[Any, ...]:
            number = next(given)
            return f"token-{number}", time.time(), "", {"of": f"token-{number}"}

        with guarded(let_in()) as cluster:
            assert client_of(cluster, 10, **BEARER, oauth_cb=give).cluster_id() == "scripted"
            (login,) = cluster.requests(SaslAuthenticateRequest)
            *_, bearer, extension, _, _ = login.auth_bytes.decode().split("\x01")
            assert bearer.removeprefix("auth=Bearer ") == extension.removeprefix("of=")

    def test_hold_up_nothing_else(self) -> None:
        """The thread that the answers of all brokers come in on asks for none."""
        threads = list[str]()

        def give(config: str) -> tuple[str, float]:
            threads.append(threading.current_thread().name)
            return "t0ken", time.time()  # so that another is needed for each login

        with guarded(let_in()) as cluster:
            assert latest(client_of(cluster, 10, **BEARER, oauth_cb=give)) == 5
        assert len(threads) > 1
        assert [name for name in threads if name.startswith("kafka-io")] == []

    def test_that_are_refused_during_a_call_are_told(self) -> None:
        given = itertools.count()

        def give(config: str) -> tuple[str, float]:
            if next(given):
                raise KeyError("region")
            return "t0ken", time.time()

        with (
            guarded(let_in()) as cluster,
            pytest.raises(AuthenticationError, match=r"^oauth_cb .*give gave no token: KeyError: 'region'"),
        ):
            client_of(cluster, 10, **BEARER, oauth_cb=give).cluster_id()

    def test_that_come_too_late_during_a_call_are_told(self) -> None:
        given, go = itertools.count(), threading.Event()

        def give(config: str) -> tuple[str, float]:
            if next(given):
                go.wait(20)
            return "t0ken", time.time()

        with guarded(let_in()) as cluster:
            client = client_of(cluster, 2, **BEARER, oauth_cb=give)
            with pytest.raises(ClusterUnreachableError, match=r": (oauth_cb .*give gave no|the OAuth) token"):
                client.cluster_id()
            go.set()


def wait_for_logins(cluster: ScriptedCluster, count: int) -> None:
    wait_until(lambda: len(cluster.requests(SaslAuthenticateRequest)) >= count, "the clients log in")


class TestMskIam:
    """Amazon MSK with IAM."""

    BROKER = "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com"

    def test_signs_for_the_region_in_the_name_of_the_broker(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Though nothing of kafka-python's is replaced, which signs for the worker's region."""
        for name, value in {"DEFAULT_REGION": "us-west-2", "ACCESS_KEY_ID": "AK", "SECRET_ACCESS_KEY": "SK"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        look_up = socket.getaddrinfo
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda host, *more, **how: look_up("127.0.0.1" if host == self.BROKER else host, *more, **how),
        )
        certificates = make_certificates(tmp_path)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificates.broker)
        keys = {
            "sasl.mechanism": "AWS_MSK_IAM",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(certificates.ca),
            "ssl.endpoint.identification.algorithm": "none",
        }
        with guarded(let_in(said=b"{}"), tls=tls) as cluster:
            port = cluster.brokers[0].port
            client = cluster.client(10, **keys, **{"bootstrap.servers": f"{self.BROKER}:{port}"})
            assert client.cluster_id() == "scripted"
            (login,) = cluster.requests(SaslAuthenticateRequest)
            said = json.loads(login.auth_bytes)
            assert (said["host"], said["x-amz-credential"].split("/")[2]) == (self.BROKER, "eu-west-1")
