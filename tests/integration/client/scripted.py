"""Scripted brokers: real sockets that speak Kafka's protocol and say what a test tells them to.

For answers that a healthy broker doesn't give: error codes that pass, old versions, silence. Requests and responses are
kafka-python's own classes, so that both are real frames.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse, OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

Answer = Callable[[Any], Any]
"""From a request to its response; None for silence."""

NEWEST = {each: (0, each.max_version) for each in (ApiVersionsRequest, MetadataRequest, FindCoordinatorRequest)}
NEWEST |= {each: (0, each.max_version) for each in (ListOffsetsRequest, OffsetFetchRequest)}


class ScriptedCluster:
    """Brokers that know each other.

    :param leaders: leader by topic and partition; -1 for none.
    :param brokers: how many; their ids count from 0.
    :param versions: oldest and newest version by request class, where it isn't all that kafka-python speaks.
    """

    def __init__(
        self,
        leaders: Mapping[str, Iterable[int]],
        *,
        brokers: int = 1,
        versions: Mapping[Any, tuple[int, int]] | None = None,
    ) -> None:
        self.leaders = {topic: list(each) for topic, each in leaders.items()}
        self.versions = NEWEST | dict(versions or {})
        self.asked: list[tuple[int, Any]] = []
        self.brokers = [ScriptedBroker(self, node) for node in range(brokers)]

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.brokers[0].port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.brokers:
            each.close()

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
    """One broker: answers by request class, the last of them for ever."""

    def __init__(self, cluster: ScriptedCluster, node: int) -> None:
        self.cluster = cluster
        self.node = node
        self._script: dict[type, list[Answer]] = {
            ApiVersionsRequest: [self._api_versions],
            MetadataRequest: [cluster.metadata],
            FindCoordinatorRequest: [coordinators_are(self)],
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

    def _api_versions(self, _: Any) -> Any:
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=each.API_KEY, min_version=oldest, max_version=newest)
            for each, (oldest, newest) in self.cluster.versions.items()
        ]
        return ApiVersionsResponse(error_code=0, api_keys=keys)

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
        while frame := _read_frame(connection):
            key, version, correlation = struct.unpack(">hhi", frame[:8])
            request_class = next(each for each in self.cluster.versions if key == each.API_KEY)
            request = request_class.decode(frame, version=version, header=True)
            if request_class is not ApiVersionsRequest:
                self.cluster.asked.append((self.node, request))
            response = self._next_answer(request_class)(request)
            if response is not None:
                response.API_VERSION = version  # before there is a header, which kafka-python would set it on too
                response.with_header(correlation_id=correlation)
                connection.sendall(response.encode(header=True, framed=True))

    def _next_answer(self, request_class: Any) -> Answer:
        answers = self._script[request_class]
        return answers.pop(0) if len(answers) > 1 else answers[0]


def _read_frame(connection: socket.socket) -> bytes | None:
    try:
        size = connection.recv(4, socket.MSG_WAITALL)
        return connection.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL) if len(size) == 4 else None
    except OSError:
        return None


def silence(_: Any) -> None:
    """No answer at all, and the connection stays open."""


def offsets_are(offset: int, *, errors: Mapping[int, int] | None = None, timestamp: int = -1) -> Answer:
    """A ListOffsets answer.

    :param errors: error code by partition number; their offset is -1.
    """

    def answer(request: Any) -> Any:
        topic_class = ListOffsetsResponse.ListOffsetsTopicResponse
        codes = errors or {}

        def partition(number: int) -> Any:
            code = codes.get(number, 0)
            return topic_class.ListOffsetsPartitionResponse(
                partition_index=number,
                error_code=code,
                old_style_offsets=[offset],
                offset=-1 if code else offset,
                timestamp=timestamp,
                leader_epoch=7,
            )

        return ListOffsetsResponse(
            topics=[
                topic_class(name=each.name, partitions=[partition(one.partition_index) for one in each.partitions])
                for each in request.topics
            ]
        )

    return answer


def coordinators_are(broker: ScriptedBroker, *, error_code: int = 0) -> Answer:
    """A FindCoordinator answer that names this broker for every group."""

    def answer(request: Any) -> Any:
        place = {"error_code": error_code, "node_id": broker.node, "host": "127.0.0.1", "port": broker.port}
        coordinators = [
            FindCoordinatorResponse.Coordinator(key=each, error_message=None, **place)
            for each in request.coordinator_keys or ()
        ]
        return FindCoordinatorResponse(coordinators=coordinators, error_message=None, **place)

    return answer


def commits_are(offsets: Mapping[str, int], *, error_code: int = 0, partition_error: int = 0) -> Answer:
    """An OffsetFetch answer: an offset by topic, for partition 0 of each, the same for every group."""

    def answer(request: Any) -> Any:
        old = request.API_VERSION < 8
        group_class = OffsetFetchResponse.OffsetFetchResponseGroup
        topic_class = OffsetFetchResponse.OffsetFetchResponseTopic if old else group_class.OffsetFetchResponseTopics
        partition_class = topic_class.OffsetFetchResponsePartition if old else topic_class.OffsetFetchResponsePartitions
        topics = [
            topic_class(
                name=topic,
                partitions=[
                    partition_class(
                        partition_index=0,
                        committed_offset=-1 if partition_error else offset,
                        committed_leader_epoch=-1,
                        metadata=None,
                        error_code=partition_error,
                    )
                ],
            )
            for topic, offset in offsets.items()
        ]
        if old:
            return OffsetFetchResponse(topics=topics, error_code=error_code)
        return OffsetFetchResponse(
            groups=[
                group_class(group_id=each.group_id, topics=[] if error_code else topics, error_code=error_code)
                for each in request.groups
            ]
        )

    return answer
