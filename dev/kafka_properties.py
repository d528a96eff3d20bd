"""The server properties of local brokers: listeners, security, replication, and sizes that suit one small machine.

Pure functions, from a node's place in its cluster, a folder, users and certificates, to properties and the arguments of
Kafka's storage tool (KIP-631, KIP-900).
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dev.certificates import Certificates
from dev.ports import HOST

MECHANISMS = ("SCRAM-SHA-512", "PLAIN")
MODULES = "org.apache.kafka.common.security"

PROTOCOLS = {
    "PLAIN": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
    "PROXIED": "PLAINTEXT",
    "SASL": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "SSL": "SSL",
}
"""The security protocol of each listener."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one broker, one for each listener that it may have.

    :param client: for clients, without encryption or login.
    :param controller: for the controllers of its cluster.
    :param sasl: for clients that log in.
    :param sasl_ssl: for clients that log in over TLS.
    :param ssl: for clients that have a certificate.
    :param proxied: for the fault proxy only.
    :param proxy: the fault proxy's own port, for clients.
    """

    client: int
    controller: int
    sasl: int
    sasl_ssl: int
    ssl: int
    proxied: int
    proxy: int


@dataclass(frozen=True, slots=True)
class Node:
    """A broker, which is also a controller, in its cluster.

    :param node_id: counts from 1.
    :param ports: its own.
    :param controllers: the controller port of each node of the cluster, including this one, by node id.
    :param cluster_id: a UUID in Kafka's notation.
    """

    node_id: int
    ports: Ports
    controllers: Mapping[int, int]
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Security:
    """Who may do what, and on which listeners.

    :param users: password by user name; if there are any, there are listeners for login.
    :param certificates: if given, there are listeners for TLS.
    :param allow_everyone_if_no_acl_found: whether a resource without ACLs is open to all.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    certificates: Certificates | None = None
    allow_everyone_if_no_acl_found: bool = True


def new_cluster(ports: list[Ports]) -> list[Node]:
    """The nodes of a new cluster, one for each element of ``ports``."""
    controllers = {node_id: each.controller for node_id, each in enumerate(ports, start=1)}
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return [Node(node_id, each, controllers, cluster_id) for node_id, each in enumerate(ports, start=1)]


def server_properties(node: Node, log_folder: Path, security: Security, *, proxied: bool) -> dict[str, str]:
    """All server properties.

    Records are kept forever unless a topic says otherwise: tests write old records, which Kafka's default retention
    would delete within minutes.
    """
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{each}@{HOST}:{port}" for each, port in node.controllers.items()),
        "log.dirs": str(log_folder),
        "log.retention.ms": "-1",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        **_listeners(node.ports, security, proxied=proxied),
        **_replication(len(node.controllers)),
        **(_logins(security.users) if security.users else {}),
        **(_tls(security.certificates) if security.certificates else {}),
        **(_acls(security) if security.users or security.certificates else {}),
    }


def _listeners(ports: Ports, security: Security, *, proxied: bool) -> dict[str, str]:
    """The listeners, and the addresses that the broker advertises. One listener is behind the fault proxy."""
    bound = {"PLAIN": ports.client}
    bound |= {"PROXIED": ports.proxied} if proxied else {}
    bound |= {"SASL": ports.sasl} if security.users else {}
    bound |= {"SASL_SSL": ports.sasl_ssl} if security.users and security.certificates else {}
    bound |= {"SSL": ports.ssl} if security.certificates else {}
    advertised = bound | ({"PROXIED": ports.proxy} if proxied else {})
    return {
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAIN",
        "listeners": _addresses(bound | {"CONTROLLER": ports.controller}),
        "advertised.listeners": _addresses(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
    }


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())


def _replication(nodes: int) -> dict[str, str]:
    """A replica on every node; one may be missing."""
    in_sync = max(nodes - 1, 1)
    internal_topics = {
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(nodes),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": str(nodes),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": str(nodes),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }
    topics = {"default.replication.factor": str(nodes), "min.insync.replicas": str(in_sync)}
    return internal_topics | topics | (_failover() if nodes > 1 else {})


def _failover() -> dict[str, str]:
    """Notice a dead broker within 2 seconds and a dead controller within 5; with Kafka's defaults, it takes 9 and 12.

    The controllers' own timeouts stay Kafka's: on a busy machine, shorter ones cause elections that nobody wins.
    """
    return {
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "250",
        "controller.quorum.election.backoff.max.ms": "250",
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.backoff.ms": "100",
    }


def _logins(users: Mapping[str, str]) -> dict[str, str]:
    """Logins by SCRAM, with passwords in the cluster's metadata, and by PLAIN, with passwords in these properties."""
    passwords = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    by_mechanism = {
        "plain": f"{MODULES}.plain.PlainLoginModule required {passwords};",
        "scram-sha-512": f"{MODULES}.scram.ScramLoginModule required;",
    }
    return {"sasl.enabled.mechanisms": ",".join(MECHANISMS)} | {
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": login
        for listener in ("sasl", "sasl_ssl")
        for mechanism, login in by_mechanism.items()
    }


def _tls(certificates: Certificates) -> dict[str, str]:
    """Certificates in PEM (KIP-651). A client's principal is its common name: ``CN=client`` is ``User:client``."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
    }


def _acls(security: Security) -> dict[str, str]:
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "allow.everyone.if.no.acl.found": str(security.allow_everyone_if_no_acl_found).lower(),
    }


def format_arguments(properties_file: Path, cluster_id: str, users: Mapping[str, str]) -> list[str]:
    """Arguments of ``kafka.tools.StorageTool`` to format a node's folder with these SCRAM users."""
    arguments = ["format", "--config", str(properties_file), f"--cluster-id={cluster_id}"]
    for name, password in users.items():
        arguments += ["--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]"]
    return arguments
