"""Outages: one of three brokers accepts everything but answers nothing. The partitions of the others answer by the
deadline, and the call waits for the deadline only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from tests.benchmarks.clusters import THOUSAND, Clusters, client
from tests.benchmarks.peers import Confluent
from tests.benchmarks.report import Row
from tests.benchmarks.timing import timed

TIMEOUT_S = 5.0
_WORK = f"ends of 1,000 partitions, one broker of three unreachable, deadline {TIMEOUT_S:.0f} s"


def answered(ours: OffsetsClient) -> int:
    """How many partitions answer with their log end by the deadline."""
    return len(ours.list_offsets(THOUSAND.pieces(), OffsetSpec.LATEST).ok())


def outage(clusters: Clusters) -> Iterator[Row]:
    """With open connections, with new ones, and confluent-kafka with open ones."""
    cluster = clusters.three
    confluent = Confluent(cluster.proxied_bootstrap_servers)
    theirs = partial(confluent.answered, THOUSAND.pieces(), TIMEOUT_S)
    with (
        client(cluster.proxied_bootstrap_servers, TIMEOUT_S) as connected,
        client(cluster.proxied_bootstrap_servers, TIMEOUT_S) as new,
    ):
        works: dict[str, Callable[[], int]] = {
            _WORK: partial(answered, connected),
            "… with a new client": partial(answered, new),
        }
        # The call's own time: the same call with all brokers answering.
        own_s = min(timed(works[_WORK])[1] for _ in range(3))
        theirs()
        cluster.proxies[0].black_hole()
        try:
            for work, call in works.items():
                count, taken_s = timed(call)
                limit_s = TIMEOUT_S + own_s + 0.1
                yield Row.absolute(work, taken_s, "s", limit=limit_s, requests=f"{count} partitions answered")
            count, taken_s = timed(theirs)
            yield Row.noted("… confluent-kafka", f"{count} partitions answered", taken_s)
        finally:
            cluster.proxies[0].heal()
