"""Drivers that die between any two of their steps, and loads that last long enough to be killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, functions as F

from airflow_kafka_offsets.spark import Sink
from airflow_kafka_offsets.spark.session.files import HadoopFiles
from airflow_kafka_offsets.spark.sinks import table_sink
from tests.integration.spark.sinks.example import PostgresSink, Transaction
from tests.patience import PATIENCE_S

_STEPS = ("make_folder", "write")
"""What changes a store, of the driver's own work."""
_STEPS_OF_TABLES = ("_create", "_make_branch", "_overwrite", "_take_over")
"""And what changes a table, but for its owner's name."""


class Died(BaseException):
    """The driver is gone: nothing that catches errors sees it."""


@contextmanager
def dying(steps: int, *sinks: Sink) -> Iterator[None]:
    """Let the driver live that many steps: changes of a store, the write of the rows, and what commits them.

    :raises Died: before the next one.
    """
    left = iter(range(steps))

    def or_die(work: Callable[..., object]) -> Callable[..., object]:
        def step(*arguments: object) -> object:
            if next(left, None) is None:
                raise Died
            return work(*arguments)

        return step

    close = Transaction.__exit__

    def close_or_die(transaction: object, error: object, *others: object) -> None:
        dies = error is None and next(left, None) is None
        # With the process its connection ends too.
        close(transaction, Died if dies else error, *others)
        if dies:
            raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_sink, "claim", or_die(table_sink.claim))
        for name in _STEPS:
            patch.setattr(HadoopFiles, name, or_die(getattr(HadoopFiles, name)))
        for sink in sinks:
            for name in ("replace", *filter(partial(hasattr, sink), _STEPS_OF_TABLES)):
                patch.setattr(sink, name, or_die(getattr(sink, name)))
            if isinstance(sink, PostgresSink):
                patch.setattr(Transaction, "__exit__", close_or_die)
        yield


@contextmanager
def interrupted(place: str) -> Iterator[None]:
    """Have a driver die where it calls something.

    :param place: a function, by its module.
    """

    def die(*_: object, **__: object) -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, die)
        with pytest.raises(Died):
            yield


def held_up(rows: DataFrame, folder: Path, *, but_for: int | None = None) -> DataFrame:
    """The same rows, once there is a file ``go`` in a folder; a file ``begun`` says that they are being written.

    :param but_for: a partition whose rows come at once.
    """

    @F.udf("boolean")
    def wait(partition: int) -> bool:
        if partition != but_for:
            (folder / "begun").touch()
            while not (folder / "go").exists():
                time.sleep(0.05)
        return True

    return rows.where(wait("partition"))


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 2 * PATIENCE_S
    while not file.exists():
        assert time.monotonic() < deadline, f"no {file}"
        time.sleep(0.05)
