"""An old Kafka: a broker that keeps its metadata in ZooKeeper, as was possible up to 3.9, and its ZooKeeper.

It still supports what Kafka 4 dropped (KIP-896): ListOffsets v0, whose answer is a list of segment offsets, and
OffsetFetch and OffsetCommit v0, whose offsets are stored in ZooKeeper, not in the offsets topic.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from dev import LOCAL, kafka_program
from dev.java_server import JavaServer
from dev.ports import HOST, free_ports
from dev.raw_client import live_brokers

KAFKA_VERSION = "3.9.1"
BROKER_ID = 1
ZOOKEEPER_HEAP_MB = 128
BROKER_HEAP_MB = 384


class ZooKeeperBroker:
    """A broker and its ZooKeeper: a context manager, or :meth:`start` and :meth:`close`.

    :param name: prefix of the names of its data folder and log files.
    :param version: of Kafka.
    :param properties: server properties of the broker, which add to ours or override them.
    """

    def __init__(
        self, *, name: str = "zookeeper", version: str = KAFKA_VERSION, properties: Mapping[str, str] | None = None
    ) -> None:
        self._version = version
        self._port, self._zookeeper_port = free_ports(2)
        place = LOCAL / "kafka" / f"{name}-{self._port}"
        self.data_folder = place
        self.log_file = place.with_name(f"{place.name}.log")
        self._properties = {**self._own_properties(), **(properties or {})}
        self._broker = JavaServer("Kafka", self.log_file)
        self._zookeeper = JavaServer("ZooKeeper", place.with_name(f"{place.name}-zookeeper.log"))

    @property
    def bootstrap_servers(self) -> str:
        """Address of the broker's only listener."""
        return f"{HOST}:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start both and wait until the broker serves clients. Data from an earlier start of this object is kept.

        :raises RuntimeError: one of them ended or didn't answer in time; the message has the last lines of its log.
        """
        atexit.register(self.close)
        try:
            self.data_folder.mkdir(parents=True, exist_ok=True)
            self._start_zookeeper()
            self._start_broker()
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Stop both gracefully, the broker first. The data stays for the next start."""
        self._broker.stop()
        self._zookeeper.stop()

    def close(self) -> None:
        """Kill both processes and remove their data. The log files stay."""
        self._broker.kill()
        self._zookeeper.kill()
        shutil.rmtree(self.data_folder, ignore_errors=True)
        atexit.unregister(self.close)

    def run_tool(self, class_name: str, *arguments: str) -> str:
        """The output of one of its own tools for this broker; see :meth:`dev.kafka.Broker.run_tool`."""
        address = ("--bootstrap-server", self.bootstrap_servers)
        return kafka_program.run_tool(self._version, class_name, *address, *arguments)

    def _start_zookeeper(self) -> None:
        properties = {
            "dataDir": str(self.data_folder / "zookeeper"),
            "clientPort": str(self._zookeeper_port),
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
        }
        file = self._write("zookeeper.properties", properties)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._zookeeper.launch(kafka_program.server_command(self._version, main, str(file), heap_mb=ZOOKEEPER_HEAP_MB))
        self._zookeeper.wait_until(lambda: _listens(self._zookeeper_port))

    def _start_broker(self) -> None:
        file = self._write("server.properties", self._properties)
        self._broker.launch(
            kafka_program.server_command(self._version, "kafka.Kafka", str(file), heap_mb=BROKER_HEAP_MB)
        )
        self._broker.wait_until(lambda: BROKER_ID in live_brokers(self.bootstrap_servers))

    def _own_properties(self) -> dict[str, str]:
        return {
            "broker.id": str(BROKER_ID),
            "zookeeper.connect": f"{HOST}:{self._zookeeper_port}",
            "listeners": f"PLAINTEXT://{HOST}:{self._port}",
            "log.dirs": str(self.data_folder / "log"),
            "log.retention.ms": "-1",
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }

    def _write(self, name: str, properties: Mapping[str, str]) -> Path:
        file = self.data_folder / name
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return file


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection((HOST, port), timeout=1).close()
        return True
    return False
