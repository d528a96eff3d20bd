"""The page's own threads. The api-server's also answer the heartbeats of running tasks, and a store or a broker that
hangs mustn't block those."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any, TypeAlias

from anyio import CapacityLimiter, WouldBlock
from anyio.to_thread import run_sync
from fastapi import HTTPException, Response, status

OwnThreads: TypeAlias = Callable[[Callable[..., Response]], Callable[..., Awaitable[Response]]]
"""Makes a route run in the page's own threads."""
_BUSY = "Other users are asking Kafka right now. Try again in a few seconds."


def in_own_thread(most: int) -> OwnThreads:
    """Run a route in this many threads of its own. While none is free, requests wait without one."""
    limiter = CapacityLimiter(most)

    def decorate(route: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        @wraps(route)
        async def answer(**arguments: Any) -> Response:
            return await run_sync(partial(route, **arguments), limiter=limiter)

        return answer

    return decorate


def in_own_thread_or_refused(most: int) -> OwnThreads:
    """Run a route in this many threads of its own. While none is free, requests are refused."""
    places, threads = CapacityLimiter(most), CapacityLimiter(most)

    def decorate(route: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        @wraps(route)
        async def answer(**arguments: Any) -> Response:
            place = object()
            try:
                places.acquire_on_behalf_of_nowait(place)
            except WouldBlock as error:
                raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, _BUSY) from error
            try:
                return await run_sync(partial(route, **arguments), limiter=threads)
            finally:
                places.release_on_behalf_of(place)

        return answer

    return decorate
