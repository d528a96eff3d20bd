"""A real Kafka broker on this machine: one Java process that is both broker and KRaft controller.

It listens on free ports of 127.0.0.1 and keeps its log segments and its log file in ``.local/kafka``. It ends when the
``with`` block or this process ends; on Linux even if this process is killed.

    with Broker() as broker:
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

Its server properties are in :mod:`dev.kafka_properties`; clusters of several brokers are in :mod:`dev.cluster`.
"""

from __future__ import annotations

import atexit
import dataclasses
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from dev import LOCAL, kafka_program, raw_client
from dev.certificates import Certificates, make_certificates
from dev.fault_proxy import FaultProxy
from dev.java_server import JavaServer
from dev.kafka_program import KAFKA_VERSION, ToolError
from dev.kafka_properties import Node, Ports, Security, format_arguments, new_cluster, server_properties
from dev.ports import HOST, free_ports

__all__ = ["KAFKA_VERSION", "Broker", "BrokerSettings", "ToolError"]


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """How to run one broker.

    :param name: prefix of the names of its data folder and log file.
    :param properties: server properties, which add to ours or override them.
    :param users: password by user name. If there are any, there is a second listener, SASL_PLAINTEXT with SCRAM-SHA-512
        and PLAIN, and ACLs are enforced: ``admin``, and everybody on the first listener, may do everything.
    :param tls: add a listener SSL, which requires client certificates, and if there are users, SASL_SSL. ACLs are
        enforced; the principal of the certificate in :attr:`Broker.certificates` is ``User:client``.
    :param allow_everyone_if_no_acl_found: if ACLs are enforced, a resource without ACLs is open to all.
    :param proxied: add a listener that is reached through a :class:`dev.fault_proxy.FaultProxy`.
    :param heap_mb: heap of the Java process, MiB.
    :param keep_data: keep the data folder after the end.
    """

    name: str = "broker"
    properties: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)
    tls: bool = False
    allow_everyone_if_no_acl_found: bool = True
    proxied: bool = False
    heap_mb: int = 512
    keep_data: bool = False


