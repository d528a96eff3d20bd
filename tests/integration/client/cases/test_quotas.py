"""A quota that is used up: the client waits as the broker tells it, and says so."""

from __future__ import annotations

import time

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ClusterUnreachableError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListOutcome
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import TIMEOUT_S, connected_client, error_names, new_name, new_topic
from tests.patience import GRACE_S, wait_until

CONFIGS = "kafka.admin.ConfigCommand"
LONGEST_THROTTLE_MS = 1000
"""Kafka throttles by request time for one quota window at most."""
SHORT_S = 0.5


@pytest.fixture
def key(cluster: KafkaCluster) -> TopicPartition:
    return TopicPartition(new_topic(cluster), 0)


@pytest.fixture
def client_id() -> str:
    """A client id; whoever uses it from :func:`limit` on is throttled by every answer, for good."""
    return new_name("throttled")


def limit(cluster: KafkaCluster, client_id: str, client: OffsetsClient, key: TopicPartition) -> None:
    """Leave so little of the brokers' time to a client id that its next answer throttles it."""
    change = ("--alter", "--add-config", "request_percentage=0.001")
    cluster.run_tool(CONFIGS, *change, "--entity-type", "clients", "--entity-name", client_id)

    def throttled() -> bool:
        client.list_offsets([key], OffsetSpec.LATEST)
        return client.throttle_time_ms > 0

    wait_until(throttled, "the quota holds")


def _answers(client: OffsetsClient, key: TopicPartition) -> bool:
    """Whether it gets an answer in its time, which a busy machine may be too slow for."""
    try:
        return not len(client.list_offsets([key], OffsetSpec.LATEST).errors())
    except ClusterUnreachableError:
        return False


class TestThrottledClient:
    def test_waits_as_long_as_it_is_told_and_answers(
        self, cluster: KafkaCluster, key: TopicPartition, client_id: str
    ) -> None:
        with connected_client(cluster.bootstrap_servers, TIMEOUT_S, client_id=client_id) as client:
            client.list_offsets([key], OffsetSpec.LATEST).raise_for_errors()
            assert client.throttle_time_ms == 0
            limit(cluster, client_id, client, key)
            told_s = client.throttle_time_ms / 1000
            assert 0 < told_s <= LONGEST_THROTTLE_MS / 1000
            started = time.monotonic()
            (found,) = client.list_offsets([key], OffsetSpec.LATEST).raise_for_errors()
            assert found.offset == 0
            assert time.monotonic() - started > told_s * 0.8

    def test_says_which_quota_kept_it_from_answering_in_time(
        self, cluster: KafkaCluster, key: TopicPartition, client_id: str
    ) -> None:
        """And not that the broker is down: an error of its partitions, before the deadline is over."""
        with connected_client(cluster.bootstrap_servers, SHORT_S, client_id=client_id) as client:
            wait_until(lambda: _answers(client, key), "the client is warm")
            limit(cluster, client_id, client, key)
            started = time.monotonic()
            (refused,) = client.list_offsets([key], OffsetSpec.LATEST)
            assert time.monotonic() - started < SHORT_S + GRACE_S
            assert (refused.outcome, refused.offset) == (ListOutcome.ERROR, None)
            assert error_names([refused]) == ["THROTTLING_QUOTA_EXCEEDED"]
            assert refused.error is not None
            assert "a quota throttles this client" in refused.error.message
            assert refused.error.retriable
            wait_until(lambda: _answers(client, key), "it answers again")
