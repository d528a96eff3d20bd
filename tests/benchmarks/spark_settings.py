"""Each of the fast settings turned off on its own, to see what it adds to the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from airflow_kafka_offsets.spark.kafka.reader import FAST
from tests.benchmarks.clusters import Clusters
from tests.benchmarks.report import Row
from tests.benchmarks.spark_session import EVEN, consume, even, session, stock
from tests.benchmarks.timing import medians

_OLDER_SOURCES = "spark.sql.sources.useV1SourceList"
"""Spark's conf with the sources that it reads through its older interface, version 1. By default, Kafka is one."""
_LARGER = {"kafka.max.partition.fetch.bytes": str(16 * 1024 * 1024)}
"""Larger fetches, which aren't among the fast settings."""


def spark_settings(clusters: Clusters) -> Iterator[Row]:
    """All of them, all but one, and none, in turn."""
    manifest = even(clusters)
    address = clusters.records.bootstrap_servers

    def read(options: Mapping[str, str], *, older_sources: str = "") -> None:
        session().conf.set(_OLDER_SOURCES, older_sources)
        try:
            consume(stock(address, EVEN, **options))
        finally:
            session().conf.unset(_OLDER_SOURCES)

    def without(name: str) -> Mapping[str, str]:
        return {other: each for other, each in FAST.items() if other != name}

    clusters.say("reading them")
    turns = {
        "all": FAST,
        **{f"all but {name}": without(name) for name in FAST},
        "16 MiB a fetch": FAST | _LARGER,
    }
    works = {name: partial(read, options) for name, options in turns.items()}
    works["all but version 2"] = partial(read, FAST, older_sources="kafka")
    works["none"] = partial(read, {}, older_sources="kafka")
    taken = medians(works, clusters.sizes.rounds)
    ours = taken.pop("all")
    work = f"read {manifest.span:,} records with all fast settings"
    for name, each in taken.items():
        yield Row.compared(work, ours, name, each, limit=None)
        work = "…"
