"""One Spark session with the real Kafka connector, and windows of one real broker, for all tests of this folder."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from py4j.java_gateway import JavaPackage, JVMView
from pyspark.sql import SparkSession

from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.partitions import LogRange
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.session.conf import GIVEN_BACK, RunConf
from dev.kafka import Broker
from dev.spark_packages import jars_of
from tests.integration.conftest import Produce, Record
from tests.integration.kafka_clients import connect
from tests.unit.spark import ledgers
from tests.unit.spark.manifests import CLUSTER_ID, FIVE_MS, manifest_of

RECORDS = {0: 100, 1: 0, 2: 250}
"""Records by partition of the topic that most tests read; partition 1 is empty."""

MakeFlights = Callable[..., str]
OpenWindow = Callable[..., PinnedWindow]
Pin = Callable[..., RunConf]


@pytest.fixture(scope="session")
def connector() -> str:
    """The connector's jars, as ``--jars`` takes them."""
    return jars_of("connector")


@pytest.fixture(scope="session")
def table_jars() -> str:
    """The jars of Delta Lake, Iceberg and PostgreSQL's driver, as ``--jars`` takes them."""
    return jars_of("tables")


@pytest.fixture(scope="session")
def avro_jar() -> str:
    """Spark's Avro functions, as ``--jars`` takes them."""
    return jars_of("avro")


def table_confs(warehouse: Path) -> dict[str, str]:
    """What a session needs for tables of Delta Lake, and for those of Iceberg in a catalog ``lake``."""
    delta, iceberg = "org.apache.spark.sql.delta.catalog.DeltaCatalog", "org.apache.iceberg.spark"
    return {
        "spark.sql.extensions": f"io.delta.sql.DeltaSparkSessionExtension,{iceberg}.extensions."
        "IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": delta,
        "spark.sql.catalog.lake": f"{iceberg}.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": f"file://{warehouse}",
        # Delta reads its log with 50 tasks by default, and the tables here are small.
        "spark.databricks.delta.snapshotPartitions": "1",
    }


SMALL = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # Compiling a query takes a third of the CPU, for a handful of rows. It is compiled on clusters and by spark-submit.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    **GIVEN_BACK,
}
"""What a session of few rows needs."""


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session's catalogs keep their tables."""
    return tmp_path_factory.mktemp("warehouse")


def _ask_java_once(kind: type[JVMView | JavaPackage]) -> None:
    """Keep what a name in Java stands for: Java looks for each of its parts, under six packages, in 300 jars."""
    ask = kind.__getattr__

    def look_up(self: JVMView | JavaPackage, name: str) -> Any:
        self.__dict__[name] = ask(self, name)
        return self.__dict__[name]

    kind.__getattr__ = look_up  # type: ignore[method-assign]


for kind in (JVMView, JavaPackage):
    _ask_java_once(kind)


def make_session(found: str, warehouse: Path) -> SparkSession:
    """This process's session.

    :param found: jars.
    :param warehouse: where its catalogs keep their tables.
    """
    builder = SparkSession.builder.master("local[2]").appName("tests").config("spark.jars", found).config(map=SMALL)
    builder = builder.config(map=table_confs(warehouse)).config("spark.sql.warehouse.dir", f"file://{warehouse}/named")
    return builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "ERROR").getOrCreate()


@pytest.fixture(scope="session")
def spark(connector: str, table_jars: str, avro_jar: str, warehouse: Path) -> Iterator[SparkSession]:
    session = make_session(",".join((connector, table_jars, avro_jar)), warehouse)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def make_flights(admin: KafkaAdminClient, produce: Produce) -> MakeFlights:
    """Make a topic with that many records in each partition, one a second from 05:00 on."""

    def make(records: Mapping[int, int], **config: str) -> str:
        name = f"flights-{uuid.uuid4().hex[:8]}"
        options = {"num_partitions": len(records), "replication_factor": 1, "configs": config}
        admin.create_topics({name: options}, wait_for_metadata=True)
        for partition, count in records.items():
            produce(name, partition, flight_records(count))
        return name

    return make


def flight_records(count: int) -> list[Record]:
    """Records with seven keys, and a JSON value that tells the record's number."""
    return [
        (FIVE_MS + number * 1000, b"%d" % (number % 7), b'{"icao24": "3c%04x", "altitude_m": %d}' % (number, number))
        for number in range(count)
    ]


