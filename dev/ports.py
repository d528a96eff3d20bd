"""Free TCP ports of this machine."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

HOST = "127.0.0.1"

# Below the ranges that Linux (from 32768) and macOS (from 49152) use for outgoing connections: while a server is down,
# no client is given its port, and a client that tries to reach it can't end up connected to itself.
RANGE = range(12_000, 32_000)

_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Different free ports of :data:`HOST`. As long as this process lives, nobody else is given one of them here,
    however long its server takes to listen."""
    return [_free_port() for _ in range(count)]


def _free_port() -> int:
    for port in random.sample(RANGE, len(RANGE)):
        if port in _given:
            continue
        try:
            fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)  # one byte of the file for each port
            socket.create_server((HOST, port)).close()
        except OSError:
            continue
        _given.add(port)
        return port
    raise OSError(f"no port of {HOST} from {RANGE.start} to {RANGE.stop - 1} is free")


@cache
def _claims() -> int:
    """The file by whose locks processes of this user tell each other which ports they have. They end with a process."""
    return os.open(Path(tempfile.gettempdir()) / f"kafka-offsets-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)
