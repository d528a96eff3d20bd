"""Reading with Spark: a window of four million records beside the stock connector and Kafka's own consumer, what the
audit costs, and a window of which one partition has nine tenths."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from dev import jars
from dev.java import java_command
from dev.kafka import KAFKA_VERSION
from tests.benchmarks.clusters import Clusters
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import consume, opened, stock, uncounted, written
from tests.benchmarks.timing import medians

_EVEN = dict.fromkeys(range(8), 3_572)
_HOT = {0: 25_715} | dict.fromkeys(range(1, 12), 260)
"""Batches by partition: four million records each."""
_ROUNDS = 9


def spark_read(clusters: Clusters) -> Iterator[Row]:
    """Ours with and without audit, Spark's, and Kafka's, in turn."""
    manifest = written(clusters, "even", _EVEN)
    address = clusters.records.bootstrap_servers
    window = opened(clusters, manifest)
    clusters.say("reading them")
    seconds = medians(
        {
            "ours": lambda: consume(window.read()),
            "uncounted": lambda: consume(uncounted(window)),
            "stock": lambda: consume(stock(address, "even")),
            "kafka": lambda: consumer_perf_test(address, "even", manifest.span),
        },
        _ROUNDS,
    )
    if window.audit.count != manifest.span:
        raise AssertionError(f"{window.audit.count} of {manifest.span} records were read")
    work = f"pinned read, {manifest.span:,} records, 8 partitions, 2 cores"
    yield Row.ratio(work, seconds["uncounted"], "Spark's connector", seconds["stock"], limit=1 / 2.0)
    fetching = "consumer-perf-test, fetching alone"
    yield Row.ratio("…", seconds["uncounted"], fetching, seconds["kafka"], limit=1 / 0.55)
    yield Row.ratio("… with audit", seconds["ours"], "without audit", seconds["uncounted"], limit=1.05)
    yield Row.ratio("…", seconds["ours"], "Spark's connector", seconds["stock"], limit=None)


def spark_hot_partition(clusters: Clusters) -> Iterator[Row]:
    """Ours with and without the split, and Spark's."""
    manifest = written(clusters, "hot", _HOT)
    window = opened(clusters, manifest)
    clusters.say("reading them")
    seconds = medians(
        {
            "ours": lambda: consume(window.read()),
            "whole": lambda: consume(window.read(minPartitions="1")),
            "stock": lambda: consume(stock(clusters.records.bootstrap_servers, "hot")),
        },
        _ROUNDS,
    )
    work = f"pinned read, 12 partitions, 90 % of {manifest.span:,} records in one"
    tasks = f"{len(window.plan().tasks)} tasks"
    yield Row.ratio(work, seconds["ours"], "Spark's connector", seconds["stock"], limit=1 / 1.6, requests=tasks)
    yield Row.ratio("…", seconds["ours"], "ours, not split", seconds["whole"], limit=None)


def consumer_perf_test(address: str, topic: str, records: int) -> float:
    """Seconds that Kafka's own consumer took to fetch records, its start and joining a group not counted."""
    program = "org.apache.kafka.tools.ConsumerPerformance"
    command = [java_command(), "-Xmx512m", "-cp", jars.classpath(jars.JARS / f"kafka-{KAFKA_VERSION}"), program]
    command += ["--bootstrap-server", address, "--topic", topic, "--num-records", str(records)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    names, figures = ([each.strip() for each in line.split(",")] for line in answer.stdout.splitlines()[-2:])
    measured = dict(zip(names, figures, strict=True))
    if int(measured["data.consumed.in.nMsg"]) < records:
        raise AssertionError(f"consumer-perf-test read {measured}")
    return int(measured["fetch.time.ms"]) / 1000
