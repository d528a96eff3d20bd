"""What may stand between ``read()`` and ``write()``, one by one, on a real broker: docs/guides/spark.md sums it up.

Each row runs on a window whose offsets all have a record, and on one with transactions, of several tasks a partition.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from contextlib import closing

import pytest
from kafka import KafkaProducer
from pyspark.sql import DataFrame, SparkSession, Window, functions as F

from airflow_kafka_offsets.errors import UnprovenError
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from dev.kafka import Broker
from tests.integration.kafka_clients import connect
from tests.integration.spark.conftest import MakeFlights, OpenWindow, flight_records
from tests.integration.spark.functions import keep, stop
from tests.integration.spark.publishing import load
from tests.unit.spark.manifests import manifest_of

TRANSFORMS = [
    ('rows.withColumn("flag", F.col("offset") > 5)', "proved", "proved"),
    ('rows.repartition(3, "key")', "proved", "proved"),
    ("rows.coalesce(1)", "proved", "proved"),
    ('rows.repartition(3, "key").sortWithinPartitions("key")', "proved", "proved"),
    ('rows.join(names, "partition", "left")', "proved", "proved"),
    ('rows.join(F.broadcast(names), "partition")', "proved", "proved"),
    ("rows.mapInArrow(keep, rows.schema)", "proved", "proved"),
    ("rows.cache()", "proved", "proved"),
    ('rows.orderBy("key")', "proved", "not proved"),
    ('rows.repartitionByRange(3, "key")', "proved", "not proved"),
    ("rows.localCheckpoint()", "proved", "proved"),
    ("spark.createDataFrame(rows.rdd, rows.schema)", "proved", "not proved"),
    ('rows.where("offset < 5").union(rows.where("offset >= 5"))', "proved", "proved"),
    ('rows.join(rows.groupBy("partition").count(), "partition")', "proved", "proved"),
    ('rows.where("offset % 2 = 0")', "not proved", "not proved"),
    ("rows.limit(10)", "not proved", "not proved"),
    ('rows.orderBy("offset").limit(10)', "not proved", "not proved"),
    ("rows.offset(3)", "not proved", "not proved"),
    ("rows.sample(0.5, seed=1)", "not proved", "not proved"),
    ('rows.dropDuplicates(["key"])', "not proved", "not proved"),
    ('rows.where("false")', "not proved", "not proved"),
    ('rows.join(nothing, "partition")', "not proved", "not proved"),
    ("rows.mapInArrow(stop, rows.schema)", "not proved", "not proved"),
    ("rows.union(rows)", "not proved", "not proved"),
    ('rows.withColumn("copy", F.explode(F.array(F.lit(1), F.lit(2))))', "not proved", "not proved"),
    ('rows.withColumn("offset", F.col("offset") + 1)', "not proved", "not proved"),
]
"""What is between them; what comes of it if every offset has a record, and if some may be without one. ``names`` and
``nothing`` are DataFrames with the column ``partition``: a row for each partition, and none. ``keep`` is a function
that passes all its batches on, ``stop`` one that ends early."""
IN_A_TRANSACTION, TRANSACTIONS = 7, 6

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def functions_run_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python functions of a query run by this Python, which has PyArrow."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)


def transform_of(expression: str, spark: SparkSession) -> Callable[[DataFrame], DataFrame]:
    names = spark.createDataFrame([(0, "zero"), (1, "one")], "`partition` int, name string")
    known = {
        "spark": spark,
        "F": F,
        "Window": Window,
        "names": names,
        "nothing": names.where("false"),
        "keep": keep,
        "stop": stop,
    }
    return lambda rows: eval(expression, known | {"rows": rows})


@pytest.fixture(scope="module")
def plain(make_flights: MakeFlights) -> Manifest:
    topic = make_flights({0: 40, 1: 30})
    return manifest_of([(topic, 0, 0, 40), (topic, 1, 0, 30)])


@pytest.fixture(scope="module")
def with_gaps(make_flights: MakeFlights, broker: Broker) -> Manifest:
    """A record at all offsets but every eighth one, where a transaction's marker is."""
    topic = make_flights({0: 0, 1: 0})
    name = f"writer-{uuid.uuid4().hex[:8]}"
    with closing(connect(KafkaProducer, bootstrap_servers=broker.bootstrap_servers, transactional_id=name)) as producer:
        producer.init_transactions()
        for _ in range(TRANSACTIONS):
            producer.begin_transaction()
            for timestamp_ms, key, value in flight_records(IN_A_TRANSACTION):
                for partition in (0, 1):
                    producer.send(topic, value, key, partition=partition, timestamp_ms=timestamp_ms)
            producer.commit_transaction()
    end = TRANSACTIONS * (IN_A_TRANSACTION + 1)
    return manifest_of([(topic, 0, 0, end), (topic, 1, 0, end)])


def outcome_of(write: Callable[[], object]) -> str:
    """What came of a write, in the words above."""
    try:
        write()
    except UnprovenError:
        return "not proved"
    return "proved"


def load_in_tasks(window: PinnedWindow, table: str, transform: Callable[[DataFrame], DataFrame]) -> None:
    load(window, table, transform, maxRecordsPerPartition="16")


@pytest.mark.nightly("each of them; test_writing.py has rows that change, test_doc_blocks.py the guides' own")
@pytest.mark.parametrize(
    ("expression", "outcome"), [(each, outcome) for each, outcome, _ in TRANSFORMS], ids=lambda each: each
)
def test_where_every_offset_has_a_record(
    expression: str, outcome: str, spark: SparkSession, open_window: OpenWindow, plain: Manifest, table: str
) -> None:
    """S25."""
    window = open_window(plain)
    assert outcome_of(lambda: load_in_tasks(window, table, transform_of(expression, spark))) == outcome


@pytest.mark.nightly("each of them once more; test_writing.py has windows with gaps")
@pytest.mark.parametrize(
    ("expression", "outcome"), [(each, outcome) for each, _, outcome in TRANSFORMS], ids=lambda each: each
)
def test_where_offsets_may_be_without_one(
    expression: str, outcome: str, spark: SparkSession, open_window: OpenWindow, with_gaps: Manifest, table: str
) -> None:
    """S10, S25."""
    window = open_window(with_gaps, allow_gaps=True)
    assert outcome_of(lambda: load_in_tasks(window, table, transform_of(expression, spark))) == outcome
    assert window.tasks == () or len(window.tasks) == 6, "three tasks a partition"
