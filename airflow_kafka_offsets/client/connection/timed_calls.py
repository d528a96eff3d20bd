"""Calls with a time limit, of a function that can't be interrupted, such as one that a user wrote."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextvars import copy_context
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class TimedCalls(Generic[T]):
    """Makes one call at a time, each in its own thread. A call that takes too long goes on, and its result is the next
    one's: no call starts beside another, however often the result is asked for. For one thread at a time.

    :param thread: name of the threads.
    :param is_stale: whether a result is too old by the time when the next one is asked for.
    """

    def __init__(self, function: Callable[[], T], thread: str, is_stale: Callable[[T], bool]) -> None:
        self._function = function
        self._thread = thread
        self._is_stale = is_stale
        self._running: Future[T] | None = None

    def result(self, timeout_s: float) -> T | None:
        """The result of the call that took too long, or else of a new one; None when it takes longer.

        :raises Exception: whatever the function raises.
        """
        running = self._running
        if running is None or (running.done() and not running.exception() and self._is_stale(running.result())):
            running = self._running = Future()
            run = copy_context().run
            Thread(target=run, args=(self._settle, running), name=self._thread, daemon=True).start()
        if not wait_for([running], timeout_s).done:
            return None
        self._running = None
        return running.result()

    def _settle(self, running: Future[T]) -> None:
        try:
            running.set_result(self._function())
        except BaseException as error:
            running.set_exception(error)
