"""Iceberg's own sink for Kafka Connect, in a worker of its own: it writes a topic's JSON records into an Iceberg table,
with Kafka's topic, partition and offset in each row.

    sink = IcebergSink(broker.bootstrap_servers, "orders", folder)
    # create sink.control_topic
    with sink:
        sink.warehouse, sink.table, sink.group
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pyspark

from dev import jars
from dev.java import java_command
from dev.java_server import JavaServer
from dev.kafka_program import JVM_FLAGS, KAFKA_VERSION
from dev.ports import HOST, free_ports

ICEBERG_VERSION = "1.10.1"
"""The first of its line whose sink is complete in Maven's registry: 1.10.0 lacks the jar with its events."""
_HEAP_MB = 512
_ICEBERG = ("kafka-connect", "kafka-connect-transforms", "parquet")
_UNUSED = "org.(scala-lang|checkerframework):.*"
_NAMESPACE = "db"


class IcebergSink:
    """A worker and its only connector: a context manager.

    :param folder: for its table's warehouse and its files; a new one.
    :param commit_interval_ms: how often it commits its table.
    """

    def __init__(self, bootstrap_servers: str, topic: str, folder: Path, *, commit_interval_ms: int = 2_000) -> None:
        (self._port,) = free_ports(1)
        self._servers, self._topic, self._folder = bootstrap_servers, topic, folder
        self._commit_interval_ms = commit_interval_ms
        self._name = f"sink-{topic}"
        self._worker = JavaServer("Kafka Connect", folder / "connect.log")

    @property
    def group(self) -> str:
        """The consumer group with which it reads the topic."""
        return f"connect-{self._name}"

    @property
    def control_topic(self) -> str:
        """The topic by which its tasks agree on commits; it has to exist before they start."""
        return f"control-{self._topic}"

    @property
    def warehouse(self) -> Path:
        """The folder of its Hadoop catalog."""
        return self._folder / "warehouse"

    @property
    def table(self) -> str:
        """Its table's name in that catalog."""
        return f"{_NAMESPACE}.{self._topic.replace('-', '_')}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()

    def start(self) -> None:
        """Start the worker, or start it again, and wait until its task runs."""
        worker, connector = self._folder / "worker.properties", self._folder / "connector.json"
        worker.write_text("".join(f"{name}={value}\n" for name, value in self._worker_settings()))
        connector.write_text(json.dumps({"name": self._name, "config": dict(self._connector_settings())}))
        program = "org.apache.kafka.connect.cli.ConnectStandalone"
        java = [java_command(), *JVM_FLAGS, f"-Xmx{_HEAP_MB}m", "-cp", _classpath()]
        self._worker.launch([*java, program, str(worker), str(connector)])
        self._worker.wait_until(self._is_running)

    def kill(self) -> None:
        """Kill the worker, like a crash."""
        self._worker.kill()

    def _is_running(self) -> bool:
        address = f"http://{HOST}:{self._port}/connectors/{self._name}/status"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                status = json.load(answer)
        except (OSError, urllib.error.URLError):
            return False
        return [task["state"] for task in status["tasks"]] == ["RUNNING"]

    def _worker_settings(self) -> Iterator[tuple[str, str]]:
        yield "bootstrap.servers", self._servers
        yield "listeners", f"HTTP://{HOST}:{self._port}"
        yield "offset.storage.file.filename", str(self._folder / "offsets")
        yield "plugin.discovery", "only_scan"
        # A worker that is started again waits until the group has given up the one that was killed.
        yield "consumer.session.timeout.ms", "6000"
        yield "consumer.heartbeat.interval.ms", "2000"
        yield "key.converter", "org.apache.kafka.connect.storage.StringConverter"
        yield "value.converter", "org.apache.kafka.connect.json.JsonConverter"
        yield "value.converter.schemas.enable", "false"

    def _connector_settings(self) -> Iterator[tuple[str, str]]:
        yield "connector.class", "org.apache.iceberg.connect.IcebergSinkConnector"
        yield "tasks.max", "1"
        yield "topics", self._topic
        yield "iceberg.catalog.type", "hadoop"
        yield "iceberg.catalog.warehouse", self.warehouse.as_uri()
        yield "iceberg.tables", self.table
        yield "iceberg.tables.auto-create-enabled", "true"
        yield "iceberg.control.topic", self.control_topic
        yield "iceberg.control.commit.interval-ms", str(self._commit_interval_ms)
        yield "iceberg.kafka.bootstrap.servers", self._servers
        # As in the worker's settings, for the consumers of the control topic.
        yield "iceberg.kafka.session.timeout.ms", "6000"
        yield "iceberg.kafka.heartbeat.interval.ms", "2000"
        # What a killed worker's transactions hold up on the control topic, they hold up for so long.
        yield "iceberg.kafka.transaction.timeout.ms", "10000"
        yield "transforms", "place"
        yield "transforms.place.type", "org.apache.iceberg.connect.transforms.KafkaMetadataTransform"


def _classpath() -> str:
    """The worker, the sink, and what is among Spark's jars: Hadoop, and logging."""
    iceberg = [f"org.apache.iceberg:iceberg-{name}:{ICEBERG_VERSION}" for name in _ICEBERG]
    runtime = f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}"
    folder = jars.retrieve("iceberg-connect", runtime, *iceberg, without=_UNUSED)
    own = Path(pyspark.__file__).parent / "jars"
    of_spark = [str(jar) for pattern in ("hadoop-client-*.jar", "log4j-*.jar") for jar in sorted(own.glob(pattern))]
    return ":".join((jars.classpath(folder), *of_spark))
