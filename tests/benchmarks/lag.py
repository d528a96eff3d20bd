"""Lag: a poll of a thousand groups, with and without network latency, and of one group on very many partitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.specs import OffsetSpec
from dev.cluster import KafkaCluster
from dev.kafka import Broker
from tests.benchmarks import requests
from tests.benchmarks.clusters import LATENCY_MS, POLLED, THOUSAND, WIDE, Clusters, Topic, client
from tests.benchmarks.peers import Confluent
from tests.benchmarks.report import Row
from tests.benchmarks.timing import shortest, timed

_JAVA_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_CONFLUENT = "confluent-kafka"
_POLL = "lag of 1,000 groups x 100 partitions"


def total_lag(ours: OffsetsClient, topic: Topic) -> int:
    """Sum over all groups and partitions of a topic."""
    lags = ours.group_lags(topic.groups, topics=[topic.name])
    totals = [each.total for each in lags]
    return sum(each for each in totals if each is not None) if None not in totals else -1


def poll(clusters: Clusters) -> Iterator[Row]:
    """A thousand groups on one broker, without a network."""
    broker = clusters.single
    with client(broker.bootstrap_servers) as ours:
        call = partial(total_lag, ours, POLLED)
        confluent = Confluent(broker.bootstrap_servers)
        taken = shortest({"ours": call, "theirs": partial(confluent.total_lag, POLLED.groups, POLLED.pieces())})
        expected = call()
    yield Row.compared(f"{_POLL}, one broker", taken["ours"], _CONFLUENT, taken["theirs"], limit=0.8)
    total, taken_s = timed(partial(_total_of_java_tool, broker))
    if total != expected:
        raise AssertionError(f"Kafka's own tool sums {total}, and we {expected}")
    yield Row.ratio(f"{_POLL}, one broker", taken["ours"].s, "Kafka's own tool", taken_s, limit=0.05)


def _total_of_java_tool(broker: Broker) -> int:
    """What ``kafka-consumer-groups.sh --describe --all-groups`` prints. Its time includes the JVM's start."""
    table = broker.run_tool(_JAVA_TOOL, "--describe", "--all-groups", "--timeout", "120000")
    # GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG, and then the member.
    return sum(int(lag) for lag in re.findall(rf"^\S+\s+{POLLED.name}\s+\d+\s+\d+\s+\d+\s+(\d+)", table, re.MULTILINE))


def far_poll(clusters: Clusters) -> Iterator[Row]:
    """A thousand groups on three brokers, 5 ms away, where the number of rounds determines how long a call takes."""
    cluster = clusters.three
    requests.set_latency(cluster, LATENCY_MS)
    work = f"{_POLL}, three brokers, {LATENCY_MS:.0f} ms each way"
    with client(cluster.proxied_bootstrap_servers) as ours:
        _connect(ours)
        first = requests.count(cluster, lambda: total_lag(ours, POLLED))
        call = partial(total_lag, ours, POLLED)
        again = requests.count(cluster, call)
        confluent = Confluent(cluster.proxied_bootstrap_servers)
        peer = partial(confluent.total_lag, POLLED.groups, POLLED.pieces())
        taken = shortest({"ours": call, "theirs": peer})
        theirs = requests.count(cluster, peer)
        yield Row.compared(work, taken["ours"], _CONFLUENT, taken["theirs"], limit=0.4, requests=requests.words(again))
        yield Row.noted("… confluent-kafka's requests", requests.words(theirs))
        yield _first_call(cluster, first)
        waits = requests.rounds(cluster, call, LATENCY_MS)
        yield Row.absolute("… rounds, once coordinators are known", waits, "rounds", limit=3 + requests.NOISE)
    requests.set_latency(cluster, 0)


def _connect(ours: OffsetsClient) -> None:
    """Connect to all brokers without caching anything that the benchmark needs."""
    ours.list_offsets(THOUSAND.pieces(), OffsetSpec.LATEST).raise_for_errors()


def _first_call(cluster: KafkaCluster, first: Counter[int]) -> Row:
    brokers = len(cluster.brokers)
    # One look-up of all coordinators, and the topic's metadata; commits; log starts and both ends.
    limit = 2 + brokers + 3 * brokers
    return Row.absolute(
        "… requests of the first call", sum(first.values()), "requests", limit=limit, requests=requests.words(first)
    )


def many_partitions(clusters: Clusters) -> Iterator[Row]:
    """One group on a thousand and on ten thousand partitions of three brokers, without a network."""
    cluster = clusters.three
    seconds = {}
    for topic in (THOUSAND, WIDE):
        work = f"lag of one group on {topic.partitions:,} partitions, three brokers"
        with client(cluster.bootstrap_servers) as ours:
            confluent = Confluent(cluster.bootstrap_servers)
            taken = shortest(
                {
                    "ours": partial(total_lag, ours, topic),
                    "theirs": partial(confluent.total_lag, topic.groups, topic.pieces()),
                }
            )
        seconds[topic.name] = taken["ours"].s
        counted = requests.words(_proxied(cluster, partial(total_lag, topic=topic)))
        # A thousand partitions take no longer than six requests; they are measured to compare with ten thousand.
        limit = 0.8 if topic is WIDE else None
        yield Row.compared(work, taken["ours"], _CONFLUENT, taken["theirs"], limit=limit, requests=counted)
    yield Row.ratio(
        "… ten times the partitions", seconds[WIDE.name], "ours, a tenth of them", seconds[THOUSAND.name], limit=12
    )


def _proxied(cluster: KafkaCluster, call: Callable[[OffsetsClient], object]) -> Counter[int]:
    """The requests of a call that was measured before. Only proxies see them."""
    with client(cluster.proxied_bootstrap_servers) as ours:
        call(ours)
        return requests.count(cluster, lambda: call(ours))
