"""One poll for all waits on a connection: they share a client and its requests, come, go and are cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.offsets.answers.groups import CommittedOffset, CommittedOffsets
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from dev.kafka import Broker
from tests.integration.airflow.conftest import Commit, use_connection
from tests.integration.airflow.waits.runner import Runner, running
from tests.integration.kafka_clients import connect
from tests.patience import PATIENCE_S, wait_until

INTERVAL_S = 0.3
OFFSET_FETCH = 9


def wait_for(*groups: str, topics: tuple[str, ...] | None = None, **arguments: Any) -> KafkaWaitTrigger:
    condition = GroupsCaughtUp(groups, topics).to_json()
    return KafkaWaitTrigger(
        **{"kafka_conn_id": "kafka_default", "condition": condition, "poll_interval_s": INTERVAL_S} | arguments
    )


def drive(work: Callable[[Runner], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with running() as runner:
            await work(runner)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


class TestSharing:
    def test_waits_on_one_connection_share_one_poll_and_each_fires_when_its_own_is_true(
        self, ten: str, commit: Commit
    ) -> None:
        commit(f"a-{ten}", ten, 4)
        commit(f"b-{ten}", ten, 4)

        async def work(runner: Runner) -> None:
            first, second = runner.start(wait_for(f"a-{ten}")), runner.start(wait_for(f"b-{ten}"))
            await asyncio.sleep(3 * INTERVAL_S)
            assert runner.polls == 1
            await asyncio.to_thread(commit, f"b-{ten}", ten, 10)
            assert (await runner.event(second))["status"] == "done"
            assert runner.events(first) == []
            await asyncio.to_thread(commit, f"a-{ten}", ten, 10)
            assert (await runner.event(first))["result"]["groups"] == {f"a-{ten}": 0}

        drive(work)

    def test_isolation_levels_share_one_too_and_each_counts_its_own_records(self, ten: str, commit: Commit) -> None:
        commit(f"a-{ten}", ten, 4)

        async def work(runner: Runner) -> None:
            conditions = [GroupsCaughtUp((f"a-{ten}",), isolation_level=level) for level in IsolationLevel]
            waits = [runner.start(wait_for("-", condition=condition.to_json())) for condition in conditions]
            await asyncio.sleep(INTERVAL_S)
            assert runner.polls == 1
            await asyncio.to_thread(commit, f"a-{ten}", ten, 10)
            for each in waits:
                assert (await runner.event(each))["status"] == "done"

        drive(work)

    def test_one_that_is_cancelled_leaves_the_others_waiting(self, ten: str, commit: Commit) -> None:
        commit(f"a-{ten}", ten, 4)

        async def work(runner: Runner) -> None:
            first, second = runner.start(wait_for(f"a-{ten}")), runner.start(wait_for(f"a-{ten}", poll_interval_s=0.2))
            await asyncio.sleep(2 * INTERVAL_S)
            await runner.cancel(first)
            await asyncio.to_thread(commit, f"a-{ten}", ten, 10)
            assert (await runner.event(second))["status"] == "done"

        drive(work)

    def test_when_the_last_one_leaves_the_poll_ends_and_its_thread_too(self, ten: str, commit: Commit) -> None:
        commit(f"a-{ten}", ten, 4)

        def threads() -> list[str]:
            return [each.name for each in threading.enumerate() if each.name.startswith("kafka-offsets-")]

        async def work(runner: Runner) -> None:
            number = runner.start(wait_for(f"a-{ten}"))
            await asyncio.sleep(3 * INTERVAL_S)
            assert len(threads()) == 1
            await runner.cancel(number)
            assert runner.polls == 0
            again = runner.start(wait_for(f"a-{ten}"))
            await asyncio.to_thread(commit, f"a-{ten}", ten, 10)
            assert (await runner.event(again))["status"] == "done"

        drive(work)
        wait_until(lambda: not threads(), "the poll's thread ends")

    def test_one_wait_that_fails_is_no_other_ones_fault(self, ten: str, commit: Commit) -> None:
        commit(f"a-{ten}", ten, 4)

        async def work(runner: Runner) -> None:
            good = runner.start(wait_for(f"a-{ten}"))
            misspelt = runner.start(wait_for(f"mispselt-{ten}"))
            unknown_topic = runner.start(wait_for(f"a-{ten}", topics=("no-such-topic",)))
            assert "GROUP_ID_NOT_FOUND" in (await runner.event(misspelt))["message"]
            assert "no-such-topic" in (await runner.event(unknown_topic))["message"]
            await asyncio.to_thread(commit, f"a-{ten}", ten, 10)
            assert (await runner.event(good))["status"] == "done"

        drive(work)


class TestRequests:
    def test_a_thousand_waits_ask_what_one_wait_on_the_union_asks(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """1,000 waits over 50 groups, and one wait on the 50: requests by kind, counted by the proxy, a poll each."""
        use_connection(monkeypatch, "proxied", {"bootstrap.servers": broker.proxied_bootstrap_servers})
        groups = [f"busy-{number}" for number in range(50)]
        _commit_somewhere(broker, groups)

        async def polled(times: int) -> None:
            broker.proxy.reset_counts()
            await asyncio.to_thread(wait_until, lambda: broker.proxy.requests[OFFSET_FETCH] >= times, "it is polled")

        async def requests_a_poll(runner: Runner, waits: list[KafkaWaitTrigger]) -> dict[int, int]:
            numbers = [runner.start(each) for each in waits]
            await polled(2)  # the first poll looks up coordinators too
            await polled(10)
            counts = broker.proxy.requests
            for each in numbers:
                await runner.cancel(each)
            # The counts are taken in the middle of a poll maybe; and what was found is read again each minute.
            found = {key: round(count / counts[OFFSET_FETCH]) for key, count in counts.items()}
            return {key: count for key, count in found.items() if count}

        async def work(runner: Runner) -> None:
            union = await requests_a_poll(runner, [wait_for(*groups, kafka_conn_id="proxied")])
            many = [wait_for(group, kafka_conn_id="proxied") for group in groups for _ in range(20)]
            assert await requests_a_poll(runner, many) == union
            assert sum(union.values()) == 6  # metadata, groups of both protocols, commits, log starts, log ends

        drive(work)


def _commit_somewhere(broker: Broker, groups: list[str]) -> None:
    """A topic of two partitions with records, and groups that are behind on it."""
    with closing(connect(KafkaAdminClient, bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.create_topics({"busy": {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
    with closing(connect(KafkaProducer, bootstrap_servers=broker.bootstrap_servers)) as producer:
        for number in range(20):
            producer.send("busy", partition=number % 2, value=b"x")
        producer.flush()
    commits = CommittedOffsets(CommittedOffset("busy", partition, 3) for partition in range(2))
    with OffsetsClient(ClientSettings.from_config({"bootstrap.servers": broker.bootstrap_servers})) as client:
        for group in groups:
            client.commit_offsets(group, commits).raise_for_errors()
