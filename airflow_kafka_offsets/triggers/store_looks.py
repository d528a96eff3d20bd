"""Looks at ledgers' stores, and at clusters, from an event loop. Both block, and some hang. So each has a few threads
of its own that nothing else waits for, each look has a deadline, and no question is asked again before it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from airflow.triggers.base import BaseTrigger

from airflow_kafka_offsets.offsets.instants import duration_text
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.triggers.polls import refusing_arguments

MOST_THREADS = 8
"""For each store: at most this many looks are under way, and the others wait their turn."""
LONGEST_LOOK_S = 60.0
"""A look that takes longer is reported, but goes on: nothing can end it."""


class StoreLooks:
    """The looks under way at one store.

    :param store: its name, for the names of the threads.
    """

    def __init__(self, store: str) -> None:
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix=f"ledgers-{store}")
        self._under_way: dict[Hashable, Future[Any]] = {}
        self._lock = Lock()

    def begin(self, what: Hashable, ask: Callable[[], Any]) -> Future[Any]:
        """Start a look, or join the same one if it is under way.

        :param what: what is looked for: looks for equal values are the same.
        :param ask: asks the store.
        """
        with self._lock:
            found = self._under_way.get(what)
            if found is not None:
                return found
            look = self._under_way[what] = self._threads.submit(ask)
        look.add_done_callback(lambda _: self._forget(what))
        return look

    def _forget(self, what: Hashable) -> None:
        with self._lock:
            del self._under_way[what]


async def ends(look: Future[Any]) -> bool:
    """Wait for a look's end; False when it takes too long, whether in a thread or waiting for one."""
    ended = asyncio.wrap_future(look)
    ended.add_done_callback(lambda each: each.cancelled() or each.exception())  # asyncio logs one that nobody retrieves
    await asyncio.wait([ended], timeout=LONGEST_LOOK_S)  # doesn't cancel the look, which others may have joined
    return look.done()


def looks_at(root: str) -> StoreLooks:
    """The looks at the store that a ledger is on: a bucket, a container, or this machine's disks.

    :param root: folder of all ledgers, as the user gives it.
    """
    place = urlsplit(root)
    return _looks(f"{place.scheme or 'file'}://{place.netloc.rpartition('@')[2]}")


@cache
def _looks(store: str) -> StoreLooks:
    """Kept forever: threads that hang in a store outlive whoever waits for them."""
    return StoreLooks(store)


class KafkaLookTrigger(BaseTrigger):
    """
    Base of the triggers that look at the state of a window now and then. If a store or cluster doesn't answer or can't
    be asked, that is logged, and it is asked again.

    A task with many windows waits for the last one, and then for the last of those that are left: databases have room
    for the reference to one window in a trigger's row, but not to a thousand (64 KB on MySQL).

    :param window: the window's reference, as returned by ``KafkaResolveWindowOperator``.
    :param poll_interval_s: seconds between looks; at least :attr:`shortest_s`.
    """

    shortest_s = 1.0
    """Each look takes several requests to the ledger's store."""

    def __init__(self, *, window: dict[str, Any], poll_interval_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's base class
        with refusing_arguments():
            self.ref = WindowRef.from_json(window)
        self.poll_interval_s = max(poll_interval_s, self.shortest_s)
        self._late: dict[str, Future[Any]] = {}
        self._said: dict[str, str] = {}

    def what(self) -> dict[str, Any]:
        """The arguments that say what is looked for, as plain JSON. Each trigger defines its own."""
        raise NotImplementedError

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__name__}", self.what() | {
            "window": self.ref.to_json(),
            "poll_interval_s": self.poll_interval_s,
        }

    async def look(self, who: str, looks: StoreLooks, what: Hashable, ask: Callable[[], Any]) -> Any:
        """The answer of a store or cluster; None as long as there is none."""
        look = self._late.pop(who, None) or looks.begin(what, ask)
        if not await ends(look):
            self._late[who] = look
            self.say(who, f"{who} didn't answer within {duration_text(LONGEST_LOOK_S)}.")
            return None
        try:
            return look.result()
        except Exception as error:  # each kind of cluster and store raises its own
            self.say(who, f"{who} can't be asked ({type(error).__name__}: {error}).")
            return None

    def say(self, who: str, line: str) -> None:
        """Log the state of a store, cluster or driver, if it has changed."""
        if line != self._said.get(who):
            self.log.info("%s Looking again every %g s.", line, self.poll_interval_s)
        self._said[who] = line
