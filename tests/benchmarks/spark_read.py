"""Reading with Spark: a large window compared with Spark's connector and Kafka's own consumer, what counting it costs
where offsets may be without a record, and a window in which one partition has nine tenths of the records."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from airflow_kafka_offsets.spark.window.counts import observed_sums
from dev import jars
from dev.java import java_command
from dev.kafka import KAFKA_VERSION
from tests.benchmarks.clusters import Clusters
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import EVEN, consume, even, opened, stock, written
from tests.benchmarks.timing import medians


def spark_read(clusters: Clusters) -> Iterator[Row]:
    """Ours with and without the count, Spark's, and Kafka's, in turn."""
    manifest = even(clusters)
    address = clusters.records.bootstrap_servers
    window, counted = opened(clusters, manifest), opened(clusters, manifest, allow_gaps=True)
    clusters.say("reading them")
    taken = medians(
        {
            "ours": lambda: consume(window.read()),
            "counted": lambda: consume(counted.read()),
            "stock": lambda: consume(stock(address, EVEN)),
            "kafka": lambda: consumer_perf_test(address, EVEN, manifest.span),
        },
        clusters.sizes.rounds,
    )
    sums = observed_sums(counted.observation())
    if sums.get("count") != manifest.span:
        raise AssertionError(f"{sums} of {manifest.span} records were read")
    work = f"pinned read, {manifest.span:,} records, 8 partitions, 2 cores"
    yield Row.compared(work, taken["ours"], "Spark's connector, its defaults", taken["stock"], limit=0.5)
    yield Row.compared("…", taken["ours"], "consumer-perf-test, fetching alone", taken["kafka"], limit=1.82)
    yield Row.compared("… counted, gaps allowed", taken["counted"], "ours, not counted", taken["ours"], limit=None)


def spark_hot_partition(clusters: Clusters) -> Iterator[Row]:
    """Ours with and without splitting, and Spark's."""
    tenth = clusters.sizes.records // 10
    manifest = written(clusters, "hot", {0: 9 * tenth} | dict.fromkeys(range(1, 12), tenth // 11))
    window = opened(clusters, manifest)
    clusters.say("reading them")
    taken = medians(
        {
            "ours": lambda: consume(window.read()),
            "whole": lambda: consume(window.read(minPartitions="1")),
            "stock": lambda: consume(stock(clusters.records.bootstrap_servers, "hot")),
        },
        clusters.sizes.rounds,
    )
    work = f"pinned read, 12 partitions, 90 % of {manifest.span:,} records in one"
    tasks = f"{len(window.plan().tasks)} tasks"
    peer = "Spark's connector, its defaults"
    yield Row.compared(work, taken["ours"], peer, taken["stock"], limit=0.63, requests=tasks)
    yield Row.compared("…", taken["ours"], "ours, not split", taken["whole"], limit=None)


def consumer_perf_test(address: str, topic: str, records: int) -> float:
    """Seconds that Kafka's own consumer took to fetch records, without starting and joining a group."""
    program = "org.apache.kafka.tools.ConsumerPerformance"
    command = [java_command(), "-Xmx512m", "-cp", jars.classpath(jars.JARS / f"kafka-{KAFKA_VERSION}"), program]
    command += ["--bootstrap-server", address, "--topic", topic, "--num-records", str(records)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    names, figures = ([each.strip() for each in line.split(",")] for line in answer.stdout.splitlines()[-2:])
    measured = dict(zip(names, figures, strict=True))
    if int(measured["data.consumed.in.nMsg"]) < records:
        raise AssertionError(f"consumer-perf-test read {measured}")
    return int(measured["fetch.time.ms"]) / 1000
