"""A proxy in front of one broker that behaves like a bad network on command, and counts requests.

It relays in a separate process (:mod:`dev.fault_relay`), so that it takes no time from a client that is measured here.
Nothing is rewritten: the broker has a listener that advertises the proxy's address, so clients that connect through the
proxy keep using it (``BrokerSettings(proxied=True)``, ``KafkaCluster(proxied=True)``).

    broker.proxy.latency(50)
    broker.proxy.half_frame(api_key=2)
    broker.proxy.heal()
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
from collections import Counter
from typing import Any, Self

from dev import ROOT
from dev.ports import HOST

STOP_DEADLINE_S = 5.0


class FaultProxy:
    """A context manager, or :meth:`start` and :meth:`close`. Without faults, it relays everything in both directions.

    Faults can be combined. They last until :meth:`heal`, except :meth:`cut`, which happens once. While the broker is
    down, the proxy accepts connections and closes them.

    :param port: the port to which clients connect.
    :param broker_port: the broker's port.
    """

    def __init__(self, port: int, broker_port: int) -> None:
        self.port = port
        self._broker_port = broker_port
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """Host and port for clients."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start and wait until it listens. Does nothing if it is already running.

        :raises RuntimeError: it ended while starting; the reason is on stderr.
        """
        if self._process is not None:
            return
        atexit.register(self.close)
        command = [sys.executable, "-m", "dev.fault_relay", str(self.port), str(self._broker_port)]
        # A separate process group: Ctrl-C reaches only us. The process ends when its stdin is closed.
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )
        if self._read_line() != "ready\n":
            self.close()
            raise RuntimeError(f"the fault proxy could not listen on {self.address}: see its message on stderr")

    def close(self) -> None:
        """Stop the proxy, which ends all connections."""
        atexit.unregister(self.close)
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate(timeout=STOP_DEADLINE_S)
        self._process = None

    def latency(self, ms: float) -> None:
        """Delay every byte by this many milliseconds, in each direction.

        Connecting isn't delayed, because the system accepts connections before the proxy knows of them.
        """
        self._command("latency", ms=ms)

    def throttle(self, bytes_per_s: float) -> None:
        """Carry at most this many bytes per second in each direction, over all connections."""
        self._command("throttle", bytes_per_s=bytes_per_s)

    def cut(self) -> None:
        """Close all connections now. New connections are accepted."""
        self._command("cut")

    def refuse(self) -> None:
        """Close new connections as soon as they are made. Open connections stay."""
        self._command("refuse")

    def black_hole(self) -> None:
        """Accept and read, but forward nothing, not even the end of a connection, like a firewall that drops."""
        self._command("black_hole")

    def half_frame(self, byte_count: int = 20, *, api_key: int | None = None) -> None:
        """Forward only the first bytes of the next response, and then nothing more on its connection.

        :param byte_count: how many; the first eight are the response's size and correlation id.
        :param api_key: wait for a response to a request of this API; None for any.
        """
        self._command("half_frame", byte_count=byte_count, api_key=api_key)

    def garbage(self, *, framed: bool = False, api_key: int | None = None) -> None:
        """Replace the next response with the same number of random bytes.

        :param framed: keep its size and correlation id, so that a client tries to decode the rest.
        :param api_key: wait for a response to a request of this API; None for any.
        """
        self._command("garbage", framed=framed, api_key=api_key)

    def heal(self) -> None:
        """End all faults. Delayed bytes arrive at once; connections that have lost bytes are closed."""
        self._command("heal")

    @property
    def requests(self) -> Counter[int]:
        """How many requests clients have sent since :meth:`reset_counts`, by API key."""
        counts: Counter[int] = Counter()
        for (api_key, _), count in self.requests_by_version.items():
            counts[api_key] += count
        return counts

    @property
    def requests_by_version(self) -> Counter[tuple[int, int]]:
        """How many requests clients have sent since :meth:`reset_counts`, by API key and version."""
        return Counter({(api_key, version): count for api_key, version, count in self._command("requests")})

    def reset_counts(self) -> None:
        self._command("reset_counts")

    def _command(self, name: str, **arguments: Any) -> Any:
        """Send the relay a command, and wait until it is done.

        :raises RuntimeError: the proxy isn't running.
        """
        with self._lock:
            if self._process is None or self._process.stdin is None:
                raise RuntimeError("the fault proxy isn't running: start it first")
            self._process.stdin.write(json.dumps({"command": name, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
            return json.loads(self._read_line())

    def _read_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline()
