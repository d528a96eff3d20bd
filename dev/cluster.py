"""A Kafka cluster on this machine: brokers that replicate to each other, and that tests can kill, hang and restart.

Every broker is also a controller, so any one of the three may fail: the other two are the majority that KRaft needs,
and the minimum number of in-sync replicas for the internal topics and for producers with acks=all.

    with KafkaCluster() as cluster:
        cluster.leader("flights", 0).kill()
        KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from dev import kafka_program, raw_client
from dev.fault_proxy import FaultProxy
from dev.kafka import KAFKA_VERSION, Broker, BrokerSettings, unused_ports
from dev.kafka_properties import new_cluster

SIZE = 3


class KafkaCluster:
    """Three brokers, started and ended together: a context manager.

    A dead broker's partitions and groups move to others within seconds (``_failover`` in :mod:`dev.kafka_properties`).
    A replica that is out of sync doesn't become leader, unless the topic has ``unclean.leader.election.enable=true``.

    :param name: prefix of the names of data folders and log files.
    :param properties: server properties, which add to ours or override them.
    :param proxied: put a fault proxy in front of each broker.
    :param heap_mb: heap of each Java process, MiB.
    """

    def __init__(
        self,
        *,
        name: str = "cluster",
        properties: Mapping[str, str] | None = None,
        proxied: bool = False,
        heap_mb: int = 384,
    ) -> None:
        settings = BrokerSettings(name=name, properties=properties or {}, proxied=proxied, heap_mb=heap_mb)
        nodes = new_cluster([unused_ports() for _ in range(SIZE)])
        self.brokers = [Broker(settings, node) for node in nodes]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers."""
        return ",".join(each.bootstrap_servers for each in self.brokers)

    @property
    def proxied_bootstrap_servers(self) -> str:
        """Addresses of all proxies. Clients that bootstrap from them reach all brokers through proxies.


        :raises LookupError: the cluster was made without proxies.
        """
        return ",".join(each.proxied_bootstrap_servers for each in self.brokers)

    @property
    def proxies(self) -> list[FaultProxy]:
        """The proxy of each of :attr:`brokers`, in the same order.

        :raises LookupError: the cluster was made without proxies.
        """
        return [each.proxy for each in self.brokers]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start all brokers and wait until each knows all others.

        :raises RuntimeError: a broker ended or didn't answer in time; the message has the last lines of its log.
        """
        try:
            with ThreadPoolExecutor(SIZE) as threads:
                list(threads.map(Broker.format, self.brokers))
            for each in self.brokers:
                each.launch()
            self._wait_until_whole()
        except BaseException:
            self.close()
            raise

    def heal(self) -> None:
        """Start dead brokers, resume paused ones, heal all proxies, and wait until each broker knows all others.

        :raises RuntimeError: a broker ended or didn't answer in time; the message has the last lines of its log.
        """
        for each in self.brokers:
            if each.is_running:
                each.resume()
            else:
                each.launch()
            if each.settings.proxied:
                each.proxy.heal()
        self._wait_until_whole()

    def close(self) -> None:
        """End all processes and remove their data. The log files stay."""
        for each in self.brokers:
            each.close()

    def leader(self, topic: str, partition: int) -> Broker:
        """The partition's current leader.

        :raises LookupError: it has none, the topic or partition doesn't exist, or no broker answers.
        """
        leader_id = self._describe(topic, partition).leader_id
        for each in self.brokers:
            if each.node_id == leader_id:
                return each
        raise LookupError(f"no broker leads {topic}:{partition}")

    def in_sync(self, topic: str, partition: int) -> set[int]:
        """Node ids of a partition's replicas that are in sync now.

        :raises LookupError: the topic or partition doesn't exist, or no broker answers.
        """
        return set(self._describe(topic, partition).isr_nodes)

    def run_tool(self, class_name: str, *arguments: str) -> str:
        """The output of one of Kafka's tools for this cluster; see :meth:`dev.kafka.Broker.run_tool`."""
        address = ("--bootstrap-server", self.bootstrap_servers)
        return kafka_program.run_tool(KAFKA_VERSION, class_name, *address, *arguments)

    def _wait_until_whole(self) -> None:
        for each in self.brokers:
            each.wait_until_ready(cluster_size=SIZE)

    def _describe(self, topic: str, partition: int) -> Any:
        """A partition's metadata, from the first broker that answers and knows it. Others may be dead, hang, or not
        know a new topic yet."""
        for each in self.brokers:
            with contextlib.suppress(OSError, EOFError, LookupError):
                (found,) = raw_client.metadata(each.bootstrap_servers, [topic]).topics
                return _partition(found, partition)
        raise LookupError(f"no broker of the cluster answers and knows {topic}:{partition}")


def _partition(topic: Any, number: int) -> Any:
    for each in topic.partitions:
        if each.partition_index == number:
            return each
    raise LookupError(f"there is no partition {topic.name}:{number}")
