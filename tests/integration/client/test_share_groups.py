"""Share groups (KIP-932, E33): their lag is what Kafka counts, on a real broker and as Kafka's own tool prints it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.requests.messages import (
    ConsumerGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
)
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.conditions.offsets_reached import OffsetsReached
from airflow_kafka_offsets.errors import OffsetsError
from airflow_kafka_offsets.offsets.answers.groups import EMPTY, GroupKind
from airflow_kafka_offsets.offsets.lag import LagStatus
from airflow_kafka_offsets.offsets.partitions import SeenOffset, TopicPartition
from airflow_kafka_offsets.offsets.windows.fixed_offsets import FixedOffsets
from dev.kafka import Broker
from tests.integration.client.cases.workload import delete_records, description_of, lag_of, new_name
from tests.integration.client.pieces import Pieces
from tests.integration.client.scripted import ScriptedCluster
from tests.integration.client.scripted_answers import (
    Listed,
    classic_groups_are,
    commits_are,
    consumer_groups_are,
    groups_are_listed,
    share_groups_are,
    shares_are,
    start_and_end_are,
)
from tests.integration.conftest import MakeTopic, Produce
from tests.patience import wait_until

PATIENCE_MS = 120_000


def share(broker: Broker, group: str, topic: str, records: int) -> None:
    """Accept some records as a member of a share group, and leave."""
    broker.run_tool(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--topic", topic, "--group", group, "--max-messages", str(records), "--timeout-ms", str(PATIENCE_MS)),
    )


def told(broker: Broker, group: str) -> dict[int, tuple[str, str]]:
    """Start offset and lag by partition, as Kafka's tool prints them."""
    text = broker.run_tool(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand", "--describe", "--offsets", "--group", group
    )
    rows = re.findall(rf"^{group}\s+\S+\s+(\d+)\s+(\S+)\s+(\S+)\s*$", text, re.MULTILINE)
    return {int(partition): (start, lag) for partition, start, lag in rows}


@pytest.fixture
def shared(topic: MakeTopic, produce: Produce) -> str:
    """A topic of a hundred records in partition 0; partition 1 is empty."""
    name = topic(2)
    produce(name, 0, [(None, None, b"%d" % number) for number in range(100)])
    return name


@pytest.fixture
def group(broker: Broker, shared: str) -> str:
    """A share group that has finished forty of them, and has no members now."""
    name = new_name("share")
    to_group = ("--alter", "--entity-type", "groups", "--entity-name", name)
    broker.run_tool("kafka.admin.ConfigCommand", *to_group, "--add-config", "share.auto.offset.reset=earliest")
    share(broker, name, shared, 40)
    return name


def test_lag_is_kafkas_count_in_all_waits(broker: Broker, client: OffsetsClient, group: str, shared: str) -> None:
    first, second = TopicPartition(shared, 0), TopicPartition(shared, 1)
    wait_until(lambda: description_of(client, group).state == EMPTY, "the member has left")
    assert description_of(client, group).kind is GroupKind.SHARE
    assert group in client.all_groups()

    wait_until(lambda: told(broker, group).get(0) == ("40", "60"), "Kafka has released what the member hadn't finished")
    on_first, on_second = lag_of(client, group).partitions
    assert (on_first.status, on_first.committed_offset, on_first.lag) == (LagStatus.OK, 40, 60)
    assert (on_second.status, on_second.lag) == (LagStatus.NO_COMMIT, 0), "an empty log has nothing to finish"
    assert lag_of(client, group).total == lag_of(client, group, topics=[shared]).total == 60
    (on_partition,) = client.group_lags({group: [first]}).raise_for_errors()
    assert on_partition.total == 60

    waited = GroupsCaughtUp((group,)).check(client)
    assert (waited.done, waited.remaining) == (False, 60)
    assert GroupsCaughtUp((group,), max_lag=60).check(client).done
    topics = client.topics([shared])

    def reached(offset: int) -> bool:
        seen = (SeenOffset(*first, offset), SeenOffset(*second, 0))
        target = FixedOffsets.of("a snapshot", seen, topics.topic_ids, cluster_id=topics.cluster_id)
        return OffsetsReached(group, target).check(client).done

    assert (reached(40), reached(41)) == (True, False)

    delete_records(broker, {first: 50})
    lost = lag_of(client, group).partitions.lookup(*first)
    assert lost is not None
    assert (lost.status, lost.lost) == (LagStatus.BELOW_LOG_START, 10)
    share(broker, group, shared, 50)
    wait_until(lambda: lag_of(client, group).total == 0, "the group has finished all")
    assert told(broker, group)[0][1] == "0"
    assert GroupsCaughtUp((group,)).check(client).done
    assert reached(100), "even if Kafka hasn't moved the group's start yet"


