"""Scripted brokers: real sockets that speak Kafka's protocol and say what a test tells them to.

For answers that a healthy broker doesn't give: error codes that pass, old versions, garbage, silence. Requests and
responses are the client's own classes, so that both are real frames. What can be said is :mod:`.scripted_answers`.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Self

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from airflow_kafka_offsets.client.connection.settings import ClientSettings
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.client.requests.messages import (
    ConsumerGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from tests.patience import GRACE_S

REQUESTS = (
    ApiVersionsRequest,
    ConsumerGroupDescribeRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    DescribeShareGroupOffsetsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
"""What can be asked of a scripted broker."""
_UNSUPPORTED_VERSION = 35


@dataclass(frozen=True, slots=True)
class Wire:
    """Bytes instead of a response.

    :param sent: what goes over the wire, as it is.
    :param hang_up: close the connection afterwards.
    """

    sent: bytes = b""
    hang_up: bool = False


Answer = Callable[[Any], Any]
"""From a request to its response, or to :class:`Wire`; None for silence."""


class ScriptedCluster:
    """Brokers that know each other.

    :param leaders: leader by topic and partition; -1 for none.
    :param brokers: how many; their ids count from 0.
    :param versions: oldest and newest version by request class, where it isn't all that the client speaks.
    :param tls: what the brokers show of themselves; None for connections without TLS.
    """

    def __init__(
        self,
        leaders: Mapping[str, Iterable[int]],
        *,
        brokers: int = 1,
        versions: Mapping[Any, tuple[int, int]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self.leaders = {topic: list(each) for topic, each in leaders.items()}
        self.versions = {each: (0, each.max_version) for each in REQUESTS} | dict(versions or {})
        self.asked: list[tuple[int, Any]] = []
        self._clients: list[OffsetsClient] = []
        self.brokers = [ScriptedBroker(self, node) for node in range(brokers)]

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.brokers[0].port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (*self._clients, *self.brokers):
            each.close()

    def client(self, timeout_s: float = 10.0, **config: object) -> OffsetsClient:
        """A client of this cluster, which is closed with it.

        :param config: keys of the connection beside the address, or instead of it.
        """
        settings = ClientSettings.from_config({"bootstrap.servers": self.bootstrap_servers} | config)
        self._clients.append(OffsetsClient(settings, timeout_s=timeout_s))
        return self._clients[-1]

    def given_time(self, client: OffsetsClient) -> OffsetsClient:
        """The same client with as much time as a busy machine needs, for the calls after one that was to time out."""
        return self.hurried(client, GRACE_S)

    def hurried(self, client: OffsetsClient, timeout_s: float = 1.0) -> OffsetsClient:
        """The same client with that much time, for calls that are to time out once it is connected."""
        client._timeout_s = timeout_s
        return client

    def requests(self, request_class: Any, node: int | None = None) -> list[Any]:
        """What was asked, in order of arrival."""
        return [each for at, each in self.asked if isinstance(each, request_class) and node in (None, at)]

    def metadata(self, request: Any) -> Any:
        names = self.leaders if request.topics is None else [each.name for each in request.topics]
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=each.node, host="127.0.0.1", port=each.port, rack=None)
            for each in self.brokers
        ]
        return MetadataResponse(brokers=brokers, cluster_id="scripted", topics=[self._topic(name) for name in names])

    def _topic(self, name: str) -> Any:
        topic_class = MetadataResponse.MetadataResponseTopic
        if name not in self.leaders:
            return topic_class(error_code=3, name=name, partitions=[])
        partitions = [
            topic_class.MetadataResponsePartition(
                error_code=5 if leader < 0 else 0,
                partition_index=number,
                leader_id=leader,
                leader_epoch=7,
                replica_nodes=[],
                isr_nodes=[],
                offline_replicas=[],
            )
            for number, leader in enumerate(self.leaders[name])
        ]
        return topic_class(error_code=0, name=name, partitions=partitions)


class ScriptedBroker:
    """One broker: answers by request class, the last of them for ever. It speaks what it has answers for."""

    def __init__(self, cluster: ScriptedCluster, node: int) -> None:
        self.cluster = cluster
        self.node = node
        self._script: dict[type, list[Answer]] = {
            ApiVersionsRequest: [self._api_versions],
            MetadataRequest: [cluster.metadata],
            FindCoordinatorRequest: [self.coordinators],
        }
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def on(self, request_class: type, *answers: Answer) -> None:
        """What to say to the first such request, the second, and so on."""
        self._script[request_class] = list(answers)

    def close(self) -> None:
        """Close the port and all connections. Closing twice has no effect."""
        for each in (self._server, *self._connections):
            with each, contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits on it
        for thread in self._threads:
            thread.join(5)

    def _api_versions(self, request: Any) -> Any:
        """Answers that it doesn't speak so new a version are always in version 0, and name the right ones from the
        version on that has a client's name (KIP-511)."""
        newest_own = self.cluster.versions[ApiVersionsRequest][1]
        unknown = newest_own < request.API_VERSION
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=each.API_KEY, min_version=oldest, max_version=newest)
            for each, (oldest, newest) in self.cluster.versions.items()
            if each in self._script and (not unknown or (newest_own >= 3 and each is ApiVersionsRequest))
        ]
        response = ApiVersionsResponse(error_code=_UNSUPPORTED_VERSION if unknown else 0, api_keys=keys)
        return Wire(framed(response, 0, request.header.correlation_id)) if unknown else response

    def coordinators(self, request: Any) -> Any:
        """A FindCoordinator answer that names this broker for every group."""
        place = {"error_code": 0, "node_id": self.node, "host": "127.0.0.1", "port": self.port, "error_message": None}
        keys = request.coordinator_keys or ()
        coordinators = [FindCoordinatorResponse.Coordinator(key=each, **place) for each in keys]
        return FindCoordinatorResponse(coordinators=coordinators, **place)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        if self.cluster.tls is not None:
            try:
                connection = self.cluster.tls.wrap_socket(connection, server_side=True)
            except OSError:
                return
            self._connections.append(connection)
        stream = connection.makefile("rb")
        while frame := _read_frame(stream):
            key, version, correlation = struct.unpack(">hhi", frame[:8])
            request_class = next(each for each in self.cluster.versions if key == each.API_KEY)
            request = request_class.decode(frame, version=version, header=True)
            if request_class is not ApiVersionsRequest:
                self.cluster.asked.append((self.node, request))
            answer = self._next_answer(request_class)(request)
            wire = answer if isinstance(answer, Wire) else Wire(framed(answer, version, correlation))
            with contextlib.suppress(OSError):  # whoever asked may be gone
                connection.sendall(wire.sent)
                if wire.hang_up:
                    connection.shutdown(socket.SHUT_RDWR)

    def _next_answer(self, request_class: Any) -> Answer:
        answers = self._script[request_class]
        return answers.pop(0) if len(answers) > 1 else answers[0]


def framed(response: Any, version: int, correlation_id: int) -> bytes:
    """A response as it goes over the wire; nothing for None."""
    if response is None:
        return b""
    response.API_VERSION = version  # before there is a header, which kafka-python would set it on too
    response.with_header(correlation_id=correlation_id)
    return bytes(response.encode(header=True, framed=True))


def _read_frame(stream: BinaryIO) -> bytes | None:
    try:
        size = stream.read(4)
        return stream.read(struct.unpack(">i", size)[0]) if len(size) == 4 else None
    except (OSError, ValueError):  # the latter once it is closed
        return None
