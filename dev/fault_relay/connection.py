"""One relayed connection: the client's connection to us, ours to the broker, and the faults in between."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dev.fault_relay.frames import (
    REQUEST_HEAD,
    RESPONSE_HEAD,
    FrameSplitter,
    Piece,
    request_head,
    response_correlation_id,
)
from dev.fault_relay.wire import DelayLine, Wire
from dev.ports import HOST


@dataclass(frozen=True, slots=True)
class SpoiltResponse:
    """A fault for one response.

    :param api_key: applies to the response to a request of this API; None for any.
    :param allowance: how many of the response's first bytes the client still gets; None for all.
    :param junk_from: index of the response's first junk byte; None if there is no junk.
    """

    api_key: int | None
    allowance: int | None = None
    junk_from: int | None = None


class Network:
    """What all connections share.

    :ivar swallows: whether nothing arrives anymore.
    :ivar spoils: a fault that waits for its response.
    :ivar counts: requests by API key and version, as the clients sent them.
    """

    def __init__(self) -> None:
        self.to_broker, self.to_client = Wire(), Wire()
        self.swallows = False
        self.spoils: SpoiltResponse | None = None
        self.counts: Counter[tuple[int, int]] = Counter()

    def heal(self) -> None:
        self.to_broker.heal()
        self.to_client.heal()
        self.swallows = False
        self.spoils = None

    def take_spoils(self, api_key: int | None) -> SpoiltResponse | None:
        """Take the fault for a response to such a request. Only one connection gets it."""
        if self.spoils is None or self.spoils.api_key not in (None, api_key):
            return None
        taken, self.spoils = self.spoils, None
        return taken


class Connection:
    """A relayed connection, from the client's connect to its end.

    :param ended: called when both sides have ended.
    """

    def __init__(self, network: Network, ended: Callable[[Connection], None]) -> None:
        self._network = network
        self._ended = ended
        self.client = Side(self._from_client, self._client_ended)
        self._broker = Side(self._from_broker, self._broker_ended)
        self._line_to_broker = DelayLine(network.to_broker, self._to_broker)
        self._line_to_client = DelayLine(network.to_client, self._to_client)
        self._requests, self._responses = FrameSplitter(REQUEST_HEAD), FrameSplitter(RESPONSE_HEAD)
        self._asked: dict[int, int] = {}
        self._allowance: int | None = None
        self._junk_from: int | None = None
        self._has_lost = False

    async def open(self, broker_port: int) -> None:
        """Connect to the broker and relay. If the broker doesn't accept, the client's connection is closed too."""
        try:
            await asyncio.get_running_loop().create_connection(lambda: self._broker, HOST, broker_port)
        except OSError:
            self.client.resume_reading()
            self._broker_ended()
            return
        if self.client.is_open:
            self.client.join(self._broker)
        else:
            self.abort()

    def abort(self) -> None:
        """Close both sides at once."""
        self._line_to_broker.drop()
        self._line_to_client.drop()
        self.client.abort()
        self._broker.abort()
        self._ended(self)

    def heal(self) -> None:
        """Deliver delayed bytes. A connection that has lost bytes can't be repaired, so it is closed."""
        if self._has_lost:
            self.abort()
        self._line_to_broker.release()
        self._line_to_client.release()

    def _from_client(self, chunk: bytes) -> None:
        for piece in self._requests.split(chunk):
            if piece.starts_frame:
                api_key, version, correlation_id = request_head(piece)
                self._network.counts[api_key, version] += 1
                self._asked[correlation_id] = api_key
            self._line_to_broker.send(piece.content)

    def _from_broker(self, chunk: bytes) -> None:
        for piece in self._responses.split(chunk):
            if piece.starts_frame:
                self._begin_response(piece)
            if content := self._spoil(piece):
                self._line_to_client.send(content)

    def _begin_response(self, piece: Piece) -> None:
        spoils = self._network.take_spoils(self._asked.pop(response_correlation_id(piece), None))
        self._junk_from = spoils.junk_from if spoils else None
        if spoils and spoils.allowance is not None:
            self._allowance, self._has_lost = spoils.allowance, True

    def _spoil(self, piece: Piece) -> bytes:
        """The bytes that the client gets instead of these."""
        content = piece.content
        if self._junk_from is not None:
            kept = self._junk_from if piece.starts_frame else 0
            content = content[:kept] + random.randbytes(len(content) - kept)
        if self._allowance is not None:
            content = content[: self._allowance]
            self._allowance -= len(content)
        return content

    def _to_broker(self, chunk: bytes | None) -> None:
        if self._network.swallows:
            self._has_lost = True
        else:
            self._broker.write(chunk)

    def _to_client(self, chunk: bytes | None) -> None:
        falls_silent = chunk is None and self._allowance is not None
        if self._network.swallows or falls_silent:
            self._has_lost = True
        else:
            self.client.write(chunk)

    def _client_ended(self) -> None:
        self._line_to_broker.end()
        self._end_if_both_ended()

    def _broker_ended(self) -> None:
        self._line_to_client.end()
        self._end_if_both_ended()

    def _end_if_both_ended(self) -> None:
        if not self.client.is_open and not self._broker.is_open:
            self._ended(self)


class Side(asyncio.Protocol):
    """One of the two sockets. It isn't read until the other one exists, nor while that one can't be written to.

    :param received: called with the bytes that arrive.
    :param ended: called when the socket is closed, by either end.
    """

    def __init__(self, received: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._received = received
        self._on_end = ended
        self._transport: asyncio.Transport | None = None
        self._other: Side | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def join(self, other: Side) -> None:
        """Relay to each other from now on."""
        self._other, other._other = other, self
        self.resume_reading()
        other.resume_reading()

    def write(self, chunk: bytes | None) -> None:
        """Send some bytes, or end the stream (None)."""
        if self._transport is None:
            return
        if chunk is None:
            self._transport.close()
        else:
            self._transport.write(chunk)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.pause_reading()

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_end()

    def pause_writing(self) -> None:
        if self._other is not None:
            self._other.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other.resume_reading()
