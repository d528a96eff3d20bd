"""The windows of one Spark application: one after another, or several at once."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence, Set as AbstractSet, Sized
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Condition

from pyspark.sql import SparkSession

from airflow_kafka_offsets.compat.spark_versions import alongside, confs_of
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    FailedWindow,
    KafkaOffsetsError,
    SparkFailedError,
    WindowsFailedError,
    number_of,
)
from airflow_kafka_offsets.offsets.instants import duration_text
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.session.conf import BATCH, BATCH_SHA256, RunConf, batch_from_bytes
from airflow_kafka_offsets.spark.session.files import files_of
from airflow_kafka_offsets.spark.session.session import cores, require_driver
from airflow_kafka_offsets.spark.window.ledger import SharedLog

_MOST_AT_ONCE = 16
"""Unless the user says more: a small window costs the driver more than the executors."""
_EVERY_S = 10.0
"""Between two lines about the progress; the last one comes at once."""


def pinned_windows(spark: SparkSession) -> Iterator[PinnedWindow]:
    """The windows that this job was submitted for, in order of time, each opened when it comes; one if it was submitted
    for one::

        for window in pinned_windows(spark):
            window.write(window.read(), FileSink("s3://lake/orders"))

    An error that ends the loop keeps the windows after it from being loaded: the task's next try loads them.
    :func:`load_windows` goes on, and loads several at once. A window that can't be opened doesn't end the loop: it is
    left out, and its error is raised after the last one.

    :raises ConfigurationError: when a conf is missing or malformed.
    :raises LedgerCorruptError: when the file that names the windows isn't the one that was stored.
    :raises WindowsFailedError: after the last window, when some couldn't be opened.
    """
    logs: dict[str, SharedLog] = {}
    failed: list[FailedWindow] = []
    confs = run_confs(spark)
    for conf in confs:
        try:
            window = PinnedWindow.open(spark, conf, logs)
        except KafkaOffsetsError as error:
            failed.append(_failed(conf, error))
            continue
        yield window
    if failed:
        raise WindowsFailedError(failed, len(confs))


def load_windows(
    spark: SparkSession, load_one: Callable[[PinnedWindow], object], *, at_once: int | None = None
) -> None:
    """Load the windows that this job was submitted for, several at once. One that fails doesn't hold up the others::

        load_windows(spark, lambda window: window.write(window.read(), FileSink("s3://lake/orders")))

    They begin in order of time, and those that go to the same table are written to it in that order. Now and then a
    line on stderr says how many are done.

    :param load_one: reads and writes one window. It is called in several threads. What it returns isn't kept. If it
        fails, the window's attempt has failed, also after the window was written.
    :param at_once: how many windows at once; by default as many as Spark runs tasks, at least 2 and at most 16.
    :raises ConfigurationError: when a conf is missing or malformed, ``at_once`` is below 1, or the session is a Spark
        Connect client.
    :raises LedgerCorruptError: when the file that names the windows isn't the one that was stored.
    :raises WindowsFailedError: in the end, when some have failed; if there is only one, its own error.
    """
    require_driver(spark, "Loading several windows at once")
    most = max(2, min(cores(spark) or 1, _MOST_AT_ONCE)) if at_once is None else at_once
    if most < 1:
        raise ConfigurationError(f"at_once must be 1 or more, not {at_once}.")
    confs, logs = run_confs(spark), dict[str, SharedLog]()
    turns, alone = Turns(len(confs)), len(confs) == 1
    rows, failed = list[int](), dict[int, Exception]()
    began = told = time.monotonic()
    pool = ThreadPoolExecutor(most, thread_name_prefix="kafka-offsets-window")
    try:
        running: dict[Future[int], int] = {}
        for place, conf in enumerate(confs):
            work = partial(_load, spark, conf, logs, partial(turns.taken, place), load_one, alone=alone)
            begun = pool.submit(alongside(spark, work))
            begun.add_done_callback(partial(turns.end, place))
            running[begun] = place
        while running:
            for ended in wait(running, timeout=_EVERY_S, return_when=FIRST_COMPLETED).done:
                place, error = running.pop(ended), ended.exception()
                if error is None:
                    rows.append(ended.result())
                elif isinstance(error, Exception):
                    failed[place] = error if alone else _kept(error, failed.values())
                else:
                    raise error
            now = time.monotonic()
            if not alone and (not running or now - told >= _EVERY_S):
                told = now
                print(f"kafka-offsets: {_progress(confs, rows, failed, now - began)}", file=sys.stderr, flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    if failed and alone:
        raise failed[0]
    if failed:
        raise WindowsFailedError([_failed(confs[place], failed[place]) for place in sorted(failed)], len(confs))


def _load(
    spark: SparkSession,
    conf: RunConf,
    logs: dict[str, SharedLog],
    turn: Callable[[AbstractSet[str]], AbstractContextManager[None]],
    load_one: Callable[[PinnedWindow], object],
    *,
    alone: bool,
) -> int:
    """Open and load one window, in a thread. Returns how many rows were written.

    :param alone: it is the only one: then the end of the log says why the application has failed.
    """
    window = PinnedWindow.open(spark, conf, logs)
    window.turn = turn
    try:
        load_one(window)
    except Exception as error:
        if window.ledger is not None and (isinstance(error, KafkaOffsetsError) or not alone):
            window.ledger.note_failure(error if isinstance(error, KafkaOffsetsError) else _own(error))
        raise
    return window.rows_written


def _kept(error: Exception, before: Iterable[Exception]) -> Exception:
    """One of several windows' errors, for the end. Of an application's own, the first of a kind is shown whole now: the
    end of the log only names it. What it was raised from is let go: the frames hold a window, and its rows in Java."""
    if not isinstance(error, KafkaOffsetsError) and type(error) not in set(map(type, before)):
        traceback.print_exception(error)
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def _own(error: Exception) -> SparkFailedError:
    """What is noted of an application's own error, whose message may contain anything."""
    return SparkFailedError(f"The application failed at this window with {type(error).__name__}. Its log says why.")


