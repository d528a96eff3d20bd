"""Jobs that derive other rows from flights: what they make, counted from the records, and where it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, functions as F

from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import DeltaSink, Derived, FileSink, IcebergSink, Sink
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from tests.integration.spark.conftest import flight_records
from tests.integration.spark.publishing import publish

HIGH_M = 100
"""Flights above this are dead letters here."""
ALTITUDE = "cast(get_json_object(cast(value AS string), '$.altitude_m') AS int)"
MakeSink = Callable[[str], Sink]


def per_key(records: DataFrame) -> DataFrame:
    """Flights and their highest altitude by key, of those that aren't too high."""
    low = records.withColumn("altitude_m", F.expr(ALTITUDE)).where(F.col("altitude_m") <= HIGH_M)
    return low.groupBy(F.col("key").cast("string").alias("key")).agg(
        F.count("*").alias("flights"), F.max("altitude_m").alias("highest_m")
    )


def too_high(records: DataFrame) -> DataFrame:
    return records.where(f"{ALTITUDE} > {HIGH_M}").select("topic", "partition", "offset", "value")


def expected(manifest: Manifest) -> dict[str, tuple[int, int]]:
    """What :func:`per_key` makes, counted from the records themselves."""
    flights: Counter[str] = Counter()
    highest: dict[str, int] = {}
    for each in manifest.ranges:
        for number, (_, key, _) in list(enumerate(flight_records(each.end_offset)))[each.start_offset :]:
            if number <= HIGH_M and key is not None:
                flights[key.decode()] += 1
                highest[key.decode()] = max(number, highest.get(key.decode(), 0))
    return {key: (count, highest[key]) for key, count in flights.items()}


def rows_of(found: DataFrame) -> dict[str, tuple[int, int]]:
    rows = found.collect()
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: (row["flights"], row["highest_m"]) for row in rows}


_TABLES = pytest.mark.nightly("each job once more, to a table; sinks/test_every_sink.py writes tables")


@pytest.fixture(params=["parquet", pytest.param("delta", marks=_TABLES)])
def make_sink(request: pytest.FixtureRequest, tmp_path: Path) -> MakeSink:
    """Sinks of one kind."""

    def make(name: str) -> Sink:
        uri = f"file://{tmp_path}/{name}"
        if request.param == "iceberg":
            return IcebergSink(f"lake.flights.{name}_{sha256(uri.encode()).hexdigest()[:8]}")
        return DeltaSink(uri) if request.param == "delta" else FileSink(uri)

    return make


def derive(window: PinnedWindow, sink: Sink, dead: Sink) -> RunResult:
    """Both outputs, published."""
    result = window.write_derived(per_key, sink, too_high=Derived(too_high, dead))
    publish(window, result)
    return result
