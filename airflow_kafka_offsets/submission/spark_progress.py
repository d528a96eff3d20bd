"""Progress: how far Spark has come with a window, in the task's log while the submit waits.

Before it reads, the driver notes in the ledger which Spark application its attempt is. A thread looks for that note,
then asks the application's REST API how many tasks of the running stage are done. Nothing here fails or delays a load:
one line says what is unknown, and the thread asks again at longer intervals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

import httpx

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
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

    :param note_key: the key with which it signs its note; None for a driver of an earlier try, whose key isn't kept:
        its UI isn't asked.
    :param on_yarn: its UI redirects to the ResourceManager's proxy.
    """

    attempt: str
    note_key: str | None = field(repr=False)
    on_yarn: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Stage:
    """An attempt at one of Spark's stages: an element of ``/stages``.

    :param status: ``ACTIVE``, ``COMPLETE``, ``FAILED``, ``PENDING`` or ``SKIPPED``.
    :param done: how many of its tasks are done; a task that ran twice counts once.
    """

    number: int
    attempt: int
    status: str
    tasks: int
    done: int

    @classmethod
    def from_json(cls, fields: Any) -> Stage:
        names = ("stageId", "attemptId", "numTasks", "numCompletedIndices")
        number, attempt, tasks, done = (int(fields[name]) for name in names)
        return cls(number, attempt, str(fields["status"]), tasks, done)


class StageTeller:
    """Logs the stages of an application, from its REST API, one at a time: the oldest running stage, until it is
    over."""

    def __init__(self, spark: httpx.Client, log: Any) -> None:
        self._spark = spark
        self._log = log
        self._stage: Stage | None = None
        self._done_at_first, self._since_s = 0, 0.0

    def tell(self, at_s: float) -> None:
        """Ask how far the stage is, and log it. ``at_s`` is the current time on the monotonic clock.

        :raises httpx.HTTPError: when the UI isn't there, or doesn't answer with status 200.
        :raises ValueError: when the answer isn't JSON, such as a login page.
        """
        followed, self._stage = self._stage, None
        if followed is not None:
            stage = Stage.from_json(self._ask(f"stages/{followed.number}/{followed.attempt}?details=false"))
            if stage.status == "COMPLETE":
                self._log.info("Stage %s is done", stage.number)
            self._stage = stage if stage.status == "ACTIVE" else None
        if self._stage is None:
            self._stage = min(map(Stage.from_json, self._ask("stages?status=active")), default=None)
            if self._stage is not None:
                self._done_at_first, self._since_s = self._stage.done, at_s
        if self._stage is not None:
            self._log.info(self._line(self._stage, at_s))

    def _line(self, stage: Stage, at_s: float) -> str:
        share = 100 * stage.done // stage.tasks
        percent = f"{share} %" if share or not stage.done else "under 1 %"
        line = f"{stage.done:,} of {stage.tasks:,} tasks of stage {stage.number} ({percent})"
        done = stage.done - self._done_at_first
        if done <= 0:
            return line
        left_s = (stage.tasks - stage.done) * (at_s - self._since_s) / done
        return f"{line}, {duration_text(max(left_s, 1))} left"

    def _ask(self, path: str) -> Any:
        return self._spark.get(path).raise_for_status().json()


@contextmanager
def progress_told(folder: WindowFolder, watched: Watched, log: Any, on_found: OnFound) -> Iterator[None]:
    """Log how far Spark has come, until the block ends.

    :param watched: the driver that the block waits for.
    :param on_found: called in the thread, once the driver has started; its errors are ignored.
    """
    ended = Event()
    thread = Thread(target=_watch, args=(ended, folder, watched, log, on_found), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_FAREWELL_S)


def _watch(ended: Event, folder: WindowFolder, watched: Watched, log: Any, on_found: OnFound) -> None:
    try:
        application = _application(ended, folder, watched, log)
        if application is None or ended.is_set():  # once a task has ended, its links are Airflow's to make
            return
        with suppress(Exception):
            on_found(application)
        if application.ui is None:
            log.info("No progress: Spark application %s %s", application.id, _why_unasked(watched))
            return
        log.info("Spark application %s is running; its UI is %s", application.id, application.ui)
        with _rest_api(application.ui, application.id, redirected=watched.on_yarn) as spark:
            _follow(ended, StageTeller(spark, log), log)
    except Exception as error:  # of any kind: a load must not fail for lack of progress
        log.info("No progress of the load will be shown: %r", error)


def _why_unasked(watched: Watched) -> str:
    if watched.note_key is None:
        return "was submitted by an earlier try, and the key that vouches for its UI's address isn't kept"
    return "has no UI (spark.ui.enabled=false), or its note in the ledger isn't signed by this load's driver"


def _application(ended: Event, folder: WindowFolder, watched: Watched, log: Any) -> SparkApplication | None:
    """The driver's note; None if the load ended first."""
    pause_s, said = _LOOK_S, False
    while not ended.wait(pause_s):
        try:
            found = folder.application(watched.attempt, watched.note_key)
        except LedgerCorruptError:  # half-written
            continue
        except Exception as error:  # each store has its own errors
            pause_s = _PATIENT_S
            if not said:
                log.info("No progress yet: the ledger can't be asked for the driver's note (%r)", error)
            said = True
            continue
        if found is not None:
            return found
        pause_s = _LOOK_S
    return None


def _rest_api(ui: str, application_id: str, *, redirected: bool) -> httpx.Client:
    """On YARN a driver redirects to the ResourceManager's proxy; elsewhere only the driver itself may answer. Nothing
    is taken from the environment, neither proxies nor .netrc, so no credential is ever sent.
    """
    base = f"{ui.rstrip('/')}/api/v1/applications/{application_id}/"
    return httpx.Client(base_url=base, timeout=_TIMEOUT_S, follow_redirects=redirected, trust_env=False)


def _follow(ended: Event, teller: StageTeller, log: Any) -> None:
    """Ask and log until the load ends. A UI that doesn't answer, as on some clusters, is asked less often."""
    missed, said = 0, False
    while not ended.wait(_ASK_S if missed < _TRIES else _PATIENT_S):
        try:
            teller.tell(time.monotonic())
            missed = 0
        except Exception as error:  # no answer, a proxy's answer, or a login page
            missed += 1
            if missed == _TRIES and not said:
                log.info("No progress for now: Spark's UI can't be asked from here (%r)", error)
                said = True
