"""Turns: how many requests to one broker are under way at the same time; the others wait in line.

A broker serves one request of a connection after the other. A few on their way hide the network; what waits behind them
in the broker would only run into its timeout.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from kafka.future import Future


class InFlight:
    """Turns at each of several brokers, first come, first served.

    :param at_once: how many may have their turn at one broker.
    """

    def __init__(self, at_once: int) -> None:
        self._free: defaultdict[Hashable, int] = defaultdict(lambda: at_once)
        self._line: defaultdict[Hashable, deque[Future]] = defaultdict(deque)

    @asynccontextmanager
    async def at(self, broker: Hashable) -> AsyncIterator[None]:
        """Wait for a turn, and pass it on in the end."""
        if self._free[broker]:
            self._free[broker] -= 1
        else:
            turn = Future()
            self._line[broker].append(turn)
            await turn
        try:
            yield
        finally:
            if self._line[broker]:
                self._line[broker].popleft().success(None)
            else:
                self._free[broker] += 1
