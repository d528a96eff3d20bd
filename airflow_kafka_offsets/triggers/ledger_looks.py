"""Triggers that look into ledgers, and ask clusters, now and then: until a window is loaded, or a driver has ended.

Stores and clusters block, and some hang. So each has a few threads of its own that nothing else waits for, each look
has a deadline, and a trigger begins no other look at the same place before the last one has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerConflictError, or_error
from airflow_kafka_offsets.hooks.ledger import ledger_of
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.ledger.counted import left_to_publish
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.offsets.instants import duration_text
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.references import WindowRef
from airflow_kafka_offsets.submission.driver import status_of
from airflow_kafka_offsets.triggers.wait import refusing_arguments

MOST_THREADS = 8
"""For each store: at most this many looks are under way, and the others wait their turn."""
LONGEST_LOOK_S = 60.0
"""A look that takes longer is reported, but goes on: nothing can end it."""


@cache
def threads_for(place: str) -> ThreadPoolExecutor:
    """The threads that look at one store or cluster. Kept forever: those that hang outlive whoever waits for them."""
    return ThreadPoolExecutor(MOST_THREADS, thread_name_prefix=f"looks-{place}")


def store_of(root: str) -> str:
    """The store that ledgers are on: a bucket, a container, or this machine's disks.

    :param root: folder of all ledgers, as the user gives it.
    """
    place = urlsplit(root)
    return f"{place.scheme or 'file'}://{place.netloc.rpartition('@')[2]}"


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
        self.ledger_name = f"The ledger at {self.ref.ledger_root}"
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

    async def look_into_ledger(self, ask: Callable[[], Any]) -> Any:
        """What a look into the window's ledger finds; None as long as its store doesn't answer."""
        return await self.look(self.ledger_name, store_of(self.ref.ledger_root), ask)

    async def look(self, who: str, place: str, ask: Callable[[], Any]) -> Any:
        """The answer of a store or cluster; None as long as there is none.

        :param who: its name in the log.
        :param place: whose threads ask it.
        """
        look = self._late.pop(who, None) or threads_for(place).submit(ask)
        ended = asyncio.wrap_future(look)
        ended.add_done_callback(lambda each: each.cancelled() or each.exception())  # asyncio logs what nobody retrieves
        await asyncio.wait([ended], timeout=LONGEST_LOOK_S)
        if not look.done():
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


class KafkaDriverEndedTrigger(KafkaLookTrigger):
    """
    Asks the cluster for a driver's state, and the ledger for its result, until either says that it is over.

    The event is ``{"status": "noted"}`` once the ledger has a result or failure of the attempt, or ``{"status":
    "ended", "state": "FAILED", "active": False, "succeeded": False}`` with the state that the cluster reports. The wait
    ends with the driver as long as one of the two answers.

    :param window: the reference to the window that the driver loads; of several, to the last one.
    :param attempt: number of the attempt that it makes at it.
    :param conn_id: id of the Spark connection.
    :param deploy_mode: the operator's deploy mode; None for the connection's.
    :param job_id: YARN application id, or namespace and pod on Kubernetes.
    """

    shortest_s = 5.0
    """Each look takes several requests to the cluster and to the ledger's store."""

    def __init__(
        self,
        *,
        window: dict[str, Any],
        attempt: int,
        conn_id: str,
        deploy_mode: str | None,
        job_id: str,
        poll_interval_s: float,
    ) -> None:
        super().__init__(window=window, poll_interval_s=poll_interval_s)
        self._attempt = attempt
        self._driver = (conn_id, deploy_mode, job_id)

    def what(self) -> dict[str, Any]:
        conn_id, deploy_mode, job_id = self._driver
        return {"attempt": self._attempt, "conn_id": conn_id, "deploy_mode": deploy_mode, "job_id": job_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        driver = conn_id, _, job_id = self._driver
        while True:
            cluster = f"spark-connection://{conn_id}"
            status = await self.look(f"The cluster of driver {job_id}", cluster, lambda: status_of(*driver))
            # After the cluster: if the driver had ended, what it noted is there now.
            if await self.look_into_ledger(self._is_noted):
                yield TriggerEvent({"status": "noted"})
                return
            if status is not None:
                self.say("The driver", f"Driver {job_id} is {status.state}.")
                if not status.active:
                    yield TriggerEvent({"status": "ended", **asdict(status)})
                    return
            await asyncio.sleep(self.poll_interval_s)

    def _is_noted(self) -> bool:
        """Whether the driver has noted how its attempt ended. The log isn't read."""
        return ledger_of(self.ref.ledger_root, self.ref.pipeline).attempt(self.ref.window, self._attempt).is_noted


class KafkaWindowLoadedTrigger(KafkaLookTrigger):
    """
    Looks into the ledger until the window is loaded: published; or counted by a driver and proved, so that it can be
    published. Wherever its load runs.

    The event is ``{"status": "done"}``, or ``{"status": "failed", "message": "...", "retriable": False}`` when waiting
    can't help, for example because the window was voided; ``retriable`` says whether a retry of the task may help.

    :param attempt: number of the attempt that a prepared load began at the window; None without a prepared load. If it
        can't be published any more, or all its drivers have ended and one has noted a failure, waiting can't help.
    """

    def __init__(self, *, window: dict[str, Any], poll_interval_s: float, attempt: int | None = None) -> None:
        super().__init__(window=window, poll_interval_s=poll_interval_s)
        self._attempt = attempt

    def what(self) -> dict[str, Any]:
        return {"attempt": self._attempt}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            # In a thread from the start, because looking up the connection in the ledger's root blocks too.
            found = await self.look_into_ledger(
                lambda: or_error(lambda: is_loaded(self.ref, self.ref.ledger(), self._attempt))
            )
            if isinstance(found, KafkaOffsetsError):
                yield TriggerEvent({"status": "failed", "message": str(found), "retriable": found.retriable})
                return
            if found:
                yield TriggerEvent({"status": "done"})
                return
            if found is not None:
                self.say(self.ledger_name, f"Window {self.ref.window} isn't loaded yet.")
            await asyncio.sleep(self.poll_interval_s)


def is_loaded(ref: WindowRef, ledger: Ledger, attempt: int | None = None) -> bool:
    """Whether a window is published, or can be.

    :param attempt: number of the attempt that a prepared load began.
    :raises KafkaOffsetsError: when waiting can't help. A LedgerConflictError if that attempt can't be published any
        more; or the failure of its drivers, when all of them have ended and left nothing that can be published.
    """
    window = ref.window_in(ledger)
    if window.loaded is not None:
        return True
    # Before the results: they then include what the last running driver counts in the meantime.
    failure = None if attempt is None else _failure(ledger.attempt(ref.window, attempt))
    if left_to_publish(ledger, window) is not None:
        return True
    if attempt is not None and attempt not in [each.number for each in window.open_attempts]:
        raise LedgerConflictError(
            f"Attempt {attempt} at window {ref.window} can't be published any more: the window is to be loaded again, "
            "or was voided and resolved again, since it was prepared. Clear the task that prepares the load."
        )
    if failure is not None:
        ended = f"All drivers of attempt {attempt} have ended, and none has left a result that can be published"
        raise replace(failure, message=f"{failure.message.rstrip('.')}. {ended}: submit the load again.").as_error()
    return False


def _failure(files: AttemptFiles) -> FailureNote | None:
    """Why an attempt failed; None while one of its drivers runs, or none has started."""
    runs = files.runs().values()
    return None if any(kinds == {"note"} for kinds in runs) else files.failure()
