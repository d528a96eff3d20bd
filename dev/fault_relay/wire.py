"""Network time: how long bytes travel, and their delivery, in order, when they arrive.

Any number of chunks can travel at the same time: latency delays each but doesn't reduce throughput, like a long cable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator


class Wire:
    """One direction of the network in front of a broker, shared by its connections.

    :ivar latency_s: from one end to the other, seconds.
    :ivar bytes_per_s: how much it carries, over all connections; None for no limit.
    """

    TICKS_PER_S = 50

    def __init__(self) -> None:
        self.latency_s = 0.0
        self.bytes_per_s: float | None = None
        self._free_at = 0.0

    def slices(self, chunk: bytes) -> Iterator[bytes]:
        """A chunk in parts that are small enough to trickle through a slow wire."""
        size = len(chunk) if self.bytes_per_s is None else max(int(self.bytes_per_s / self.TICKS_PER_S), 1)
        return (chunk[start : start + size] for start in range(0, len(chunk), size))

    def arrival(self, now: float, size: int) -> float:
        """When this many bytes, sent now, arrive at the other end. The wire is busy until they are sent."""
        if self.bytes_per_s is None:
            return now + self.latency_s
        self._free_at = max(now, self._free_at) + size / self.bytes_per_s
        return self._free_at + self.latency_s

    def heal(self) -> None:
        self.latency_s, self.bytes_per_s, self._free_at = 0.0, None, 0.0


class DelayLine:
    """The chunks of one connection that travel on a wire.

    :param deliver: called with each chunk when it is due, and with None for the end of the stream.
    """

    def __init__(self, wire: Wire, deliver: Callable[[bytes | None], None]) -> None:
        self._wire = wire
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[float, bytes | None]] = deque()
        self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def send(self, chunk: bytes) -> None:
        now = self._loop.time()
        for part in self._wire.slices(chunk):
            self._enqueue(now, self._wire.arrival(now, len(part)), part)

    def end(self) -> None:
        """End the stream after the chunks that are on their way."""
        now = self._loop.time()
        self._enqueue(now, now + self._wire.latency_s, None)

    def release(self) -> None:
        """Deliver at once everything that is on its way."""
        self._last_due = 0.0
        self._deliver_until(float("inf"))

    def drop(self) -> None:
        """Drop everything that is on its way."""
        self._queue.clear()
        self._schedule()

    def _enqueue(self, now: float, due: float, chunk: bytes | None) -> None:
        """Queue a chunk after earlier ones, even if the wire has become faster since."""
        self._last_due = max(due, self._last_due)
        if not self._queue and self._last_due <= now:
            self._deliver(chunk)
            return
        self._queue.append((self._last_due, chunk))
        if self._timer is None:
            self._schedule()

    def _deliver_until(self, now: float) -> None:
        while self._queue and self._queue[0][0] <= now:
            self._deliver(self._queue.popleft()[1])
        self._schedule()

    def _schedule(self) -> None:
        """Set the timer for the oldest chunk, if there is one."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._queue[0][0], self._on_timer) if self._queue else None

    def _on_timer(self) -> None:
        self._timer = None
        self._deliver_until(self._loop.time())
