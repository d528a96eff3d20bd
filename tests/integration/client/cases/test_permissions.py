"""Who may ask, and for what: TLS, logins, certificates, and ACLs on single topics and groups."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import AuthenticationError, ClusterUnreachableError, OffsetsError
from airflow_kafka_offsets.offsets.lag import LagStatus
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from dev.certificates import make_certificates
from dev.kafka import Broker
from tests.integration.client.cases.workload import (
    admin_of,
    commit,
    commits_of,
    connected_client,
    error_names,
    lag_of,
    new_name,
    new_topic,
    produce,
)
from tests.integration.conftest import USERS
from tests.patience import GRACE_S, wait_until


def login(broker: Broker, user: str = "alice", password: str | None = None, **config: str) -> OffsetsClient:
    """A client that logs in by SCRAM over TLS."""
    keys = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": user,
        "sasl_password": password or USERS[user],
        "ssl_ca_location": str(broker.certificates.ca),
    }
    return connected_client(broker.sasl_ssl_bootstrap_servers, **keys | config)


def certified(broker: Broker, timeout_s: float = 20, **config: str) -> OffsetsClient:
    """A client that trusts the broker, on the listener that wants a certificate."""
    keys = {"security_protocol": "SSL", "ssl_ca_location": str(broker.certificates.ca)}
    return connected_client(broker.ssl_bootstrap_servers, timeout_s, **keys | config)


def allow(broker: Broker, user: str, *resources: tuple[ResourceType, str], may: ACLOperation) -> None:
    with admin_of(broker) as admin:
        admin.create_acls(
            [
                ACL(f"User:{user}", "*", may, ACLPermissionType.ALLOW, ResourcePattern(*resource))
                for resource in resources
            ]
        )


@pytest.fixture(scope="module")
def superuser(guarded_broker: Broker) -> Iterator[OffsetsClient]:
    with connected_client(guarded_broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def alice(guarded_broker: Broker) -> Iterator[OffsetsClient]:
    with login(guarded_broker) as client:
        yield client


@pytest.fixture
def shown(guarded_broker: Broker) -> str:
    """A topic of ten records that alice may describe."""
    name = new_topic(guarded_broker)
    produce(guarded_broker, name, count=10)
    allow(guarded_broker, "alice", (ResourceType.TOPIC, name), may=ACLOperation.DESCRIBE)
    return name


@pytest.fixture
def hidden(guarded_broker: Broker) -> str:
    """A topic of ten records that alice may not describe."""
    name = new_topic(guarded_broker)
    produce(guarded_broker, name, count=10)
    return name


@pytest.fixture
def group(guarded_broker: Broker, superuser: OffsetsClient, alice: OffsetsClient, shown: str, hidden: str) -> str:
    """A group with commits on both topics, which alice may describe. Her ACLs are in force."""
    name = new_name("group")
    commit(superuser, name, {TopicPartition(shown, 0): 4, TopicPartition(hidden, 0): 4})
    allow(guarded_broker, "alice", (ResourceType.GROUP, name), may=ACLOperation.DESCRIBE)
    key = TopicPartition(shown, 0)
    wait_until(lambda: len(commits_of(alice, name, [key]).offsets.ok()), "alice may describe topic and group")
    return name


class TestHiddenTopic:
    """E32: a topic that the group has commits on, and that may not be described."""

    def test_is_left_out_of_all_commits_without_a_word(self, alice: OffsetsClient, group: str, shown: str) -> None:
        """E32: so does Kafka. Who needs to know names the partitions."""
        commits = commits_of(alice, group)
        assert commits.error is None
        assert [(each.topic, each.offset) for each in commits.offsets] == [(shown, 4)]

    def test_is_an_error_when_it_is_named(self, alice: OffsetsClient, group: str, shown: str, hidden: str) -> None:
        """E32: its own error, and no gap."""
        commits = commits_of(alice, group, [TopicPartition(shown, 0), TopicPartition(hidden, 0)]).offsets
        good, bad = (commits.lookup(each, 0) for each in (shown, hidden))
        assert good is not None
        assert bad is not None
        assert (good.offset, good.error) == (4, None)
        assert (bad.offset, error_names([bad])) == (None, ["TOPIC_AUTHORIZATION_FAILED"])

    def test_has_no_lag_and_says_so_when_it_is_named(
        self, alice: OffsetsClient, group: str, shown: str, hidden: str
    ) -> None:
        """E32"""
        with pytest.raises(OffsetsError, match=f"topic {hidden}: TOPIC_AUTHORIZATION_FAILED.* needs the ACL Describe"):
            alice.group_lags([group], topics=[shown, hidden])
        assert lag_of(alice, group, topics=[shown]).total == 6

    def test_is_an_error_of_each_thing_that_is_asked_of_it(
        self, alice: OffsetsClient, group: str, shown: str, hidden: str
    ) -> None:
        """E32"""
        keys = [TopicPartition(hidden, 0), TopicPartition(shown, 0)]
        for answer in (alice.list_offsets(keys, OffsetSpec.EARLIEST), alice.log_extents(keys)):
            assert answer.lookup(shown, 0) in list(answer.ok())
            assert error_names(answer.of_topics([hidden])) == ["TOPIC_AUTHORIZATION_FAILED"]

    def test_is_not_among_all_topics(self, alice: OffsetsClient, group: str, shown: str, hidden: str) -> None:
        """E32"""
        names = {each.topic for each in alice.topics()}
        assert shown in names
        assert hidden not in names


class TestDescribableTopic:
    def test_is_not_one_to_watch_producers_of(self, alice: OffsetsClient, group: str, shown: str) -> None:
        """Describe is enough to list offsets; DescribeProducers needs Read."""
        key = TopicPartition(shown, 0)
        assert error_names(alice.producers([key])) == ["TOPIC_AUTHORIZATION_FAILED"]
        assert error_names(alice.list_offsets([key], OffsetSpec.EARLIEST)) == [None]

    def test_is_not_one_to_commit_on(self, alice: OffsetsClient, group: str, shown: str) -> None:
        """Committing needs Read on the group."""
        with pytest.raises(OffsetsError, match="GROUP_AUTHORIZATION_FAILED"):
            commit(alice, group, {TopicPartition(shown, 0): 1})


class TestHiddenGroup:
    def test_costs_nobody_else_an_answer(
        self, superuser: OffsetsClient, alice: OffsetsClient, group: str, shown: str
    ) -> None:
        """E32: GROUP_AUTHORIZATION_FAILED is its own error, in commits, lag and description."""
        secret = new_name("secret")
        commit(superuser, secret, {TopicPartition(shown, 0): 4})
        commits = alice.committed_offsets({group: None, secret: None})
        lags = alice.group_lags([group, secret], topics=[shown])
        described = alice.describe_groups([group, secret])
        for answer in (commits, lags, described):
            errors = dict(zip((each.group for each in answer), error_names(answer), strict=True))
            assert errors == {group: None, secret: "GROUP_AUTHORIZATION_FAILED"}
        totals = {each.group: each.total for each in lags}
        assert totals == {group: 6, secret: None}
        refused = lags.lookup(secret)
        assert refused is not None
        assert [each.status for each in refused.partitions] == [LagStatus.ERROR]


class TestTls:
    def test_and_a_password_work_end_to_end(self, alice: OffsetsClient, group: str, shown: str) -> None:
        assert lag_of(alice, group, topics=[shown]).total == 6
        assert alice.cluster_id()

    def test_with_another_authority_is_refused_at_once(self, guarded_broker: Broker, tmp_path: Path) -> None:
        """As a refused login: no waiting helps."""
        stranger = make_certificates(tmp_path)
        started = time.monotonic()
        with (
            login(guarded_broker, ssl_ca_location=str(stranger.ca)) as client,
            pytest.raises(AuthenticationError, match=r"was not accepted: .*Check ssl.ca.location"),
        ):
            client.cluster_id()
        assert time.monotonic() - started < GRACE_S


class TestClientCertificate:
    def test_is_who_the_client_is(self, guarded_broker: Broker, hidden: str, shown: str) -> None:
        """To ACLs it is the common name."""
        allow(guarded_broker, "client", (ResourceType.TOPIC, hidden), may=ACLOperation.DESCRIBE)
        keys = [TopicPartition(hidden, 0), TopicPartition(shown, 0)]
        files = guarded_broker.certificates
        with certified(
            guarded_broker,
            ssl_certificate_location=str(files.client_certificate),
            ssl_key_location=str(files.client_key),
        ) as client:
            wait_until(lambda: not len(client.topics([hidden]).errors()), "the ACL is in force")
            listed = client.list_offsets(keys, OffsetSpec.LATEST)
        assert [each.offset for each in listed.ok()] == [10]
        assert listed.ok().topics() == [hidden]

    def test_is_asked_for(self, guarded_broker: Broker) -> None:
        with (
            certified(guarded_broker, timeout_s=2) as client,
            pytest.raises((AuthenticationError, ClusterUnreachableError)) as refused,
        ):
            client.cluster_id()
        assert "certificate" in str(refused.value).lower()
