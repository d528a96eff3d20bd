"""The batch: attempts that began together, for one Spark application to make; and that application, found while it runs
by the note that its driver writes to the ledger before it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.ledger.entries import Attempted
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.partitions import span_of
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote, SparkApplication, note_of
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.submission.spark_failure import noted_failure

BATCH = "batch"
"""Key of a batch's id, in what the ledger notes of who has begun an attempt."""
_TASKS_LOG = "the load's own task says why, in the log of that try"
_LOOK_S = 2.0
"""Between two looks into the ledger."""
_PATIENT_S = 60.0
"""The same, after its store has failed."""
_FIRST = 3
"""How many attempts are looked at: a window may fail before its attempt is noted."""
_FAREWELL_S = 1.0
"""How long the end of a load waits for a look in progress."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Attempts that began together, for one Spark application to make.

    :param id: noted with each of them, as the application's own id isn't known then.
    :param attempts: by window, in order of time.
    """

    id: str
    attempts: Mapping[Wanted, Attempted]

    @property
    def numbers(self) -> list[tuple[Wanted, int]]:
        """The windows, each with the number of its attempt."""
        return [(each, attempt.number) for each, attempt in self.attempts.items()]

    @property
    def span(self) -> int:
        """How many offsets the application reads."""
        return sum(each.window.offsets - span_of(attempt.lost) for each, attempt in self.attempts.items())

    def files(self) -> list[AttemptFiles]:
        """What drivers have said of each attempt."""
        return [files_of(*each) for each in self.attempts.items()]

    def unfinished(self) -> Batch:
        """The part of it of which nothing is counted yet. All of it, if it is one window: its application may have more
        to do once that is counted."""
        return self if len(self.attempts) == 1 else self._without(_is_counted)

    def unnoted(self) -> Batch:
        """The part of it of which no driver has noted how it ended."""
        return self._without(lambda files: files.is_noted)

    def _without(self, is_so: Callable[[AttemptFiles], bool]) -> Batch:
        found = in_parallel(is_so, self.files())
        return Batch(self.id, dict(pair for pair, so in zip(self.attempts.items(), found, strict=True) if not so))

    def end(self, failure: Exception) -> None:
        """Record that all attempts have failed, with the error's own words: see :func:`record`."""
        _note({each: (attempt, note_of(failure)) for each, attempt in self.attempts.items()})


def files_of(wanted: Wanted, attempt: Attempted) -> AttemptFiles:
    """What drivers have said of an attempt."""
    return wanted.ledger.attempt(wanted.name, attempt.number)


def record(failures: Mapping[Wanted, tuple[Attempted, Exception]]) -> None:
    """Record that attempts have failed: then what their drivers may have counted isn't published, and the next try
    begins others. Their words may quote what Spark has printed, from which only Airflow's log hides secrets."""
    notes = {
        each: (attempt, FailureNote(type(failure).__name__, _TASKS_LOG, now_ms()))
        for each, (attempt, failure) in failures.items()
    }
    _note(notes)


def _note(notes: Mapping[Wanted, tuple[Attempted, FailureNote]]) -> None:
    def write(each: Wanted) -> None:
        attempt, note = notes[each]
        with suppress(Exception):  # stores raise errors of their own; the failure itself must be raised
            files_of(each, attempt).record_failure(note)

    in_parallel(write, notes)


def _is_counted(files: AttemptFiles) -> bool:
    """Whether a driver has a result that stands, as far as the store can be asked now."""
    with suppress(Exception):  # as in :func:`record`
        return bool(files.results())
    return False


def in_order(attempts: Mapping[Wanted, Attempted]) -> dict[Wanted, Attempted]:
    """Attempts in order of their windows' time: so they are loaded."""
    return dict(sorted(attempts.items(), key=lambda pair: (pair[0].name, pair[0].ledger.pipeline)))


def noted(files: AttemptFiles, failure: Exception | None) -> Exception | None:
    """Why an attempt failed: what a driver has noted, or else what a task that was killed has recorded, or else what
    this try knows."""
    note = noted_failure(files)
    return failure if note is None else note.as_error()


@contextmanager
def found_application(
    attempts: Sequence[AttemptFiles], log: Any, on_found: Callable[[SparkApplication], None]
) -> Iterator[None]:
    """Log the driver's Spark application and the address of its UI, once it has started, until the block ends. A thread
    looks for it, which fails or delays no load.

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
