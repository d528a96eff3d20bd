"""Logins that take long, come again (KIP-368) or lack a token: they keep to the deadline, and say what is late."""

from __future__ import annotations

import time
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from tests.integration.client.scripted import Answer, ScriptedCluster
from tests.integration.client.scripted_answers import offsets_are, silence
from tests.integration.conftest import wait_until

A0 = TopicPartition("a", 0)
PASSWORD = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "s3cret"}
BEARER = {"sasl.mechanism": "OAUTHBEARER"}


def let_in(session_lifetime_ms: int = 0) -> Answer:
    """A SaslAuthenticate answer: the login counts for so long, or for good."""
    return lambda _: SaslAuthenticateResponse(
        error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=session_lifetime_ms
    )


def guarded(*logins: Answer) -> ScriptedCluster:
    """A cluster of one broker that has clients log in.

    :param logins: what it answers to the first login, the second, and so on.
    """
    cluster = ScriptedCluster({"a": [0]})
    (broker,) = cluster.brokers
    mechanisms = ["PLAIN", "OAUTHBEARER"]
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
    """After 85 % of a session's second, a client logs in again, and sends nothing else meanwhile. A new client has two
    connections: to the address that it was given, and to the leader."""

    def test_that_hangs_costs_its_partitions_an_error_within_the_deadline(self) -> None:
        with guarded(let_in(1_000), let_in(1_000), silence) as cluster:
            client = client_of(cluster, 2, **PASSWORD)
            assert latest(client) == 5
            wait_for_logins(cluster, 4)
            started = time.monotonic()
            assert latest(client) in ("REQUEST_TIMED_OUT", "NETWORK_EXCEPTION")
            assert time.monotonic() - started < 2 + 2

    def test_that_hangs_is_given_up_after_the_time_of_one_answer(self) -> None:
        """The request goes over another connection then."""
        with guarded(let_in(1_000), let_in(1_000), silence, silence, let_in()) as cluster:
            client = client_of(cluster, 6, **PASSWORD, **{"socket.timeout.ms": 1_000})
            assert latest(client) == 5
            wait_for_logins(cluster, 4)
            assert latest(client) == 5


def wait_for_logins(cluster: ScriptedCluster, count: int) -> None:
    wait_until(lambda: len(cluster.requests(SaslAuthenticateRequest)) >= count, "the clients log in")
