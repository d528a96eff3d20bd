"""One poll for all waits on a connection: they share a client and its requests, come, go and are cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from airflow_kafka_offsets.conditions.groups_caught_up import GroupsCaughtUp
from airflow_kafka_offsets.triggers.wait import KafkaWaitTrigger
from dev.kafka import Broker
from tests.integration.airflow.conftest import Commit, use_connection
from tests.integration.airflow.waits import whole_airflow
from tests.integration.airflow.waits.runner import Runner, running
from tests.integration.client.cases.workload import new_topic, produce
from tests.patience import PATIENCE_S, wait_until

INTERVAL_S = 0.3
OFFSET_FETCH = 9


def wait_for(*groups: str, **arguments: Any) -> KafkaWaitTrigger:
    condition = GroupsCaughtUp(groups).to_json()
    return KafkaWaitTrigger(
        **{"kafka_conn_id": "kafka_default", "condition": condition, "poll_interval_s": INTERVAL_S} | arguments
    )


def drive(work: Callable[[Runner], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with running() as runner:
            await work(runner)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


async def begins(runner: Runner) -> None:
    await asyncio.to_thread(wait_until, lambda: runner.polls, "a poll begins")


class TestSharing:
    def test_waits_on_one_connection_share_one_poll_and_each_fires_when_its_own_is_true(
        self, ten: str, commit: Commit
    ) -> None:
        commit(f"a-{ten}", ten, 4)
        commit(f"b-{ten}", ten, 4)

        async def work(runner: Runner) -> None:
            first, second = runner.start(wait_for(f"a-{ten}")), runner.start(wait_for(f"b-{ten}"))
            await begins(runner)
            await asyncio.sleep(3 * INTERVAL_S)
            assert runner.polls == 1
            await asyncio.to_thread(commit, f"b-{ten}", ten, 10)
            assert (await runner.event(second))["status"] == "done"
            assert runner.events(first) == []
            await asyncio.to_thread(commit, f"a-{ten}", ten, 10)
            assert (await runner.event(first))["result"]["groups"] == {f"a-{ten}": 0}

        drive(work)

    def test_when_the_last_one_leaves_the_poll_ends_and_its_thread_too(self, ten: str, commit: Commit) -> None:
        commit(f"a-{ten}", ten, 4)

        def threads() -> list[str]:
            return [each.name for each in threading.enumerate() if each.name.startswith("kafka-offsets-")]

        async def work(runner: Runner) -> None:
            first, second = runner.start(wait_for(f"a-{ten}")), runner.start(wait_for(f"a-{ten}"))
            await asyncio.to_thread(wait_until, threads, "the poll's thread begins")
            await asyncio.sleep(3 * INTERVAL_S)
            assert len(threads()) == 1
            await runner.cancel(first)
            assert runner.polls == 1, "the other one goes on"
            await runner.cancel(second)
            assert runner.polls == 0
            again = runner.start(wait_for(f"a-{ten}"))
            await asyncio.to_thread(commit, f"a-{ten}", ten, 10)
            assert (await runner.event(again))["status"] == "done"

        drive(work)
        wait_until(lambda: not threads(), "the poll's thread ends")


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
            # The counts are taken in the middle of a poll maybe.
            found = {key: round(count / counts[OFFSET_FETCH]) for key, count in counts.items()}
            return {key: count for key, count in found.items() if count}

        async def work(runner: Runner) -> None:
            union = await requests_a_poll(runner, [wait_for(*groups, kafka_conn_id="proxied")])
            many = [wait_for(group, kafka_conn_id="proxied") for group in groups for _ in range(20)]
            assert await requests_a_poll(runner, many) == union
            assert (
                sum(union.values()) == 8
            )  # metadata, groups of both protocols, commits, log starts and both ends, records

        drive(work)


def _commit_somewhere(broker: Broker, groups: list[str]) -> None:
    """A topic of two partitions with records, and groups that are behind on it."""
    new_topic(broker, 2, name="busy")
    for partition in range(2):
        produce(broker, "busy", partition, count=10)
    whole_airflow.commit(broker, "busy", 3, *groups)
