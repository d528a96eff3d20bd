"""The topics of histories: made, and known to every broker before anything is done to them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from confluent_kafka.admin import NewTopic

from dev import raw_client
from tests.integration.fuzz.bench import PATIENCE_S, Bench
from tests.integration.fuzz.history import History


def make_topics(bench: Bench, topics: Mapping[str, History]) -> None:
    """New topics for histories, known to every broker."""
    new = [NewTopic(name, each.partitions, each.replicas, config=_config(each)) for name, each in topics.items()]
    for future in bench.admin.create_topics(new).values():
        future.result(PATIENCE_S)
    wait_until_known(bench.bootstrap_servers, {name: each.partitions for name, each in topics.items()})


def _config(history: History) -> dict[str, str]:
    kind = "LogAppendTime" if history.append_time else "CreateTime"
    return {"retention.ms": "-1", "message.timestamp.type": kind, "min.insync.replicas": "1"}


def wait_until_known(bootstrap_servers: str, topics: Mapping[str, int]) -> None:
    """Wait until every broker that answers knows so many partitions, each with a leader.

    :raises TimeoutError: they don't.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not all(_knows(address, topics) for address in bootstrap_servers.split(",")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not every broker knows {', '.join(topics)}")
        time.sleep(0.01)


def _knows(address: str, topics: Mapping[str, int]) -> bool:
    with contextlib.suppress(OSError, EOFError):
        for each in raw_client.metadata(address, list(topics)).topics:
            leaders = [partition.leader_id for partition in each.partitions]
            if len(leaders) != topics[each.name] or min(leaders, default=-1) < 0:
                return False
    return True