class TestScripted:
    """What a broker that is older, or knows less, answers."""

    @pytest.mark.parametrize("versions", [{}, {DescribeShareGroupOffsetsRequest: (0, 0)}], ids=["4.0", "4.1"])
    def test_a_broker_that_counts_no_lag_is_an_error_with_a_name_and_never_a_number(
        self, versions: dict[Any, tuple[int, int]]
    ) -> None:
        with ScriptedCluster({"a": [0]}, versions=versions) as cluster:
            old = only_listed(Pieces(cluster, cluster.brokers[0], cluster.client()))
            if versions:
                old.broker.on(DescribeShareGroupOffsetsRequest, shares_are(0, 5))
            for topics in (None, ["a"]):
                lag = lag_of(old.client, "g", topics=topics)
                assert (lag.total, lag.error and lag.error.name) == (None, "UNSUPPORTED_VERSION")
            with pytest.raises(OffsetsError, match=r"brokers before Kafka 4\.2 don't count the lag of share groups"):
                GroupsCaughtUp(("g",)).check(old.client)
            assert not old.asked(DescribeShareGroupOffsetsRequest)

    def test_the_count_is_taken_from_kafka_where_records_after_the_start_are_finished(self, one: Pieces) -> None:
        """The log ends at 5, and the group has finished all before 1 and two of the four records after it."""
        lag = lag_of(a_share_group(one, start=1, lag=2).client, "g")
        assert [(each.committed_offset, each.lag) for each in lag.partitions] == [(1, 2)]
        assert lag.total == 2

    @pytest.mark.parametrize(
        ("start", "lag", "status", "counted"),
        [
            pytest.param(-1, -1, LagStatus.NO_COMMIT, 5, id="not begun, or its state can't be read"),
            pytest.param(3, -1, LagStatus.ERROR, None, id="not counted since the upgrade"),
            pytest.param(9, 0, LagStatus.AHEAD_OF_LOG, None, id="past the log's end"),
        ],
    )
    def test_what_kafka_has_not_counted_is_never_zero(
        self, one: Pieces, start: int, lag: int, status: LagStatus, counted: int | None
    ) -> None:
        found = lag_of(a_share_group(one, start, lag).client, "g")
        assert [(each.status, each.lag) for each in found.partitions] == [(status, counted)]
        assert found.total == counted


def only_listed(pieces: Pieces) -> Pieces:
    """Group g, which only the list of groups knows, is a share group; topic a's log ends at 5."""
    pieces.broker.on(OffsetFetchRequest, commits_are({}))
    pieces.broker.on(ListOffsetsRequest, start_and_end_are(0, 5))
    pieces.broker.on(DescribeGroupsRequest, classic_groups_are({}))
    pieces.broker.on(ConsumerGroupDescribeRequest, consumer_groups_are({}))
    pieces.broker.on(ListGroupsRequest, groups_are_listed(Listed("g", "Stable", "Share", "share")))
    return pieces


def a_share_group(pieces: Pieces, start: int, lag: int) -> Pieces:
    """Group g is a share group that is described, and has come so far on topic a, whose log ends at 5."""
    only_listed(pieces)
    pieces.broker.on(ShareGroupDescribeRequest, share_groups_are({"g": "Stable"}))
    pieces.broker.on(DescribeShareGroupOffsetsRequest, shares_are(start, lag))
    return pieces
