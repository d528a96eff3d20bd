"""One relayed connection: a client's and ours to the broker, and the faults between the two."""

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
    """What is to happen to one response.

    :param api_key: of the requests whose response is meant; None for any.
    :param allowance: how many bytes the client still gets, from the response's first on; None for all.
    :param junk_from: from which of the response's bytes on they are junk; None for none.
    """

    api_key: int | None
    allowance: int | None = None
    junk_from: int | None = None


class Network:
    """What all connections share.

    :ivar swallows: nothing arrives any more.
    :ivar spoils: waits for a response to spoil.
    :ivar counts: requests by API key and version, as they left the clients.
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
        """What is to happen to a response that answers such a request. Whoever takes it does it, and no one else."""
        if self.spoils is None or self.spoils.api_key not in (None, api_key):
            return None
        taken, self.spoils = self.spoils, None
        return taken


class Connection:
    """From a client's connection on to its end.

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
        """Connect to the broker and relay; where it takes no connection, the client's ends as well."""
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
        """End both sides at once."""
        self._line_to_broker.drop()
        self._line_to_client.drop()
        self.client.abort()
        self._broker.abort()
        self._ended(self)

    def heal(self) -> None:
        """Deliver what was delayed. What was lost cannot be mended: such a connection ends."""
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
        """The bytes that the client gets for these."""
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
    """One of the two sockets. It is not read before there is another, nor while that one cannot be written to.

    :param received: called with what comes.
    :param ended: called when the socket is closed, by whomever.
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
