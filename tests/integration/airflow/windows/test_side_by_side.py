"""Resolvers side by side, in threads and in processes, on a topic that is being written."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from kafka import KafkaProducer

from airflow_kafka_offsets.ledger.ledger import Ledger
from dev import ROOT
from dev.kafka import Broker
from tests.integration.airflow.conftest import FOR_EVER
from tests.integration.conftest import MakeTopic
from tests.integration.kafka_clients import connect
from tests.integration.ledger.loads import windows_of
from tests.unit.offsets.builders import offsets_of

pytestmark = pytest.mark.timeout(900)

PROCESSES = 4
PARTITIONS = 4

MIXED = """
import sys, time
from airflow.sdk import ObjectStoragePath
from airflow_kafka_offsets.errors import InstantError
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.windows.snapshots import AsOf, AsOfKind
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.pipelines.resolver import Resolver
from tests.integration.client.cases.workload import connected_client
servers, root, topic, name = sys.argv[1:]
with connected_client(servers, timeout_s=60) as client:
    resolver = Resolver(client, Ledger(ObjectStoragePath(root), "loads"), [topic], IsolationLevel.READ_COMMITTED)
    for number in range(20):
        resolver.increment(f"p{name}n{number}", AsOf(AsOfKind.EARLIEST))
        now_ms = time.time_ns() // 1_000_000
        for at_ms in (now_ms - 50 * number, now_ms):
            try:
                resolver.snapshot(AsOf(AsOfKind.INSTANT, at_ms))
            except InstantError:
                assert not number, "it was before the pipeline began"
        resolver.snapshot(AsOf(AsOfKind.LATEST))
"""


@contextmanager
def writing(broker: Broker, topic: str) -> Iterator[None]:
    """Records keep coming on every partition while the block runs."""
    stop = threading.Event()

    def write() -> None:
        with closing(connect(KafkaProducer, bootstrap_servers=broker.bootstrap_servers, linger_ms=1)) as producer:
            while not stop.wait(0.001):
                for partition in range(PARTITIONS):
                    producer.send(topic, partition=partition, value=b"x")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def written(broker: Broker, topic: MakeTopic) -> Iterator[str]:
    """A topic that is written all the time."""
    name = topic(PARTITIONS, FOR_EVER)
    with writing(broker, name):
        yield name


def assert_increments_tile(ledger: Ledger, count: int) -> None:
    """Each starts where the one before it ends, on every partition."""
    windows = [ledger.pinned(each).manifest for each in windows_of(ledger)]
    assert len(windows) == count
    for earlier, later in pairwise(windows):
        assert earlier.end_ms == later.start_ms
        ends = {(each.topic, each.partition): each.end_offset for each in earlier.ranges}
        assert ends == {(each.topic, each.partition): each.start_offset for each in later.ranges}


class TestOnATopicUnderLoad:
    """S2: whoever asked Kafka before another one stored its answer knows less, and asks again. No log was cut."""

    def test_increments_of_processes_beside_instants_and_latest_snapshots_all_succeed(
        self, broker: Broker, written: str, ledger_root: Path, ledger: Ledger
    ) -> None:
        with ExitStack() as stack:
            words = [sys.executable, "-c", MIXED, broker.bootstrap_servers, ledger_root.as_uri(), written]
            running = [
                stack.enter_context(
                    subprocess.Popen([*words, str(number)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
                )
                for number in range(PROCESSES)
            ]
            said = [each.communicate()[1] for each in running]
        assert [(each.returncode, said[number][-2000:]) for number, each in enumerate(running) if each.returncode] == []
        assert_increments_tile(ledger, 20 * PROCESSES)
        chain = [ledger.contents.snapshot(each.offsets) for each in ledger.state.snapshots.values()]
        for earlier, later in pairwise(offsets_of(each) for each in chain):
            assert all(later[key] >= offset for key, offset in earlier.items())