@pytest.fixture(scope="session")
def flights(make_flights: MakeFlights) -> str:
    """The topic that most tests read."""
    return make_flights(RECORDS)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """The pipeline's folder in the ledger."""
    return tmp_path / "ledger" / "flights"


@pytest.fixture
def table(tmp_path: Path) -> str:
    """URI of the output."""
    return f"file://{tmp_path}/table"


@pytest.fixture
def ledger_uri(ledger: Path) -> str:
    return ledger.as_uri()


@pytest.fixture
def our_ledger(ledger: Path) -> Ledger:
    """The same as an object."""
    return ledgers.ledger_in(ledger)


@pytest.fixture(scope="session")
def cluster_id(broker: Broker) -> str:
    """The id of the broker's cluster."""
    return broker.node.cluster_id


@pytest.fixture
def pin(our_ledger: Ledger, broker: Broker, cluster_id: str) -> Pin:
    """Pin a manifest's window in the ledger, and begin an attempt at it; what its driver is told."""

    def store(
        manifest: Manifest,
        attempt: int | None = None,
        *,
        allow_gaps: bool = False,
        lost: Collection[LogRange] = (),
        again: bool = False,
    ) -> RunConf:
        """:param attempt: one that has begun, for another driver of it.
        :param again: the window is loaded, and is to be loaded again.
        """
        if manifest.cluster_id == CLUSTER_ID:
            manifest = replace(manifest, cluster_id=cluster_id)
        window = ledgers.pin(our_ledger, manifest)
        if again:
            ledgers.reload(our_ledger, window.name)
        pinned, kafka = our_ledger.pinned(window), {"kafka.bootstrap.servers": broker.bootstrap_servers}
        number = attempt or ledgers.begin(our_ledger, window, lost)
        return RunConf(pinned.uri, pinned.sha256, number, kafka, our_ledger.state.number, allow_gaps)

    return store


@pytest.fixture
def open_window(spark: SparkSession, pin: Pin) -> OpenWindow:
    """Open a pinned window for a new attempt, or another driver of one: arguments as for ``pin``."""

    def open_(manifest: Manifest, attempt: int | None = None, **how: Any) -> PinnedWindow:
        return PinnedWindow.open(spark, pin(manifest, attempt, **how))

    return open_


@pytest.fixture
def manifest(flights: str, cluster_id: str) -> Manifest:
    """All of partition 0 but ten records at each end, nothing of partition 1, the first half of partition 2."""
    made = manifest_of([(flights, 0, 10, 90), (flights, 1, 0, 0), (flights, 2, 0, 125)])
    return replace(made, cluster_id=cluster_id)


@pytest.fixture
def empty_manifest(manifest: Manifest) -> Manifest:
    return replace(manifest, ranges=tuple(replace(each, end_offset=each.start_offset) for each in manifest.ranges))


@pytest.fixture(scope="session")
def transactional(make_flights: MakeFlights, broker: Broker) -> str:
    """A topic: offsets 0 to 9 are committed records, 10 a marker, 11 to 15 aborted records, 16 a marker."""
    return write_transactions(broker, make_flights({0: 0}), committed=10, aborted=5)


@pytest.fixture(scope="session")
def sparse(make_flights: MakeFlights, broker: Broker) -> Manifest:
    """More offsets without a record than with one: a committed record, its marker, three aborted ones and theirs, and
    so on, 8 times; the window ends with a marker, where the log ends too."""
    topic = write_transactions(broker, make_flights({0: 0}), committed=1, aborted=3, rounds=8)
    return manifest_of([(topic, 0, 0, 48)])


def write_transactions(broker: Broker, topic: str, committed: int, aborted: int, rounds: int = 1) -> str:
    with closing(
        connect(KafkaProducer, bootstrap_servers=broker.bootstrap_servers, transactional_id=topic)
    ) as producer:
        producer.init_transactions()
        for count, end in ((committed, producer.commit_transaction), (aborted, producer.abort_transaction)) * rounds:
            producer.begin_transaction()
            for timestamp_ms, key, value in flight_records(count):
                producer.send(topic, value, key, partition=0, timestamp_ms=timestamp_ms)
            producer.flush()
            end()
    return topic


def delete_before(broker: Broker, folder: Path, topic: str, offset: int) -> None:
    """Delete what partition 0 of a topic has before an offset.

    :param folder: for the tool's request.
    """
    request = folder / "delete.json"
    request.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": offset}], "version": 1}))
    broker.run_tool("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(request))
