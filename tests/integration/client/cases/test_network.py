"""Brokers that hang and are cut off, seen by a client behind fault proxies; and how much it asks of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import ClusterUnreachableError
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from dev.cluster import KafkaCluster
from dev.fault_proxy import FaultProxy
from tests.integration.client.cases.workload import (
    commit,
    connected_client,
    coordinator_id,
    error_names,
    latest,
    new_name,
    new_topic,
    produce,
)
from tests.patience import GRACE_S, wait_until

DEADLINE_S = 3.0
LIST_OFFSETS: int = ListOffsetsRequest.API_KEY
OFFSET_FETCH: int = OffsetFetchRequest.API_KEY
FIND_COORDINATOR: int = FindCoordinatorRequest.API_KEY
METADATA: int = MetadataRequest.API_KEY


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail when something takes longer than so long and a grace."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds + GRACE_S


@pytest.fixture(scope="module")
def spread(running_cluster: KafkaCluster) -> list[TopicPartition]:
    """Three partitions of five records on a broker each, which nobody takes over."""
    topic = new_topic(running_cluster, replicas=[[1], [2], [3]])
    for number in range(3):
        produce(running_cluster, topic, number, 5)
    return [TopicPartition(topic, number) for number in range(3)]


@pytest.fixture
def bad(cluster: KafkaCluster) -> FaultProxy:
    """The proxy before the broker of the last partition."""
    return cluster.proxies[2]


@pytest.fixture
def proxied(cluster: KafkaCluster) -> Iterator[OffsetsClient]:
    """A client that reaches all brokers through their proxies, with little time."""
    with connected_client(cluster.proxied_bootstrap_servers, timeout_s=DEADLINE_S) as client:
        yield client


def assert_all_answer(client: OffsetsClient, spread: list[TopicPartition]) -> None:
    assert [(each.offset, each.error) for each in latest(client, spread)] == [(5, None)] * 3


def assert_the_last_alone_is_in_error(answer: ListedOffsets, names: set[str]) -> None:
    assert [each.offset for each in answer] == [5, 5, None]
    *good, last = error_names(answer)
    assert good == [None, None]
    assert last in names


def reset_counts(cluster: KafkaCluster) -> None:
    for each in cluster.proxies:
        each.reset_counts()


def counts(cluster: KafkaCluster, api_key: int) -> list[int]:
    return [each.requests[api_key] for each in cluster.proxies]


class TestHungLeader:
    def test_costs_its_partitions_an_error_within_the_deadline(
        self, cluster: KafkaCluster, proxied: OffsetsClient, spread: list[TopicPartition]
    ) -> None:
        """E29: a process that is stopped takes connections and answers nothing. The others are asked once each."""
        assert_all_answer(proxied, spread)
        reset_counts(cluster)
        cluster.brokers[2].pause()
        with within(DEADLINE_S):
            answer = latest(proxied, spread)
        assert_the_last_alone_is_in_error(answer, {"REQUEST_TIMED_OUT", "LEADER_NOT_AVAILABLE"})
        assert counts(cluster, LIST_OFFSETS)[:2] == [1, 1]
        with within(0):
            assert [each.offset for each in latest(proxied, spread[:2])] == [5, 5]
        cluster.heal()
        wait_until(lambda: not len(latest(proxied, spread).errors()), "the broker leads again")
        assert_all_answer(proxied, spread)


LASTING_FAULTS: dict[str, Callable[[FaultProxy], None]] = {
    "refuses connections": FaultProxy.refuse,
    "twenty bytes a second": lambda proxy: proxy.throttle(20),
}
SINGLE_FAULTS: dict[str, Callable[[FaultProxy], None]] = {
    "half a frame": lambda proxy: proxy.half_frame(api_key=LIST_OFFSETS),
    "half a size": lambda proxy: proxy.half_frame(2, api_key=LIST_OFFSETS),
    "junk in a frame": lambda proxy: proxy.garbage(framed=True, api_key=LIST_OFFSETS),
    "junk": lambda proxy: proxy.garbage(api_key=LIST_OFFSETS),
}


class TestFaultyNetwork:
    """E29: before one broker of three."""

    @pytest.mark.parametrize("fault", LASTING_FAULTS)
    def test_that_stays_bad_costs_that_brokers_partitions_an_error(
        self,
        cluster: KafkaCluster,
        proxied: OffsetsClient,
        spread: list[TopicPartition],
        bad: FaultProxy,
        fault: str,
    ) -> None:
        """E29: within the deadline, and the same client gets all answers when the network is good again."""
        proxied.topics([spread[0].topic])
        bad.cut()
        LASTING_FAULTS[fault](bad)
        reset_counts(cluster)
        with within(DEADLINE_S):
            answer = latest(proxied, spread)
        assert_the_last_alone_is_in_error(answer, {"REQUEST_TIMED_OUT", "NETWORK_EXCEPTION"})
        assert counts(cluster, LIST_OFFSETS)[:2] == [1, 1]
        bad.heal()
        assert_all_answer(proxied, spread)

    @pytest.mark.parametrize("fault", SINGLE_FAULTS)
    def test_that_spoils_one_answer_costs_nothing_but_another_request(
        self,
        cluster: KafkaCluster,
        proxied: OffsetsClient,
        spread: list[TopicPartition],
        bad: FaultProxy,
        fault: str,
    ) -> None:
        """E29: nothing of a spoilt answer is taken for an offset."""
        assert_all_answer(proxied, spread)
        reset_counts(cluster)
        SINGLE_FAULTS[fault](bad)
        with within(DEADLINE_S):
            assert_all_answer(proxied, spread)
        *others, asked = counts(cluster, LIST_OFFSETS)
        assert others == [1, 1]
        assert asked > 1

    def test_that_cuts_a_connection_mid_call_costs_nothing_but_another_request(
        self, cluster: KafkaCluster, proxied: OffsetsClient, spread: list[TopicPartition], bad: FaultProxy
    ) -> None:
        """E29"""
        assert_all_answer(proxied, spread)
        reset_counts(cluster)
        bad.latency(300)
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(latest, proxied, spread)
            wait_until(lambda: bad.requests[LIST_OFFSETS], "the request is on its way")
            bad.cut()
            assert [each.offset for each in answer.result(DEADLINE_S + GRACE_S)] == [5, 5, 5]
        assert counts(cluster, LIST_OFFSETS) == [1, 1, 2]

    def test_before_all_brokers_is_said_of_the_cluster(
        self, cluster: KafkaCluster, proxied: OffsetsClient, spread: list[TopicPartition]
    ) -> None:
        for each in cluster.proxies:
            each.black_hole()
        with within(DEADLINE_S), pytest.raises(ClusterUnreachableError, match="did not answer in time"):
            proxied.topics([spread[0].topic])
        for each in cluster.proxies:
            each.heal()
        assert_all_answer(proxied, spread)


class TestRequestsOfALagCall:
    GROUPS = 20
    LATENCY_MS = 300

    @pytest.fixture
    def groups(self, cluster: KafkaCluster, spread: list[TopicPartition]) -> list[str]:
        """Groups that have committed 2 on each partition."""
        names = [new_name("group") for _ in range(self.GROUPS)]
        with connected_client(cluster.bootstrap_servers) as client:
            for each in names:
                commit(client, each, dict.fromkeys(spread, 2))
        return names

    def test_are_one_a_broker_and_round_for_any_number_of_groups(
        self, cluster: KafkaCluster, proxied: OffsetsClient, spread: list[TopicPartition], groups: list[str]
    ) -> None:
        """One coordinator look-up, commits from each coordinator, one metadata, and ends and log starts a leader."""
        coordinators = {coordinator_id(cluster, each) for each in groups}
        reset_counts(cluster)
        lags = proxied.group_lags(groups, topics=[spread[0].topic])
        assert [each.total for each in lags] == [9] * self.GROUPS
        assert sum(counts(cluster, FIND_COORDINATOR)) == 1
        assert sum(counts(cluster, METADATA)) == 1
        assert counts(cluster, OFFSET_FETCH) == [int(each.node_id in coordinators) for each in cluster.brokers]
        assert counts(cluster, LIST_OFFSETS) == [3, 3, 3]

    def test_are_three_rounds(
        self, cluster: KafkaCluster, proxied: OffsetsClient, spread: list[TopicPartition], groups: list[str]
    ) -> None:
        """Measured by a network on which a round takes long."""
        ask = [spread[0].topic]
        proxied.group_lags(groups, topics=ask)
        for each in cluster.proxies:
            each.latency(self.LATENCY_MS)
        round_s = 2 * self.LATENCY_MS / 1000
        taken_s = [4 * round_s]
        while min(taken_s) >= 4 * round_s and len(taken_s) < 30:  # a busy machine adds to some of them
            started = time.monotonic()
            assert [each.total for each in proxied.group_lags(groups, topics=ask)] == [9] * self.GROUPS
            taken_s.append(time.monotonic() - started)
        assert 3 * round_s <= min(taken_s) < 4 * round_s, taken_s
