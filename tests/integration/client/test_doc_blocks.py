"""The examples of docs/development/requests and CONTRIBUTING.md, run on a real broker. They print what the pages say
that they print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from dev.kafka import Broker
from tests.integration.client.cases.workload import delete_records, group_member, new_name, send, transactional_producer
from tests.integration.conftest import Produce
from tests.integration.doc_blocks import CONTRIBUTING, REQUESTS, blocks_of, replaced

BLOCKS = {page.stem: blocks_of(page) for page in sorted(REQUESTS.glob("*.md"))}
SIX_MS = 1_795_154_400_000
"""06:00 UTC on 20 November 2026, when the records of ``flights`` begin, one a minute."""
PAID_MS = 1_795_155_401_000
ADDRESS = "broker-1:9092"

OTHERWISE_HERE = {
    ("describe_groups", 2): "other tests have groups on this broker",
    ("list_offsets", 4): "this broker is too new; airflow/test_cli_old_broker.py has an old one",
    ("offset_for_leader_epoch", 1): "no leader failed; tests/integration/client/cases has such elections",
}
"""Blocks by page and number that print something else on this broker, and why."""

VARIES = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "<a topic's id>",
    r"\b\d+(\.\d+){3}\b": "<a host>",
    r"\bproducer_id=\d+": "producer_id=<a number>",
}
"""What differs from cluster to cluster in any output."""


@pytest.fixture(scope="module")
def flights(broker: Broker, admin: KafkaAdminClient, produce: Produce) -> str:
    """Three partitions: 100 records, the first two deleted; 40 records; none."""
    name = new_name("flights")
    config = {"retention.ms": "-1"}
    admin.create_topics({name: {"num_partitions": 3, "replication_factor": 1, "configs": config}})
    for partition, count in ((0, 100), (1, 40)):
        produce(name, partition, [(SIX_MS + minute * 60_000, None, b"flight") for minute in range(count)])
    delete_records(broker, {TopicPartition(name, 0): 2})
    return name


@pytest.fixture(scope="module")
def decided(broker: Broker, admin: KafkaAdminClient, produce: Produce) -> str:
    """``payments`` of the page on Fetch: offsets 2 and 4 are markers, 6 to 8 were aborted."""
    name = new_payments(admin)
    for number in (2, 1):
        with transactional_producer(broker) as producer:
            send(producer, name, timestamps=[PAID_MS - 2_000] * number)
            producer.commit_transaction()
    produce(name, 0, [(PAID_MS, None, b"paid")])
    with transactional_producer(broker) as producer:
        send(producer, name, timestamps=[PAID_MS] * 3)
    return name


@pytest.fixture(scope="module")
def undecided(broker: Broker, admin: KafkaAdminClient, produce: Produce) -> Iterator[str]:
    """``payments`` of the other pages: a transaction is open from offset 4 on."""
    name = new_payments(admin)
    produce(name, 0, [(PAID_MS - 2_000, None, b"paid")] * 4)
    with transactional_producer(broker) as producer:
        send(producer, name, timestamps=[PAID_MS] * 2)
        yield name


def new_payments(admin: KafkaAdminClient) -> str:
    name = new_name("payments")
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1, "configs": {"retention.ms": "-1"}}})
    return name


@pytest.fixture(scope="module")
def groups(broker: Broker, flights: str) -> Iterator[dict[str, str]]:
    """What stands for the pages' groups; one of them has a member, and one is a share group."""
    names = {name: new_name(name) for name in ("live", "loader", "sharers")}
    broker.run_tool(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        *("--group", names["sharers"], "--topic", flights, "--reset-offsets", "--to-earliest", "--execute"),
    )
    with group_member(broker, names["live"], [flights], client_id="the-loader"):
        yield names


@pytest.fixture
def renamed(
    broker: Broker, client: OffsetsClient, flights: str, decided: str, undecided: str, groups: dict[str, str], page: str
) -> dict[str, str]:
    """What stands for the pages' addresses, topics and groups. The group ``loader`` has its commits, on each page."""
    commits = [
        CommittedOffset(flights, 0, 70, leader_epoch=0, metadata="batch 12"),
        CommittedOffset(flights, 1, 40, leader_epoch=0),
    ]
    client.commit_offsets(groups["loader"], CommittedOffsets(commits)).raise_for_errors()
    topics = {"flights": flights, "payments": decided if page == "fetch" else undecided}
    return {ADDRESS: broker.bootstrap_servers} | topics | groups


def as_the_page_has_it(printed: str, renamed: dict[str, str]) -> str:
    """An output with the page's names, and without what :data:`VARIES`."""
    told = replaced(printed, {here: word for word, here in renamed.items()})
    for pattern, stands in VARIES.items():
        told = re.sub(pattern, stands, told)
    return told


@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if blocks])
def test_a_pages_examples_print_what_it_says(
    page: str, client: OffsetsClient, renamed: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, as each may use names of those before it."""
    names = {} if page == "README" else {"client": client}
    for block in BLOCKS[page]:
        block.run(names, renamed)
        printed = capsys.readouterr().out
        if block.printed is None:
            continue
        if (page, block.number) in OTHERWISE_HERE:
            assert len(printed.splitlines()) == len(block.printed.splitlines())
        else:
            assert as_the_page_has_it(printed, renamed) == as_the_page_has_it(block.printed, {})


def test_a_contributor_starts_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks_of(CONTRIBUTING)
    block.run({})
    assert re.fullmatch(r"[\d.]+:\d+\n", capsys.readouterr().out)


def test_what_prints_otherwise_here_is_on_the_pages() -> None:
    shown = {(page, block.number) for page, blocks in BLOCKS.items() for block in blocks if block.printed is not None}
    assert set(OTHERWISE_HERE) <= shown
