"""Free TCP ports of this machine."""

from __future__ import annotations

import contextlib
import random
import socket

HOST = "127.0.0.1"

# Below the ranges that Linux (from 32768) and macOS (from 49152) use for outgoing connections: while a server is down,
# no client is given its port, and a client that tries to reach it can't end up connected to itself.
RANGE = range(12_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Different ports of :data:`HOST` that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(_listen_somewhere()).getsockname()[1] for _ in range(count)]


def _listen_somewhere() -> socket.socket:
    """A socket that listens on some port of the range."""
    for port in random.sample(RANGE, len(RANGE)):
        with contextlib.suppress(OSError):
            return socket.create_server((HOST, port))
    raise OSError(f"no port of {HOST} from {RANGE.start} to {RANGE.stop - 1} is free")
