"""The server properties of a local broker: listeners, security, and sizes that suit one small machine.

Pure: from ports, a folder and users to properties and to the arguments of Kafka's storage tool (KIP-631, KIP-900).
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
MECHANISMS = ("SCRAM-SHA-512", "PLAIN")


@dataclass(frozen=True, slots=True)
class Ports:
    """Where one broker listens: for clients, for its own controller, and for clients that log in."""

    client: int
    controller: int
    sasl: int


def server_properties(ports: Ports, log_folder: Path, users: Mapping[str, str]) -> dict[str, str]:
    """Everything that the server is told.

    Records stay for ever unless a topic says otherwise: tests write records of long ago, which Kafka's default
    retention would delete a few minutes later.
    """
    listeners = {"PLAIN": ports.client, "CONTROLLER": ports.controller} | ({"SASL": ports.sasl} if users else {})
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{ports.controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAIN",
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "log.dirs": str(log_folder),
        "log.retention.ms": "-1",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    } | (_security(users) if users else {})


def _security(users: Mapping[str, str]) -> dict[str, str]:
    passwords = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    modules = "org.apache.kafka.common.security"
    return {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl.plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule required {passwords};",
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "allow.everyone.if.no.acl.found": "true",
    }


def format_arguments(properties_file: Path, users: Mapping[str, str]) -> list[str]:
    """Arguments of ``kafka.tools.StorageTool`` that make a new cluster with these SCRAM users."""
    arguments = ["format", "--config", str(properties_file), f"--cluster-id={_cluster_id()}"]
    for name, password in users.items():
        arguments += ["--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]"]
    return arguments


def _cluster_id() -> str:
    """A random UUID as Kafka writes them: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
