"""Progress: how far Spark has come with a window, in the task's log while the submit waits.

Before it reads, the driver notes in the ledger which Spark application it is. A thread looks for that note, then asks
the application's REST API how many tasks of the running stage are done. Nothing here fails or delays a load: one line
says what is unknown, and the thread asks again at longer intervals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

import httpx

from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.offsets.instants import duration_text
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication

_LOOK_S = 2.0
"""Between two looks into the ledger, until the driver has started."""
_ASK_S = 10.0
"""Between two questions to Spark; each answer is a line in the log."""
_TIMEOUT_S = 5.0
_TRIES = 3
"""Unanswered questions in a row before the UI counts as unreachable: it is slow while Spark starts."""
_PATIENT_S = 60.0
"""Between two looks or questions while there is no answer."""
_FAREWELL_S = 1.0
"""How long the end of a load waits for a question in progress."""

OnFound = Callable[[SparkApplication], None]


@dataclass(frozen=True, slots=True)
class Watched:
    """The driver that the load waits for.

    :param attempt: the files of its attempt.
    :param note_key: the key with which it signs its note. That of an earlier try's driver isn't kept: its UI isn't
        asked.
    :param on_yarn: its UI redirects to the ResourceManager's proxy.
    """

    attempt: AttemptFiles
    note_key: str = field(repr=False)
    on_yarn: bool = False


@contextmanager
def progress_told(watched: Watched, log: Any, on_found: OnFound) -> Iterator[None]:
    """Log how far Spark has come, until the block ends.

    :param on_found: called in the thread, once the driver has started; its errors are ignored.
    """
    ended = Event()
    thread = Thread(target=_watch, args=(ended, watched, log, on_found), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_FAREWELL_S)


def _watch(ended: Event, watched: Watched, log: Any, on_found: OnFound) -> None:
    try:
        found = _application(ended, watched, log)
        if found is None or ended.is_set():  # once a task has ended, its links are Airflow's to make
            return
        with suppress(Exception):
            on_found(found)
        if found.ui is None:
            log.info(
                "No progress: Spark application %s has no UI (spark.ui.enabled=false), or its note in the ledger isn't "
                "signed by a driver that this try has submitted",
                found.id,
            )
            return
        log.info("Spark application %s is running; its UI is %s", found.id, found.ui)
        with _rest_api(found, redirected=watched.on_yarn) as spark:
            _follow(ended, spark, log)
    except Exception as error:  # of any kind: a load must not fail for lack of progress
        log.info("No progress of the load will be shown: %r", error)


def _application(ended: Event, watched: Watched, log: Any) -> SparkApplication | None:
    """The driver's note, the signed one if there are several; None if the load ended first."""
    pause_s, said = _LOOK_S, False
    while not ended.wait(pause_s):
        try:
            found = watched.attempt.applications(watched.note_key)
        except Exception as error:  # each store has its own errors
            if not said:
                log.info("No progress yet: the ledger can't be asked for the driver's note (%r)", error)
            pause_s, said = _PATIENT_S, True
            continue
        if found:
            return max(found, key=lambda each: each.ui is not None)
        pause_s = _LOOK_S
    return None


def _rest_api(application: SparkApplication, *, redirected: bool) -> httpx.Client:
    """On YARN a driver redirects to the ResourceManager's proxy; elsewhere only the driver itself may answer. Nothing
    is taken from the environment, neither proxies nor .netrc, so no credential is ever sent.
    """
    base = f"{str(application.ui).rstrip('/')}/api/v1/applications/{application.id}/"
    return httpx.Client(base_url=base, timeout=_TIMEOUT_S, follow_redirects=redirected, trust_env=False)


def _follow(ended: Event, spark: httpx.Client, log: Any) -> None:
    """Ask and log until the load ends. A UI that doesn't answer, as on some clusters, is asked less often."""
    missed, first = 0, None
    while not ended.wait(_ASK_S if missed < _TRIES else _PATIENT_S):
        try:
            stage = oldest_running(spark, time.monotonic())
            missed = 0
        except Exception as error:  # no answer, a proxy's answer, or a login page
            missed += 1
            if missed == _TRIES:
                log.info("No progress for now: Spark's UI can't be asked from here (%r)", error)
            continue
        first = first if first is not None and stage is not None and stage.number == first.number else stage
        if stage is not None and first is not None:
            log.info(stage.line(first))


@dataclass(frozen=True, slots=True)
class Stage:
    """How far one of Spark's stages is: an element of ``/stages``.

    :param done: how many of its tasks are done; a task that ran twice counts once.
    :param at_s: when that was asked, on the monotonic clock.
    """

    number: int
    tasks: int
    done: int
    at_s: float

    def line(self, first: Stage) -> str:
        """For the log: how many tasks are done, and the time left by how many were done since the first look."""
        share = 100 * self.done // self.tasks
        percent = f"{share} %" if share or not self.done else "under 1 %"
        line = f"{self.done:,} of {self.tasks:,} tasks of stage {self.number} ({percent})"
        since = self.done - first.done
        if since <= 0:
            return line
        left_s = (self.tasks - self.done) * (self.at_s - first.at_s) / since
        return f"{line}, {duration_text(max(left_s, 1))} left"


def oldest_running(spark: httpx.Client, at_s: float) -> Stage | None:
    """The oldest of the stages that run; None when none does.

    :raises httpx.HTTPError: when the UI isn't there, or doesn't answer with status 200.
    :raises ValueError: when the answer isn't JSON, such as a login page.
    """
    stages = spark.get("stages?status=active").raise_for_status().json()
    found = [
        Stage(int(each["stageId"]), int(each["numTasks"]), int(each["numCompletedIndices"]), at_s) for each in stages
    ]
    return min(found, key=lambda stage: stage.number, default=None)
