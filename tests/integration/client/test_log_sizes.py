"""How large logs are (DescribeLogDirs): what a real broker has on its disk, and what brokers say instead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.protocol.admin import DescribeLogDirsRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from dev.kafka import Broker
from tests.integration.client.log_dirs_answers import Directory, directories_are
from tests.integration.client.pieces import A0, ALL, B0, B1, Pieces
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.conftest import MakeTopic, Produce

NEWEST = DescribeLogDirsRequest.max_version


def sizes_of(client: OffsetsClient) -> list[int | str | None]:
    """Sizes, or the names of the errors that came instead."""
    return [each.error.name if each.error else each.size_bytes for each in client.log_sizes(ALL)]


@pytest.fixture(params=[0, 1, 2, 3, NEWEST])
def one(request: pytest.FixtureRequest) -> Iterator[Pieces]:
    """A broker of each version that differs."""
    with cluster_of(request.param) as cluster:
        yield Pieces(cluster, cluster.brokers[0], cluster.client())


@pytest.fixture
def new() -> Iterator[Pieces]:
    with cluster_of(NEWEST) as cluster:
        yield Pieces(cluster, cluster.brokers[0], cluster.client())


def cluster_of(version: int) -> ScriptedCluster:
    return ScriptedCluster({"a": [0], "b": [0, 0]}, versions={DescribeLogDirsRequest: (version, version)})


def asked(pieces: Pieces) -> list[list[tuple[str, list[int]]]]:
    """What each request named."""
    return [[(topic.topic, topic.partitions) for topic in each.topics] for each in pieces.asked(DescribeLogDirsRequest)]


class TestRealBroker:
    def test_a_logs_size_is_that_of_its_files(
        self, client: OffsetsClient, broker: Broker, topic: MakeTopic, produce: Produce
    ) -> None:
        name = topic(partitions=2)
        produce(name, 0, [(None, None, b"x" * 1000)] * 10)
        sizes = [each.size_bytes for each in client.log_sizes(client.partitions_of([name])).raise_for_errors()]
        files = [broker.data_folder.glob(f"log/{name}-{number}/*.log") for number in range(2)]
        assert sizes == [sum(each.stat().st_size for each in several) for several in files]
        assert sizes[1] == 0

    def test_a_partition_that_does_not_exist_is_an_error_of_its_own(
        self, client: OffsetsClient, topic: MakeTopic
    ) -> None:
        name = topic()
        good, bad = client.log_sizes([TopicPartition(name, 0), TopicPartition(name, 1)])
        assert (good.size_bytes, good.error) == (0, None)
        assert bad.error is not None
        assert bad.error.name == "UNKNOWN_TOPIC_OR_PARTITION"


class TestDirectories:
    def test_a_broker_may_have_several(self, one: Pieces) -> None:
        one.broker.on(DescribeLogDirsRequest, directories_are(Directory({A0: 1, B1: 3}), Directory({B0: 2})))
        assert sizes_of(one.client) == [1, 2, 3]
        assert asked(one) == [[("a", [0]), ("b", [0, 1])]]

    def test_a_copy_on_its_way_to_another_one_does_not_count(self, new: Pieces) -> None:
        """KIP-113: AlterReplicaLogDirs."""
        copy = Directory({A0: 7}, copies=[A0])
        new.broker.on(DescribeLogDirsRequest, directories_are(Directory({A0: 1, B0: 2, B1: 3}), copy))
        assert sizes_of(new.client) == [1, 2, 3]

    def test_one_that_can_not_be_read_may_hold_what_is_in_no_other_and_passes(self, new: Pieces) -> None:
        broken, whole = Directory(error_code=56), Directory({A0: 1, B0: 2})
        new.broker.on(DescribeLogDirsRequest, directories_are(broken, whole), directories_are(Directory({B1: 3})))
        assert sizes_of(new.client) == [1, 2, 3]
        assert asked(new) == [[("a", [0]), ("b", [0, 1])], [("b", [1])]]
        assert new.described_topics() == [["a", "b"], ["b"]]

    def test_it_is_told_when_it_does_not_pass(self, new: Pieces) -> None:
        new.broker.on(DescribeLogDirsRequest, directories_are(Directory(error_code=56), Directory({A0: 1, B0: 2})))
        assert sizes_of(new.cluster.client(timeout_s=2)) == [1, 2, "KAFKA_STORAGE_ERROR"]

    def test_a_partition_in_none_of_them_is_led_by_another_broker(self, new: Pieces) -> None:
        """E28"""
        without, complete = Directory({A0: 1, B0: 2}), Directory({A0: 1, B0: 2, B1: 3})
        new.broker.on(DescribeLogDirsRequest, directories_are(without), directories_are(complete))
        assert sizes_of(new.client) == [1, 2, 3]
        assert new.described_topics() == [["a", "b"], ["b"]]


class TestRefusal:
    def test_an_answer_without_directories_means_that_asking_is_not_allowed(self, one: Pieces) -> None:
        """Before version 3 there is no place for an error."""
        told_so = 31 if one.cluster.versions[DescribeLogDirsRequest][0] >= 3 else 0
        one.broker.on(DescribeLogDirsRequest, directories_are(error_code=told_so))
        assert sizes_of(one.client) == ["CLUSTER_AUTHORIZATION_FAILED"] * 3
        assert len(one.asked(DescribeLogDirsRequest)) == 1

    def test_it_says_what_to_do(self, new: Pieces) -> None:
        new.broker.on(DescribeLogDirsRequest, directories_are(error_code=31))
        (first, *_) = new.client.log_sizes(ALL)
        assert first.error is not None
        assert "the ACL Describe on the cluster" in first.error.message

    @pytest.mark.parametrize(("code", "name"), [(-1, "UNKNOWN_SERVER_ERROR"), (42, "INVALID_REQUEST")])
    def test_another_one_is_data_of_all_that_was_asked(self, new: Pieces, code: int, name: str) -> None:
        new.broker.on(DescribeLogDirsRequest, directories_are(error_code=code))
        assert sizes_of(new.client) == [name] * 3

    def test_a_broker_before_1_0_is_too_old(self) -> None:
        with ScriptedCluster({"a": [0], "b": [0, 0]}) as cluster:
            assert sizes_of(cluster.client()) == ["UNSUPPORTED_VERSION"] * 3
