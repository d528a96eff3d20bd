"""Requests: how many of each kind a call sends, and in how many rounds, according to the proxies before the brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dev.cluster import KafkaCluster
from tests.benchmarks.timing import timed

NAMES = {
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    9: "OffsetFetch",
    10: "FindCoordinator",
    15: "DescribeGroups",
    18: "ApiVersions",
    32: "DescribeConfigs",
    69: "ConsumerGroupDescribe",
    77: "ShareGroupDescribe",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
}
"""Names of the API keys that occur here."""
_FAR_MS = 500.0
"""High enough that the time a call computes between rounds is small in comparison."""
NOISE = 0.3
"""By how much :func:`rounds` may exceed the true number on a busy machine."""


def set_latency(cluster: KafkaCluster, ms: float) -> None:
    """Set the latency to every broker, in each direction."""
    for each in cluster.proxies:
        each.latency(ms)


def count(cluster: KafkaCluster, call: Callable[[], object]) -> Counter[int]:
    """The requests of a call by API key, over all brokers."""
    for each in cluster.proxies:
        each.reset_counts()
    call()
    return sum((each.requests for each in cluster.proxies), Counter())


def words(counts: Counter[int]) -> str:
    """``3 OffsetFetch + 6 ListOffsets``."""
    return " + ".join(f"{number} {NAMES.get(key, f'key {key}')}" for key, number in sorted(counts.items()))


def rounds(cluster: KafkaCluster, call: Callable[[], object], nearby_ms: float) -> float:
    """How many times in a row a call waits for the network, computed from how much longer it takes with more latency.

    :param nearby_ms: the latency to compare with, which is also set at the end.
    """
    near_s = min(timed(call)[1] for _ in range(3))
    set_latency(cluster, nearby_ms + _FAR_MS)
    far_s = min(timed(call)[1] for _ in range(2))
    set_latency(cluster, nearby_ms)
    return (far_s - near_s) * 1000 / (2 * _FAR_MS)
