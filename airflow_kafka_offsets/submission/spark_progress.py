"""Progress: how far Spark has come with a window, in the task's log while the submit waits.

The driver notes in the ledger which application an attempt is before it reads; a thread looks for that note, and then
asks the application's UI (:mod:`~airflow_kafka_offsets.submission.spark_status`). Nothing of this fails or delays a
load: what can't be known is said in one line, and asked again at longer intervals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

from airflow_kafka_offsets.errors import LedgerCorruptError
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.instants import duration_text, rate_text
from airflow_kafka_offsets.offsets.proof.driver_note import SparkApplication
from airflow_kafka_offsets.submission.spark_status import KafkaRead, SparkStatus

_LOOK_S = 2.0
"""Between two looks into the ledger, until the driver has started."""
_ASK_S = 5.0
"""Between two questions to Spark's UI, which learns something every 10 s."""
_TELL_S = 10.0
"""Between two lines in the log."""
_TRIES = 5
"""Questions in a row that may go unanswered before the UI counts as out of reach: it is slow while Spark starts."""
_PATIENT_S = 60.0
"""Between two looks or questions to somebody who doesn't answer."""
_FAREWELL_S = 1.0
"""How long the end of a load waits for a question that is under way."""

OnFound = Callable[[SparkApplication], None]


@dataclass(frozen=True, slots=True)
class Watched:
    """The driver that is waited for.

    :param attempt: the attempt that it makes.
    :param note_key: what it signs its note with; None where that isn't known, so that its UI isn't asked.
    :param on_yarn: its UI sends whoever asks to the ResourceManager's proxy.
    """

    attempt: str
    note_key: str | None = field(repr=False)
    on_yarn: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read at one time.

    :param at_s: monotonic clock, seconds.
    :param records: read by then.
    """

    at_s: float
    records: int


class Pace:
    """How one query gets on: how much, how fast, how long still.

    Executors tell in steps, so the rate is taken between the first step and the newest one.

    :param offsets: offsets in the window. Records are fewer where transactions or compaction leave gaps.
    """

    def __init__(self, offsets: int) -> None:
        self._offsets = offsets
        self._steps: list[Sample] = []

    def line(self, sample: Sample) -> str:
        """Take up a new sample, and say how things stand."""
        if not self._steps or sample.records < self._steps[-1].records:  # a task that failed counts no longer
            self._steps = [sample]
        elif sample.records > self._steps[-1].records:
            self._steps = [self._steps[0], sample]
        first, newest = self._steps[0], self._steps[-1]
        percent = 100 * sample.records // self._offsets or "under 1"
        words = f"{_share(sample.records, self._offsets)} ({percent} %)"
        if newest is first:
            return words
        records, seconds = newest.records - first.records, newest.at_s - first.at_s
        left_s = (self._offsets - newest.records) * seconds / records - (sample.at_s - newest.at_s)
        return f"{words}, {rate_text(records, seconds)}, {duration_text(max(left_s, 1))} left"


class Teller:
    """Which answers of Spark's become a line: one every ten seconds while a query runs, and one at its end.

    :param offsets: offsets in the window.
    :param log: where the lines go.
    """

    def __init__(self, offsets: int, log: Any) -> None:
        self._offsets = offsets
        self._log = log
        self._query: int | None = None
        self._pace, self._next_s = Pace(offsets), 0.0

    def tell(self, read: KafkaRead, at_s: float) -> None:
        """Take up an answer.

        :param at_s: when it came, on the monotonic clock.
        """
        if not read.records:
            return
        if read.query != self._query:
            self._query, self._pace, self._next_s = read.query, Pace(self._offsets), at_s
        line = self._pace.line(Sample(at_s, min(read.records, self._offsets)))
        if at_s < self._next_s:
            return
        if read.running:
            self._log.info(line)
            self._next_s = at_s + _TELL_S - _ASK_S / 2
        else:
            again = f", some of the window's {self._offsets:,} again: a sort does that, and a task that is run anew"
            more = again if read.records > self._offsets else ""
            self._log.info("%s records are read%s", f"{read.records:,}", more)
            self._next_s = float("inf")


@contextmanager
def progress_told(folder: WindowFolder, watched: Watched, offsets: int, log: Any, on_found: OnFound) -> Iterator[None]:
    """Tell in the log how far Spark has come, until the block ends.

    :param folder: the window's folder in the ledger.
    :param watched: the driver that the block waits for.
    :param offsets: offsets in the window.
    :param log: the task's log.
    :param on_found: called in the thread, once the driver has started; its errors are ignored.
    """
    ended = Event()
    thread = Thread(target=_watch, args=(ended, folder, watched, offsets, log, on_found), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_FAREWELL_S)


def _watch(ended: Event, folder: WindowFolder, watched: Watched, offsets: int, log: Any, on_found: OnFound) -> None:
    try:
        application = _application(ended, folder, watched, log)
        if application is None or ended.is_set():  # the links of a task that has ended are Airflow's to make
            return
        with suppress(Exception):
            on_found(application)
        if application.ui is None:
            log.info(
                "No progress: Spark application %s has no UI (spark.ui.enabled=false), or its note in the ledger isn't "
                "signed by this load's driver",
                application.id,
            )
            return
        log.info("Spark application %s runs, its UI is %s", application.id, application.ui)
        if not offsets:
            return
        with SparkStatus(application.ui, application.id, redirected=watched.on_yarn) as status:
            _follow(ended, status, Teller(offsets, log), log)
    except Exception as error:  # whatever it is: a load must not fail for want of its progress
        log.info("No progress of the load is told: %r", error)


def _application(ended: Event, folder: WindowFolder, watched: Watched, log: Any) -> SparkApplication | None:
    """What the driver has noted; None when the load ended before it did."""
    pause_s, said = _LOOK_S, False
    while not ended.wait(pause_s):
        try:
            found = folder.application(watched.attempt, watched.note_key)
        except LedgerCorruptError:  # half written
            continue
        except Exception as error:  # each store has its own
            pause_s = _PATIENT_S
            if not said:
                log.info("No progress yet: the ledger can't be asked for the driver's note (%r)", error)
            said = True
            continue
        if found is not None:
            return found
        pause_s = _LOOK_S
    return None


def _follow(ended: Event, status: SparkStatus, teller: Teller, log: Any) -> None:
    """Ask and tell until the load ends. A UI that doesn't answer, as a cluster's may not, is asked seldom."""
    missed, said = 0, False
    while not ended.wait(_ASK_S if missed < _TRIES else _PATIENT_S):
        try:
            read = status.kafka_read()
        except Exception as error:  # no answer, or a proxy's, or a login page
            missed += 1
            if missed == _TRIES and not said:
                log.info("No progress for now: Spark's UI can't be asked from here (%r)", error)
                said = True
            continue
        missed = 0
        if read is not None:
            teller.tell(read, time.monotonic())


def _share(records: int, offsets: int) -> str:
    for scale, name in ((10**9, "billion"), (10**6, "million")):
        if offsets >= scale:
            return f"{records / scale:.1f} of {offsets / scale:.1f} {name} records"
    return f"{records:,} of {offsets:,} records"
