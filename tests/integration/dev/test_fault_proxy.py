"""The proxy before a broker: what a client sees of each fault, byte by byte."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest

from dev.fault_proxy import FaultProxy
from dev.kafka import Broker
from dev.raw_client import (
    METADATA_VERSION,
    api_versions,
    connected,
    metadata,
    receive,
    receive_exactly,
    send,
)
from tests.patience import GRACE_S, PATIENCE_S

API_VERSIONS: int = ApiVersionsRequest.API_KEY
METADATA: int = MetadataRequest.API_KEY
NOTHING_S = 0.3
"""How long a test waits to see that nothing comes."""

ENDED = (EOFError, ConnectionError)


@pytest.fixture
def proxy(broker: Broker) -> Iterator[FaultProxy]:
    """The broker's proxy, without faults and counts."""
    broker.proxy.reset_counts()
    yield broker.proxy
    broker.proxy.heal()


class TestRequests:
    def test_are_counted_by_key_and_version(self, proxy: FaultProxy) -> None:
        with connected(proxy.address) as connection:
            api_versions(connection)
            api_versions(connection)
        metadata(proxy.address)
        assert proxy.requests == {API_VERSIONS: 2, METADATA: 1}
        assert proxy.requests_by_version == {(API_VERSIONS, 0): 2, (METADATA, METADATA_VERSION): 1}

    def test_are_counted_when_they_come_in_small_pieces(self, proxy: FaultProxy) -> None:
        request = ApiVersionsRequest()
        request.API_VERSION = 0
        request.with_header(correlation_id=1, client_id="slow")
        with connected(proxy.address) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in request.encode(header=True, framed=True):
                connection.sendall(bytes([byte]))
                time.sleep(0.001)
            receive(connection, ApiVersionsResponse, 0)
        assert proxy.requests == {API_VERSIONS: 1}


class TestLatency:
    def test_is_added_each_way(self, proxy: FaultProxy) -> None:
        proxy.latency(50)
        with connected(proxy.address) as connection:
            assert 0.1 <= _seconds(connection, requests=1) < GRACE_S

    def test_delays_requests_that_are_on_their_way_together_but_once(self, proxy: FaultProxy) -> None:
        proxy.latency(500)
        with connected(proxy.address, timeout_s=PATIENCE_S) as connection:
            assert 1 <= _seconds(connection, requests=50) < GRACE_S, "one after the other they take 50 s"


class TestThrottle:
    def test_lets_so_many_bytes_through_in_a_second(self, proxy: FaultProxy) -> None:
        with connected(proxy.address) as connection:
            size = _response_size(connection)
            proxy.throttle(size * 5)
            assert 0.18 <= _seconds(connection, requests=1) < GRACE_S


class TestBlackHole:
    def test_swallows_what_old_and_new_connections_send(self, proxy: FaultProxy) -> None:
        with _impatient(proxy) as old:
            api_versions(old)
            proxy.black_hole()
            with _impatient(proxy) as new:
                for each in (old, new):
                    with pytest.raises(TimeoutError):
                        api_versions(each)

    def test_ends_the_connections_that_lost_something_when_healed(self, proxy: FaultProxy) -> None:
        with _impatient(proxy) as robbed, _impatient(proxy) as idle:
            api_versions(idle)
            proxy.black_hole()
            with pytest.raises(TimeoutError):
                api_versions(robbed)
            proxy.heal()
            with pytest.raises(ENDED):
                api_versions(robbed)
            assert api_versions(idle).error_code == 0


class TestHalfFrame:
    def test_lets_the_first_bytes_through_and_then_nothing(self, proxy: FaultProxy) -> None:
        with _impatient(proxy) as connection:
            proxy.half_frame(20)
            send(connection, ApiVersionsRequest(), 0)
            receive_exactly(connection, 20)
            send(connection, ApiVersionsRequest(), 0)
            with pytest.raises(TimeoutError):
                connection.recv(1)

    def test_waits_for_the_api_it_is_meant_for(self, proxy: FaultProxy) -> None:
        proxy.half_frame(api_key=METADATA)
        with _impatient(proxy) as connection:
            api_versions(connection)
        with pytest.raises(TimeoutError):
            metadata(proxy.address)


class TestGarbage:
    def test_takes_the_place_of_all_bytes(self, proxy: FaultProxy) -> None:
        with connected(proxy.address) as connection:
            size = _response_size(connection)
            proxy.garbage()
            send(connection, ApiVersionsRequest(), 0)
            junk = receive_exactly(connection, size)
        assert int.from_bytes(junk[:4], "big") != size - 4

    def test_keeps_size_and_correlation_id_when_framed(self, proxy: FaultProxy) -> None:
        with connected(proxy.address) as connection:
            size = _response_size(connection)
            proxy.garbage(framed=True)
            send(connection, ApiVersionsRequest(), 0)
            junk = receive_exactly(connection, size)
            assert int.from_bytes(junk[:4], "big") == size - 4
            assert api_versions(connection).error_code == 0


def _impatient(proxy: FaultProxy) -> AbstractContextManager[socket.socket]:
    return connected(proxy.address, timeout_s=NOTHING_S)


def _response_size(connection: socket.socket) -> int:
    """Bytes of the response to ApiVersions, its size prefix included."""
    send(connection, ApiVersionsRequest(), 0)
    size = int.from_bytes(receive_exactly(connection, 4), "big")
    receive_exactly(connection, size)
    return 4 + size


def _seconds(connection: socket.socket, *, requests: int) -> float:
    """From the first of some requests, sent together, to the last response."""
    begin = time.monotonic()
    for _ in range(requests):
        send(connection, ApiVersionsRequest(), 0)
    for _ in range(requests):
        receive(connection, ApiVersionsResponse, 0)
    return time.monotonic() - begin
