"""A Kafka client that hides nothing: one socket, one request at exactly the given version, one response.

Requests and responses are kafka-python's classes. If a broker is down or hangs, a client library would retry, refresh
and log. This client doesn't, so that one sees what the broker does.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

TIMEOUT_S = 2.0
METADATA_VERSION = 7
"""Kafka 2.8 supports no newer version than 11."""

_correlation_ids = itertools.count(1)


@contextmanager
def connected(address: str, timeout_s: float = TIMEOUT_S) -> Iterator[socket.socket]:
    """A connection to a ``host:port``, with a timeout for each operation."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        yield connection


def send(connection: socket.socket, request: Any, version: int) -> None:
    request.API_VERSION = version
    request.with_header(correlation_id=next(_correlation_ids), client_id="raw")
    connection.sendall(request.encode(header=True, framed=True))


def receive(connection: socket.socket, response_class: Any, version: int) -> Any:
    """The next response.

    :raises TimeoutError: none came in time.
    :raises EOFError: the connection ended first.
    """
    size = int.from_bytes(receive_exactly(connection, 4), "big")
    return response_class.decode(receive_exactly(connection, size), version=version, header=True)


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """This many bytes; raises the same errors as :func:`receive`."""
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise EOFError(f"the connection ended {size - len(received)} bytes early")
        received += part
    return bytes(received)


def metadata(address: str, topics: Sequence[str] = ()) -> Any:
    """What a broker knows about its cluster and some topics.

    :raises OSError: it doesn't answer; TimeoutError if not in time.
    :raises EOFError: it closed the connection.
    """
    topic_class = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(topics=[topic_class(name=each) for each in topics], allow_auto_topic_creation=False)
    with connected(address) as connection:
        send(connection, request, METADATA_VERSION)
        return receive(connection, MetadataResponse, METADATA_VERSION)


def live_brokers(address: str) -> set[int]:
    """Node ids of the brokers that are up, according to the broker at an address; empty if it doesn't answer."""
    with suppress(OSError, EOFError):
        return {each.node_id for each in metadata(address).brokers}
    return set()
