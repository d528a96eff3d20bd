"""Run as a module with two arguments: the port to listen on, and the broker's port.

It prints ``ready``, then reads commands from stdin: on each line, a JSON object with ``command`` and ``arguments``. It
answers each with a line of JSON. It ends when its stdin is closed, so when the process that started it ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from dev.fault_relay.connection import Connection, Network, SpoiltResponse
from dev.fault_relay.frames import RESPONSE_HEAD
from dev.ports import HOST


class Relay:
    """All connections to one broker. Its public methods, except :meth:`accept`, are the commands."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._network = Network()
        self._refuses = False
        self._connections: set[Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()

    def accept(self) -> asyncio.Protocol:
        """The protocol for a client that has connected."""
        if self._refuses:
            return _Refusal()
        connection = Connection(self._network, self._connections.discard)
        self._connections.add(connection)
        task = asyncio.get_running_loop().create_task(connection.open(self._broker_port))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return connection.client

    def latency(self, ms: float) -> None:
        self._network.to_broker.latency_s = self._network.to_client.latency_s = ms / 1_000

    def throttle(self, bytes_per_s: float) -> None:
        self._network.to_broker.bytes_per_s = self._network.to_client.bytes_per_s = bytes_per_s

    def cut(self) -> None:
        for each in list(self._connections):
            each.abort()

    def refuse(self) -> None:
        self._refuses = True

    def black_hole(self) -> None:
        self._network.swallows = True

    def half_frame(self, byte_count: int, api_key: int | None) -> None:
        self._network.spoils = SpoiltResponse(api_key, allowance=byte_count)

    def garbage(self, framed: bool, api_key: int | None) -> None:
        self._network.spoils = SpoiltResponse(api_key, junk_from=RESPONSE_HEAD.size if framed else 0)

    def heal(self) -> None:
        self._refuses = False
        self._network.heal()
        for each in list(self._connections):
            each.heal()

    def requests(self) -> list[tuple[int, int, int]]:
        """API key, version and number of requests."""
        return [(*kind, count) for kind, count in self._network.counts.items()]

    def reset_counts(self) -> None:
        self._network.counts.clear()


class _Refusal(asyncio.Protocol):
    """Closes a connection as soon as it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


async def _serve(port: int, broker_port: int) -> None:
    relay = Relay(broker_port)
    loop = asyncio.get_running_loop()
    await loop.create_server(relay.accept, HOST, port)
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    print("ready", flush=True)
    while line := await commands.readline():
        print(json.dumps(_obey(relay, json.loads(line))), flush=True)


def _obey(relay: Relay, order: dict[str, Any]) -> Any:
    return getattr(relay, order["command"])(**order["arguments"])


if __name__ == "__main__":
    asyncio.run(_serve(*map(int, sys.argv[1:])))
