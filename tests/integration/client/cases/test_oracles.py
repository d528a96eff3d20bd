"""Kafka's own tools as oracles, on topics as messy as they get; and what we say where the tools say nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListedOffsets, ListOutcome
from airflow_kafka_offsets.offsets.lag import LagStatus, PartitionLag
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.specs import IsolationLevel, OffsetSpec
from dev.cluster import KafkaCluster
from tests.integration.client.cases.workload import (
    HOUR_MS,
    T0,
    commit,
    connected_client,
    delete_records,
    group_member,
    new_compacted_topic,
    new_name,
    new_topic,
    produce,
    send,
    transactional_producer,
)
from tests.patience import wait_until

GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DESCRIBE_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
READ_UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED

SPECS = {
    "latest": OffsetSpec.LATEST,
    "earliest": OffsetSpec.EARLIEST,
    "max-timestamp": OffsetSpec.MAX_TIMESTAMP,
    "earliest-local": OffsetSpec.EARLIEST_LOCAL,
    "latest-tiered": OffsetSpec.LATEST_TIERED,
    str(T0): OffsetSpec.at(T0),
    str(T0 + 5 * HOUR_MS): OffsetSpec.at(T0 + 5 * HOUR_MS),
}
"""What both can be asked, by the tool's name for it."""
TOO_LATE = T0 + 5 * HOUR_MS

Row = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(frozen=True)
class Mess:
    """Topics by what is wrong with them; all names start alike."""

    prefix: str

    @property
    def uneven(self) -> str:
        """Three partitions: twenty records, an hour apart; two; none."""
        return f"{self.prefix}-uneven"

    @property
    def compacted(self) -> str:
        """Twenty offsets, and fewer records."""
        return f"{self.prefix}-compacted"

    @property
    def trimmed(self) -> str:
        """Two partitions of ten records: of the first, six are deleted; of the second, all."""
        return f"{self.prefix}-trimmed"

    @property
    def transactions(self) -> str:
        """A committed transaction, an aborted one, and one that is open."""
        return f"{self.prefix}-transactions"


@pytest.fixture(scope="module")
def client(running_cluster: KafkaCluster) -> Iterator[OffsetsClient]:
    with connected_client(running_cluster.bootstrap_servers) as connected:
        yield connected


@pytest.fixture(scope="module")
def mess(running_cluster: KafkaCluster, client: OffsetsClient) -> Iterator[Mess]:
    made = Mess(new_name("messy"))
    new_topic(running_cluster, 3, name=made.uneven)
    produce(running_cluster, made.uneven, 0, timestamps=[T0 + number * HOUR_MS for number in range(20)])
    produce(running_cluster, made.uneven, 1, timestamps=[T0 + HOUR_MS, T0])
    new_compacted_topic(running_cluster, name=made.compacted)
    new_topic(running_cluster, 2, name=made.trimmed)
    for partition in range(2):
        produce(running_cluster, made.trimmed, partition, timestamps=[T0 + number * HOUR_MS for number in range(10)])
    trimmed = {TopicPartition(made.trimmed, 0): 6, TopicPartition(made.trimmed, 1): 10}
    delete_records(running_cluster, trimmed)
    new_topic(running_cluster, name=made.transactions)
    with ExitStack() as still_open:
        write_transactions(running_cluster, client, made.transactions, still_open)
        yield made


def write_transactions(cluster: KafkaCluster, client: OffsetsClient, topic: str, still_open: ExitStack) -> None:
    key = TopicPartition(topic, 0)
    for ending in ("commit_transaction", "abort_transaction"):
        with transactional_producer(cluster) as producer:
            send(producer, topic, timestamps=[T0, T0 + 1])
            getattr(producer, ending)()
        wait_until(lambda: not next(iter(client.producers([key]))).open_transactions, "the marker is written")
    held = still_open.enter_context(transactional_producer(cluster, transaction_timeout_ms=600_000))
    send(held, topic, timestamps=[T0])


