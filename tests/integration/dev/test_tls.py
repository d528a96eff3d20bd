"""A broker with listeners for TLS: who gets in, as whom, and what they may do."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from kafka import KafkaAdminClient
from kafka.errors import TopicAuthorizationFailedError

from dev.kafka import Broker, BrokerSettings
from dev.raw_client import api_versions, connected
from tests.integration.conftest import USERS

ACLS = "org.apache.kafka.tools.AclCommand"


class TestSaslSslListener:
    def test_lets_a_user_in_who_trusts_the_authority(self, guarded_broker: Broker) -> None:
        with closing(_log_in(guarded_broker, "alice")) as admin:
            assert len(admin.describe_cluster()["brokers"]) == 1

    def test_is_not_trusted_without_the_authority(self, guarded_broker: Broker) -> None:
        # kafka-python would keep trying, and leave each socket to the garbage collector.
        with (
            pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"),
            _encrypted(guarded_broker.sasl_ssl_bootstrap_servers, ssl.create_default_context()),
        ):
            pass

    def test_shows_a_certificate_for_its_address(self, guarded_broker: Broker) -> None:
        with _encrypted(guarded_broker.sasl_ssl_bootstrap_servers, _trusting(guarded_broker)) as connection:
            assert connection.version() == "TLSv1.3"


class TestSslListener:
    def test_lets_a_client_with_a_certificate_in(self, guarded_broker: Broker) -> None:
        with closing(_show_certificate(guarded_broker)) as admin:
            assert len(admin.describe_cluster()["brokers"]) == 1

    def test_refuses_a_client_without_one(self, guarded_broker: Broker) -> None:
        with (
            _encrypted(guarded_broker.ssl_bootstrap_servers, _trusting(guarded_broker)) as connection,
            pytest.raises(ssl.SSLError, match="BAD_CERTIFICATE"),
        ):
            api_versions(connection)


class TestAcls:
    def test_without_one_only_super_users_may_act(self, guarded_broker: Broker) -> None:
        with (
            closing(_log_in(guarded_broker, "alice")) as alice,
            pytest.raises(TopicAuthorizationFailedError),
        ):
            _make_topic(alice, "by-alice")
        with closing(_log_in(guarded_broker, "admin")) as admin:
            _make_topic(admin, "by-admin")

    def test_name_a_client_by_the_common_name_of_its_certificate(self, guarded_broker: Broker) -> None:
        grant = ("--add", "--allow-principal", "User:client", "--operation", "Create", "--topic", "by-client")
        guarded_broker.run_tool(ACLS, *grant)
        with closing(_show_certificate(guarded_broker)) as client:
            _make_topic(client, "by-client")


class TestWithoutTls:
    def test_there_are_no_certificates_and_no_listeners(self) -> None:
        broker = Broker(BrokerSettings(users=USERS))
        for name in ("certificates", "ssl_bootstrap_servers", "sasl_ssl_bootstrap_servers"):
            with pytest.raises(LookupError, match="tls=True"):
                getattr(broker, name)


@contextmanager
def _encrypted(address: str, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    """A connection of a client that shows no certificate."""
    with connected(address) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        yield connection


def _trusting(broker: Broker) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=broker.certificates.ca)


def _log_in(broker: Broker, user: str) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=broker.sasl_ssl_bootstrap_servers,
        bootstrap_timeout_ms=2_000,
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username=user,
        sasl_plain_password=USERS[user],
        ssl_cafile=str(broker.certificates.ca),
    )


def _show_certificate(broker: Broker) -> KafkaAdminClient:
    certificates = broker.certificates
    return KafkaAdminClient(
        bootstrap_servers=broker.ssl_bootstrap_servers,
        bootstrap_timeout_ms=2_000,
        security_protocol="SSL",
        ssl_cafile=str(certificates.ca),
        ssl_certfile=str(certificates.client_certificate),
        ssl_keyfile=str(certificates.client_key),
    )


def _make_topic(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