class Broker:
    """One broker: a context manager, or :meth:`start` and :meth:`close`.

    Ports are chosen when the object is created, and don't change. On Linux the process is bound to the thread that
    called :meth:`start`: start it from a thread that lives as long as the broker is needed.

    :param node: its place in a cluster; None for a cluster of one broker.
    """

    def __init__(self, settings: BrokerSettings | None = None, node: Node | None = None) -> None:
        self.settings = settings or BrokerSettings()
        self.node = node or new_cluster([unused_ports()])[0]
        place = LOCAL / "kafka" / f"{self.settings.name}-{self.node.ports.client}"
        self.data_folder = place
        self.log_file = place.with_name(f"{place.name}.log")
        self._server = JavaServer("Kafka", self.log_file)
        self._proxy = FaultProxy(self.node.ports.proxy, self.node.ports.proxied)

    @property
    def node_id(self) -> int:
        return self.node.node_id

    @property
    def is_running(self) -> bool:
        """Whether the process exists. It may be paused, or not ready yet."""
        return self._server.is_running

    @property
    def bootstrap_servers(self) -> str:
        """Address of the plain listener."""
        return f"{HOST}:{self.node.ports.client}"

    @property
    def sasl_bootstrap_servers(self) -> str:
        """Address of the SASL_PLAINTEXT listener.

        :raises LookupError: the broker was made without users, so there is none.
        """
        self._require_users("SASL")
        return f"{HOST}:{self.node.ports.sasl}"

    @property
    def sasl_ssl_bootstrap_servers(self) -> str:
        """Address of the SASL_SSL listener.

        :raises LookupError: the broker was made without users or without TLS, so there is none.
        """
        self._require_users("SASL_SSL")
        self._require_tls("SASL_SSL listener")
        return f"{HOST}:{self.node.ports.sasl_ssl}"

    @property
    def ssl_bootstrap_servers(self) -> str:
        """Address of the SSL listener, which requires a client certificate.

        :raises LookupError: the broker was made without TLS, so there is none.
        """
        self._require_tls("SSL listener")
        return f"{HOST}:{self.node.ports.ssl}"

    @property
    def proxied_bootstrap_servers(self) -> str:
        """Address of :attr:`proxy`. Clients that bootstrap from it always reach this broker through the proxy.

        :raises LookupError: the broker was made without a proxy.
        """
        return self.proxy.address

    @property
    def proxy(self) -> FaultProxy:
        """The proxy in front of the broker. It runs from :meth:`start` to :meth:`close`, even while the broker is down.

        :raises LookupError: the broker was made without a proxy.
        """
        if not self.settings.proxied:
            raise LookupError("this broker has no proxy: give BrokerSettings proxied=True")
        return self._proxy

    @property
    def certificates(self) -> Certificates:
        """The certificates for clients. The files exist from :meth:`start` to :meth:`close`.

        :raises LookupError: the broker was made without TLS, so there are none.
        """
        self._require_tls("certificates")
        return Certificates.in_folder(self.data_folder / "certificates")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start and wait until the broker serves clients. Data from an earlier start of this object is kept.

        :raises RuntimeError: it ended or didn't answer in time; the message has the last lines of its log.
        """
        try:
            self.format()
            self.launch()
            self.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def format(self) -> None:
        """Create and format the data folder, unless an earlier start did."""
        if self._properties_file.exists():
            return
        shutil.rmtree(self.data_folder, ignore_errors=True)
        self.data_folder.mkdir(parents=True)
        self.log_file.unlink(missing_ok=True)
        try:
            self._write_properties()
            arguments = format_arguments(self._properties_file, self.node.cluster_id, self.settings.users)
            kafka_program.run_tool(KAFKA_VERSION, "kafka.tools.StorageTool", *arguments)
        except BaseException:
            self._properties_file.unlink(missing_ok=True)
            raise

    def launch(self) -> None:
        """Start the process with a formatted folder, and return at once."""
        atexit.register(self.close)
        if self.settings.proxied:
            self._proxy.start()
        properties, heap_mb = str(self._properties_file), self.settings.heap_mb
        self._server.launch(kafka_program.server_command(KAFKA_VERSION, "kafka.Kafka", properties, heap_mb=heap_mb))

    def wait_until_ready(self, cluster_size: int = 1) -> None:
        """Wait until this broker reports this many live brokers, including itself.

        :raises RuntimeError: it ended or didn't answer in time; the message has the last lines of its log.
        """
        self._server.wait_until(lambda: self.node_id in (live := self.live_brokers()) and len(live) >= cluster_size)

    def live_brokers(self) -> set[int]:
        """Node ids of the brokers that are up, according to this one; empty if it doesn't answer."""
        return raw_client.live_brokers(self.bootstrap_servers)

    def stop(self) -> None:
        """Stop it gracefully, or by force if that takes too long. The data stays for the next start."""
        self._server.stop()

    def kill(self) -> None:
        """Kill the process (SIGKILL), like a crash. The data stays for the next start."""
        self._server.kill()

    def pause(self) -> None:
        """Pause the broker (SIGSTOP): it accepts connections but answers nothing."""
        self._server.pause()

    def resume(self) -> None:
        """Resume a paused broker."""
        self._server.resume()

    def restart(self) -> None:
        """Stop and start with the same ports and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the process, and remove the data folder unless it is to be kept. The log file stays."""
        if self.settings.keep_data:
            self.stop()
        else:
            self.kill()
            shutil.rmtree(self.data_folder, ignore_errors=True)
        self._proxy.close()
        atexit.unregister(self.close)

    def run_tool(self, class_name: str, *arguments: str) -> str:
        """Run one of Kafka's tools on the plain listener.

        :param class_name: the tool's Java class, such as ``org.apache.kafka.tools.GetOffsetShell``.
        :param arguments: its arguments, without ``--bootstrap-server``.
        :returns: its stdout.
        :raises ToolError: it failed.
        """
        address = ("--bootstrap-server", self.bootstrap_servers)
        return kafka_program.run_tool(KAFKA_VERSION, class_name, *address, *arguments)

    @property
    def _properties_file(self) -> Path:
        return self.data_folder / "server.properties"

    def _write_properties(self) -> None:
        settings = self.settings
        certificates = make_certificates(self.data_folder / "certificates") if settings.tls else None
        security = Security(settings.users, certificates, settings.allow_everyone_if_no_acl_found)
        properties = server_properties(self.node, self.data_folder / "log", security, proxied=settings.proxied)
        properties |= settings.properties
        self._properties_file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def _require_users(self, listener: str) -> None:
        if not self.settings.users:
            raise LookupError(f"this broker has no {listener} listener: give BrokerSettings some users")

    def _require_tls(self, missing: str) -> None:
        if not self.settings.tls:
            raise LookupError(f"this broker has no {missing}: give BrokerSettings tls=True")


def unused_ports() -> Ports:
    """Ports for one broker."""
    return Ports(*free_ports(len(dataclasses.fields(Ports))))