@pytest.fixture(scope="module")
def shell(running_cluster: KafkaCluster, mess: Mess) -> Callable[[str], dict[TopicPartition, str]]:
    """What Kafka's tool prints for a ``--time``: an offset, or nothing; by partition, those that it prints."""

    @functools.cache
    def answers(time: str) -> dict[TopicPartition, str]:
        printed = running_cluster.run_tool(GET_OFFSETS, "--topic", f"{mess.prefix}.*", "--time", time)
        rows = (line.rsplit(":", 2) for line in printed.split())
        return {TopicPartition(topic, int(partition)): offset for topic, partition, offset in rows}

    return answers


@pytest.fixture(scope="module")
def listed(client: OffsetsClient, mess: Mess) -> Callable[[str], ListedOffsets]:
    """What we list for the same."""
    topics = [mess.uneven, mess.compacted, mess.trimmed, mess.transactions]
    partitions = client.partitions_of(topics)
    assert len(partitions) == 7
    return lambda time: client.list_offsets(
        partitions, SPECS[time], isolation_level=READ_UNCOMMITTED
    ).raise_for_errors()


class TestGetOffsetShell:
    @pytest.mark.parametrize("time", SPECS)
    def test_prints_the_offsets_that_we_list(
        self,
        shell: Callable[[str], dict[TopicPartition, str]],
        listed: Callable[[str], ListedOffsets],
        time: str,
    ) -> None:
        """E4, E9, E11, E12, E13, E41: for every spec, on every partition that has one."""
        printed = {key: int(offset) for key, offset in shell(time).items() if offset}
        ours = {TopicPartition(each.topic, each.partition): each.offset for each in listed(time)}
        assert printed == {key: offset for key, offset in ours.items() if offset is not None}

    def test_prints_nothing_where_we_say_why(
        self,
        mess: Mess,
        shell: Callable[[str], dict[TopicPartition, str]],
        listed: Callable[[str], ListedOffsets],
    ) -> None:
        """E1: of an instant."""
        printed, ours = shell(str(TOO_LATE)), listed(str(TOO_LATE))
        silent = {TopicPartition(each.topic, each.partition): each.outcome for each in ours if each.offset is None}
        assert silent == {
            TopicPartition(mess.uneven, 1): ListOutcome.ALL_OLDER,
            TopicPartition(mess.uneven, 2): ListOutcome.EMPTY_LOG,
            TopicPartition(mess.trimmed, 1): ListOutcome.EMPTY_LOG,
        }
        assert [printed.get(key, "") for key in silent] == [""] * 3


@pytest.fixture(scope="module")
def groups(mess: Mess, client: OffsetsClient) -> dict[str, str]:
    """Groups by what is uneven about them."""
    kinds = ("behind", "partly", "ahead", "below", "marker")
    names = {kind: f"{mess.prefix}-{kind}" for kind in kinds}
    everywhere = {TopicPartition(mess.uneven, 0): 3, TopicPartition(mess.uneven, 1): 2}
    commit(client, names["behind"], {**everywhere, TopicPartition(mess.uneven, 2): 0})
    commit(client, names["partly"], {TopicPartition(mess.uneven, 0): 20, TopicPartition(mess.compacted, 0): 5})
    commit(client, names["ahead"], {TopicPartition(mess.uneven, 1): 9})
    commit(client, names["below"], {TopicPartition(mess.trimmed, 0): 2, TopicPartition(mess.trimmed, 1): 2})
    commit(client, names["marker"], {TopicPartition(mess.transactions, 0): 5})
    return names


@pytest.fixture(scope="module")
def reader(running_cluster: KafkaCluster, mess: Mess) -> Iterator[str]:
    """A group with a member and without commits."""
    name = f"{mess.prefix}-reader"
    with group_member(running_cluster, name, [mess.uneven]):
        yield name


