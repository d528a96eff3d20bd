"""The windows of one Spark application: one after another, or several at once."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import islice

from pyspark.sql import SparkSession

from airflow_kafka_offsets.compat.spark_versions import alongside, confs_of
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    FailedWindow,
    KafkaOffsetsError,
    SparkFailedError,
    WindowsFailedError,
)
from airflow_kafka_offsets.spark.pinned import PinnedWindow
from airflow_kafka_offsets.spark.progress import EVERY_S, Progress
from airflow_kafka_offsets.spark.session.conf import BATCH, BATCH_SHA256, RunConf, batch_from_bytes
from airflow_kafka_offsets.spark.session.connect import cores, files_of, require_driver
from airflow_kafka_offsets.spark.window.ledger import SharedLog
from airflow_kafka_offsets.spark.window.turns import Turns

_MOST_AT_ONCE = 16
"""Unless the user says more: a small window costs the driver more than the executors."""


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
    confs, logs, turns = run_confs(spark), dict[str, SharedLog](), Turns()
    progress, failed, alone = Progress(len(confs)), dict[int, Exception](), len(confs) == 1
    waiting = iter(enumerate(confs))
    with ThreadPoolExecutor(most, thread_name_prefix="kafka-offsets-window") as pool:
        running: dict[Future[int], int] = {}
        while True:
            for place, conf in islice(waiting, most - len(running)):
                turns.begin(place)
                work = partial(_load, spark, conf, logs, turns, place, load_one, alone=alone)
                running[pool.submit(alongside(spark, work))] = place
            if not running:
                break
            for ended in wait(running, timeout=EVERY_S, return_when=FIRST_COMPLETED).done:
                place, error = running.pop(ended), ended.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                if error is not None:
                    failed[place] = error if alone else _kept(error, failed.values())
                progress.ended(ended.result() if error is None else None)
            progress.tell()
    progress.tell(last=True)
    if failed and alone:
        raise failed[0]
    if failed:
        raise WindowsFailedError([_failed(confs[place], failed[place]) for place in sorted(failed)], len(confs))


def _load(
    spark: SparkSession,
    conf: RunConf,
    logs: dict[str, SharedLog],
    turns: Turns,
    place: int,
    load_one: Callable[[PinnedWindow], object],
    *,
    alone: bool,
) -> int:
    """Open and load one window, in a thread. Returns how many rows were written.

    :param alone: it is the only one: then the end of the log says why the application has failed.
    """
    try:
        window = PinnedWindow.open(spark, conf, logs)
        window.turn = partial(turns.taken, place)
        try:
            load_one(window)
        except Exception as error:
            if window.ledger is not None and (isinstance(error, KafkaOffsetsError) or not alone):
                window.ledger.note_failure(error if isinstance(error, KafkaOffsetsError) else _own(error))
            raise
        return window.rows_written
    finally:
        turns.end(place)


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
