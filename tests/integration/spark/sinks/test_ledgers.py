"""Two ledgers of one pipeline name, of two clusters, and one table: it has one ledger, wherever that is moved to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import LedgerConflictError
from airflow_kafka_offsets.spark.published import TABLES
from dev.kafka import Broker, BrokerSettings
from tests.integration.airflow.conftest import FOR_EVER, use_connection
from tests.integration.conftest import MakeTopic, Produce, produce_to
from tests.integration.kafka_clients import connect
from tests.integration.spark.sinks.tasks import Tasks, driver, in_sparks_place, place_of_table, sockets

pytestmark = pytest.mark.nightly("a broker of its own; test_table_owner.py shows that a table has one ledger")

__all__ = ["driver", "in_sparks_place", "sockets"]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Broker]:
    """Another cluster."""
    with Broker(BrokerSettings(name="elsewhere")) as running:
        yield running


@pytest.fixture
def staging(elsewhere: Broker, ours: Tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tasks:
    """The same pipeline, topic and table; cluster and ledger are others."""
    use_connection(monkeypatch, "kafka_elsewhere", {"bootstrap.servers": elsewhere.bootstrap_servers})
    options = {"num_partitions": 1, "replication_factor": 1, "configs": FOR_EVER}
    with closing(connect(KafkaAdminClient, bootstrap_servers=elsewhere.bootstrap_servers)) as admin:
        admin.create_topics({ours.topic: options}, wait_for_metadata=True)
    write = partial(produce_to, elsewhere.bootstrap_servers)
    root = (tmp_path / "staging").as_uri()
    return replace(ours, root=root, produce=write, kafka_conn_id="kafka_elsewhere")


@pytest.fixture
def ours(kind: str, topic: MakeTopic, produce: Produce, spark: SparkSession, tmp_path: Path, driver: None) -> Tasks:
    root, output = (tmp_path / "ours").as_uri(), place_of_table(kind, tmp_path)
    return Tasks(root, topic(config=FOR_EVER), kind, output, produce, spark)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_goes_on_with_a_ledger_that_was_moved_and_refuses_another_one_until_it_is_handed_over(
    ours: Tasks, staging: Tasks, spark: SparkSession, tmp_path: Path
) -> None:
    """Both windows are of the same hour, by the same name."""
    ours.write(*range(10))
    staging.write(*range(3))
    window, theirs = ours.resolve(), staging.resolve()
    assert window["window"] == theirs["window"]
    ours.load(window)
    before = everything(ours)

    refused = staging.load(theirs)
    assert isinstance(refused, LedgerConflictError), refused
    assert f"is a table of ledger {ours.ledger.id} (pipeline loads)" in str(refused)
    assert "copy its whole folder" in str(refused)
    assert staging.publication(theirs) is None
    assert everything(ours) == before
    ours.truth(window)

    shutil.move(tmp_path / "ours", tmp_path / "moved")
    moved = replace(ours, root=(tmp_path / "moved").as_uri(), number=1)
    moved.write(*range(4))
    following = moved.resolve()
    moved.load(following)
    moved.truth(following)
    assert isinstance(staging.load(theirs), LedgerConflictError)

    spark.sql(str(refused).partition("assign the table to this ledger: ")[2].partition(";")[0])
    staging.load(theirs)
    staging.truth(theirs)
    assert isinstance(moved.load(following, run="r-2", reload=True), LedgerConflictError)


def everything(tasks: Tasks) -> tuple[object, ...]:
    """All rows of the table, its properties and its commits."""
    name = f"delta.`{tasks.output}`" if tasks.kind == "delta" else tasks.output
    commits = f"DESCRIBE HISTORY {name}" if tasks.kind == "delta" else f"SELECT * FROM {name}.snapshots"
    table = TABLES[tasks.kind](tasks.output).rows(tasks.spark)
    looks = (table.select("window", "offset"), tasks.spark.sql(f"SHOW TBLPROPERTIES {name}"), tasks.spark.sql(commits))
    return tuple(sorted(map(str, each.collect())) for each in looks)