def run_confs(spark: SparkSession) -> list[RunConf]:
    """What this driver was told of each of its windows.

    :raises ConfigurationError: when a conf is missing or malformed.
    :raises LedgerCorruptError: when the file that names the windows isn't the one that was stored.
    """
    confs = confs_of(spark)
    uri, sha256 = confs.get(BATCH), confs.get(BATCH_SHA256)
    if uri is None or sha256 is None:
        return [RunConf.read(confs, os.environ)]
    return RunConf.of_batch(confs, os.environ, batch_from_bytes(files_of(spark).read(uri), sha256, uri))


def _failed(conf: RunConf, error: Exception) -> FailedWindow:
    pipeline, _, window, _ = conf.manifest_uri.rsplit("/", 3)
    return FailedWindow(window, pipeline.rpartition("/")[2], error)


def _progress(windows: Sized, rows: Sequence[int], failed: Sized, seconds: float) -> str:
    """How far an application is with its windows.

    :param rows: how many were written, by window that is done.
    """
    ended = len(rows) + len(failed)
    left = len(windows) - ended
    words = [f"{len(rows)} of {number_of(len(windows), 'window')} done"]
    words += [f"{len(failed)} failed"] if failed else []
    words.append(f"{sum(rows):,} rows")
    if not left:
        words.append(f"in {duration_text(seconds)}")
    elif ended:
        words.append(f"about {duration_text(seconds / ended * left)} left")
    return ", ".join(words)


class Turns:
    """Windows that are loaded at once and written to the same table are written one after another, in order of time.

    A table's library refuses one of two commits that come at the same time, and who reads the table as it grows gets
    its windows in order. Which tables a window is written to is known only once its application says so. So a window
    waits for all windows before it, until each has ended, or has said that it goes elsewhere.

    :param windows: how many there are; each has a place in their order.
    """

    def __init__(self, windows: int) -> None:
        self._changed = Condition()
        self._tables: dict[int, AbstractSet[str] | None] = dict.fromkeys(range(windows))
        """Of each window that hasn't ended; None while it hasn't said them."""

    @contextmanager
    def taken(self, place: int, tables: AbstractSet[str]) -> Iterator[None]:
        """Wait for a window's turn; it is the next one's after the block.

        :param tables: those that the window is written to.
        """
        self._say(place, tables)
        try:
            yield
        finally:
            self._say(place, frozenset())

    def _say(self, place: int, tables: AbstractSet[str]) -> None:
        with self._changed:
            self._tables[place] = tables
            self._changed.notify_all()
            self._changed.wait_for(lambda: not (tables and self._before(tables, place)))

    def _before(self, tables: AbstractSet[str], place: int) -> bool:
        """Whether a window before may still be written to one of these tables."""
        earlier = (said for other, said in self._tables.items() if other < place)
        return any(said is None or said & tables for said in earlier)

    def end(self, place: int, _: object = None) -> None:
        """A window has been loaded, or has failed, or isn't to be loaded any more."""
        with self._changed:
            self._tables.pop(place, None)
            self._changed.notify_all()
