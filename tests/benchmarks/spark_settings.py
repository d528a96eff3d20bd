"""Each of the fast settings turned off alone: what it is worth beside the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial

from airflow_kafka_offsets.spark.pinned import FAST, _version_2
from tests.benchmarks.clusters import Clusters
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import EVEN, consume, even, session, stock
from tests.benchmarks.timing import medians

_LARGER = {"kafka.max.partition.fetch.bytes": str(16 * 1024 * 1024)}
"""Fetches that aren't among them."""


def spark_settings(clusters: Clusters) -> Iterator[Row]:
    """All of them, all but one, and none, in turn."""
    manifest = even(clusters)
    address = clusters.records.bootstrap_servers

    def read(options: Mapping[str, str], *, version_2: bool = True) -> None:
        with _version_2(session()) if version_2 else nullcontext():
            rows = stock(address, EVEN, **options)
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
    taken = medians(works, clusters.sizes.rounds)
    ours = taken.pop("all")
    work = f"read {manifest.span:,} records with all fast settings"
    for name, each in taken.items():
        yield Row.compared(work, ours, name, each, limit=None)
        work = "…"