@pytest.fixture(scope="module")
def table(running_cluster: KafkaCluster, groups: dict[str, str], reader: str) -> dict[Row, list[str]]:
    """What Kafka's tool prints: committed offset, log end and lag, by row."""
    asked = [part for name in (*groups.values(), reader) for part in ("--group", name)]
    printed = running_cluster.run_tool(DESCRIBE_GROUPS, "--describe", *asked)
    rows = [line.split() for line in printed.splitlines()]
    names = {*groups.values(), reader}
    return {(row[0], row[1], int(row[2])): row[3:6] for row in rows if row and row[0] in names}


@pytest.fixture(scope="module")
def ours(client: OffsetsClient, groups: dict[str, str], reader: str) -> dict[Row, PartitionLag]:
    lags = client.group_lags([*groups.values(), reader], isolation_level=READ_UNCOMMITTED)
    return {(lag.group, each.topic, each.partition): each for lag in lags for each in lag.partitions}


class TestConsumerGroupCommand:
    def test_prints_the_lags_that_we_measure(self, table: dict[Row, list[str]], ours: dict[Row, PartitionLag]) -> None:
        """E9, E11, E12, E21: wherever it prints a lag that can be one."""
        printed = {row: [int(cell) for cell in cells] for row, cells in table.items() if cells[2].isdecimal()}
        assert len(printed) == 3 + 2 + 2 + 1
        for row, numbers in printed.items():
            each = ours[row]
            assert [each.committed_offset, each.high_watermark, each.lag] == numbers, row

    def test_prints_a_negative_lag_where_we_say_that_the_commit_is_ahead(
        self, mess: Mess, groups: dict[str, str], table: dict[Row, list[str]], ours: dict[Row, PartitionLag]
    ) -> None:
        """E17"""
        row = (groups["ahead"], mess.uneven, 1)
        assert table[row] == ["9", "2", "-7"]
        assert (ours[row].status, ours[row].lag) == (LagStatus.AHEAD_OF_LOG, None)
        assert [each for each, cells in table.items() if cells[2].startswith("-") and cells[2] != "-"] == [row]

    def test_prints_a_dash_where_we_count_from_the_log_start(
        self, mess: Mess, reader: str, table: dict[Row, list[str]], ours: dict[Row, PartitionLag]
    ) -> None:
        """E18: partitions that a member reads, and that nobody has committed on."""
        dashed = {row: ours[row] for row, cells in table.items() if cells[2] == "-"}
        assert sorted(dashed) == [(reader, mess.uneven, number) for number in range(3)]
        assert [dashed[row].status for row in sorted(dashed)] == [LagStatus.NO_COMMIT] * 3
        assert [dashed[row].lag for row in sorted(dashed)] == [20, 2, 0]

    def test_leaves_out_partitions_without_commit_and_member_that_we_count(
        self, mess: Mess, groups: dict[str, str], table: dict[Row, list[str]], ours: dict[Row, PartitionLag]
    ) -> None:
        """E18, E23: the other partitions of a topic that the group reads."""
        left_out = {row: (each.status, each.lag) for row, each in ours.items() if row not in table}
        assert left_out == {
            (groups["partly"], mess.uneven, 1): (LagStatus.NO_COMMIT, 2),
            (groups["partly"], mess.uneven, 2): (LagStatus.NO_COMMIT, 0),
            (groups["ahead"], mess.uneven, 0): (LagStatus.NO_COMMIT, 20),
            (groups["ahead"], mess.uneven, 2): (LagStatus.NO_COMMIT, 0),
        }

    def test_does_not_say_that_records_were_lost(
        self, mess: Mess, groups: dict[str, str], ours: dict[Row, PartitionLag]
    ) -> None:
        """E9: its lag counts them, and so does ours, which says how many they are."""
        below = [ours[groups["below"], mess.trimmed, number] for number in range(2)]
        assert [(each.status, each.lag, each.lost) for each in below] == [
            (LagStatus.BELOW_LOG_START, 8, 4),
            (LagStatus.BELOW_LOG_START, 8, 8),
        ]
