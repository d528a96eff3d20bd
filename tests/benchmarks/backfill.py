"""A backfill: all boundaries of 720 hourly windows on 1,000 partitions, each with one record per hour.

First, the client's part alone, one survey and the look-ups of 721 instants, is compared with a peer's. Then everything
is measured, including storing snapshots and windows in a ledger on this machine's disk.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from airflow.sdk import ObjectStoragePath
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.answers.listed_offsets import ListOutcome
from airflow_kafka_offsets.offsets.specs import IsolationLevel
from airflow_kafka_offsets.pipelines.resolver import Resolver
from dev import raw_client
from tests.benchmarks import requests
from tests.benchmarks.clusters import HOUR_MS, INSTANT_MS, LATENCY_MS, Clusters, Topic, client, create, wait_for_leaders
from tests.benchmarks.peers import KafkaPython
from tests.benchmarks.report import Row
from tests.benchmarks.timing import timed

HOURS = Topic("hours", 1_000)
INSTANTS = [INSTANT_MS + hour * HOUR_MS for hour in range(721)]
_EVERY = 90
SAMPLE = INSTANTS[::_EVERY]
"""The instants that the peer looks up: all of them would take it minutes."""

_DENSE_INDEX = {"index.interval.bytes": "64", "segment.index.bytes": "16384"}
"""An index entry for each hour, as if an hour had over 4 KiB. Otherwise a look-up reads two days of tiny batches."""
_TOGETHER = 48
"""How many instants are in one call."""
_LIMIT_S = 45.0
_CPU_S = 10.0
_WHOLE_LIMIT_S = 60.0
_PRODUCE_VERSION = 9
_TIMEOUT_S = 60


def backfill(clusters: Clusters) -> Iterator[Row]:
    """All instants with our client, and a sample with theirs, one after another, because it can't do more at once."""
    broker = clusters.proxied
    clusters.say(f"writing {len(INSTANTS) - 1} records into each of {HOURS.partitions:,} partitions")
    create(broker.bootstrap_servers, HOURS, _DENSE_INDEX)
    wait_for_leaders(broker.bootstrap_servers, [HOURS])
    write_hourly(broker.bootstrap_servers, HOURS, INSTANTS)
    broker.proxy.latency(LATENCY_MS)
    work = f"survey and {len(INSTANTS)} instants on {HOURS.partitions:,} partitions, {LATENCY_MS:.0f} ms away each way"
    peer = KafkaPython(broker.proxied_bootstrap_servers)
    with client(broker.proxied_bootstrap_servers) as ours:
        matched(ours, HOURS, SAMPLE)
        broker.proxy.reset_counts()
        before_s = time.process_time()
        found, ours_s = timed(lambda: matched(ours, HOURS, INSTANTS))
        cpu_s = time.process_time() - before_s
        counted = requests.words(broker.proxy.requests)
        sampled = matched(ours, HOURS, SAMPLE)
        windows, whole_s = timed(lambda: _resolved(ours))
    yield Row.absolute(work, ours_s, "s", limit=_LIMIT_S, requests=counted)
    yield Row.absolute("… CPU of the client", cpu_s, "s", limit=_CPU_S, requests="the rest is the broker's")
    yield Row.absolute(f"resolve and store {windows} windows of them", whole_s, "s", limit=_WHOLE_LIMIT_S)
    theirs, theirs_s = timed(lambda: [peer.matched(HOURS.name, each) for each in SAMPLE])
    peer.close()
    broker.proxy.latency(0)
    if not theirs == sampled == found[::_EVERY]:
        raise AssertionError(f"they match {theirs}, and we {sampled}")
    remark = f"theirs: judging by {len(SAMPLE)} instants"
    all_theirs_s = theirs_s * len(INSTANTS) / len(SAMPLE)
    yield Row.ratio("…", ours_s, "kafka-python, a snapshot an instant", all_theirs_s, limit=0.5, requests=remark)


def _resolved(ours: OffsetsClient) -> int:
    """Resolve windows into a new ledger, by one commit. Returns their number."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(ObjectStoragePath(Path(folder).as_uri()), "hours")
        resolver = Resolver(ours, ledger, [HOURS.name], IsolationLevel.READ_COMMITTED)
        return len(resolver.windows(list(pairwise(INSTANTS))))


def matched(ours: OffsetsClient, topic: Topic, instants: Sequence[int]) -> list[int]:
    """For each instant, the number of partitions with a record at or after it."""
    survey = ours.survey([topic.name])
    survey.extents.raise_for_errors()
    counts = []
    for start in range(0, len(instants), _TOGETHER):
        for listed in ours.look_up(survey, instants[start : start + _TOGETHER]).values():
            counts.append(len(listed.raise_for_errors().with_outcome(ListOutcome.FOUND)))
    return counts


def write_hourly(address: str, topic: Topic, instants: Sequence[int]) -> None:
    """Write a record half an hour after each instant except the last, in its own batch, with a request per hour."""
    topic_class = ProduceRequest.TopicProduceData
    with raw_client.connected(address, timeout_s=_TIMEOUT_S) as connection:
        for instant in instants[:-1]:
            batch = _batch(instant + HOUR_MS // 2)
            pieces = [topic_class.PartitionProduceData(index=each, records=batch) for each in topic.with_records()]
            data = [topic_class(name=topic.name, partition_data=pieces)]
            request = ProduceRequest(acks=1, timeout_ms=_TIMEOUT_S * 1000, topic_data=data)
            raw_client.send(connection, request, _PRODUCE_VERSION)
            raw_client.receive(connection, ProduceResponse, _PRODUCE_VERSION)


def _batch(timestamp_ms: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 10)
    builder.append(0, timestamp_ms, None, b"record", [])
    return bytes(builder.build())
