"""Each of the fast settings turned off alone: what it is worth beside the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial

from airflow_kafka_offsets.spark.newer_source import newer_source
from airflow_kafka_offsets.spark.pinned import FAST
from tests.benchmarks.clusters import Clusters
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import consume, session, stock, written
from tests.benchmarks.timing import medians

_BATCHES = dict.fromkeys(range(8), 1_786)
_LARGER = {"kafka.max.partition.fetch.bytes": str(16 * 1024 * 1024)}
"""Fetches that aren't among them."""
_ROUNDS = 5


def spark_settings(clusters: Clusters) -> Iterator[Row]:
    """All of them, all but one, and none, in turn."""
    manifest = written(clusters, "settings", _BATCHES)
    address = clusters.records.bootstrap_servers

    def read(options: Mapping[str, str], *, version_2: bool = True) -> None:
        with newer_source(session()) if version_2 else nullcontext():
            rows = stock(address, "settings", **options)
        consume(rows)

    def without(name: str) -> Mapping[str, str]:
        return {other: each for other, each in FAST.items() if other != name}

    clusters.say("reading them")
    turns = {
        "all": FAST,
        **{f"all but {name}": without(name) for name in FAST},
        "16 MiB a fetch": FAST | _LARGER,
    }
    works = {name: partial(read, options) for name, options in turns.items()}
    works["all but version 2"] = partial(read, FAST, version_2=False)
    works["none"] = partial(read, {}, version_2=False)
    seconds = medians(works, _ROUNDS)
    ours = seconds.pop("all")
    work = f"read {manifest.span:,} records with all fast settings"
    for name, each in seconds.items():
        yield Row.ratio(work, ours, name, each, limit=None)
        work = "…"
