"""The Spark application of a load that runs: found by the note that its driver writes to the ledger before it reads.

A thread looks for the note while the submit waits. Nothing here fails or delays a load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication

_LOOK_S = 2.0
"""Between two looks into the ledger."""
_PATIENT_S = 60.0
"""The same, after its store has failed."""
_FIRST = 3
"""How many attempts are looked at: a window may fail before its attempt is noted."""
_FAREWELL_S = 1.0
"""How long the end of a load waits for a look in progress."""


@contextmanager
def found_application(
    attempts: Sequence[AttemptFiles], log: Any, on_found: Callable[[SparkApplication], None]
) -> Iterator[None]:
    """Log the driver's Spark application and the address of its UI, once it has started, until the block ends.

    :param attempts: what the driver makes, in order: it notes itself with each one as it begins.
    :param on_found: called in the thread with the application; its errors are logged.
    """
    ended = Event()
    thread = Thread(target=_watch, args=(ended, attempts[:_FIRST], log, on_found), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_FAREWELL_S)


def _watch(
    ended: Event, attempts: Sequence[AttemptFiles], log: Any, on_found: Callable[[SparkApplication], None]
) -> None:
    pause_s = _LOOK_S
    while not ended.wait(pause_s):
        try:
            found = [each for attempt in attempts for each in attempt.applications()]
            if found and not ended.is_set():  # once a task has ended, its links are Airflow's to make
                application = max(found, key=lambda each: each.ui is not None)
                where = f"; its UI is {application.ui}" if application.ui else ""
                log.info("Spark application %s is running%s", application.id, where)
                on_found(application)
            if found:
                return
        except Exception as error:  # of any kind, as each store has its own: a load must not fail for lack of a link
            log.info("No link to Spark's UI yet: %r", error)
            pause_s = _PATIENT_S
