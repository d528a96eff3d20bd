"""Snapshots: everything that a snapshot at an instant is made from, on very many partitions, 5 ms away."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListOutcome
from tests.benchmarks import requests
from tests.benchmarks.clusters import INSTANT_MS, LATENCY_MS, THOUSAND, WIDE, Clusters, Topic, client
from tests.benchmarks.peers import KafkaPython
from tests.benchmarks.report import Row
from tests.benchmarks.timing import shortest

_ROUNDS = 4
"""Metadata; ends and settings; the instant; and if there is no record, the newest timestamp."""
_LIMITS_S = {THOUSAND: 1.0, WIDE: 5.0}


def matched(ours: OffsetsClient, topic: Topic) -> int:
    """Make a survey. Returns how many partitions have a record at or after the instant."""
    survey = ours.survey([topic.name])
    survey.extents.raise_for_errors()
    listed = ours.look_up(survey, [INSTANT_MS])[INSTANT_MS]
    return sum(each.outcome is ListOutcome.FOUND for each in listed.raise_for_errors())


def snapshots(clusters: Clusters) -> Iterator[Row]:
    """A thousand and ten thousand partitions."""
    cluster = clusters.three
    requests.set_latency(cluster, LATENCY_MS)
    for topic, limit_s in _LIMITS_S.items():
        work = f"survey of {topic.partitions:,} partitions at an instant, {LATENCY_MS:.0f} ms each way"
        peer = KafkaPython(cluster.proxied_bootstrap_servers)
        with client(cluster.proxied_bootstrap_servers) as ours:
            call, their_call = partial(matched, ours, topic), partial(peer.matched, topic.name, INSTANT_MS)
            taken = shortest({"ours": call, "theirs": their_call}, runs=3)
            counted = requests.words(requests.count(cluster, call))
            waits = requests.rounds(cluster, call, LATENCY_MS)
        yield Row.absolute(work, taken["ours"].s, "s", limit=limit_s, requests=counted)
        counted = requests.words(requests.count(cluster, their_call))
        peer.close()
        yield Row.compared(
            "…", taken["ours"], "kafka-python", taken["theirs"], limit=0.5, requests=f"theirs: {counted}"
        )
        yield Row.absolute("… rounds", waits, "rounds", limit=_ROUNDS + requests.NOISE)
    requests.set_latency(cluster, 0)
