"""Deaths: a process now and then kills itself around the creation of a ledger's file, as drawn from a seed.

Airflow's side creates all files of a ledger in one function and replaces those that can be derived in another; a Spark
driver writes its own in a third. They are wrapped here from the outside.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import PurePosixPath
from threading import Timer
from typing import Any, NoReturn

from airflow_kafka_offsets.ledger import storage
from airflow_kafka_offsets.ledger.storage import LedgerPath

CHANCE = 0.008
"""Probability of each kind of death, at each creation."""
DRIVERS_CHANCE = 0.0045
"""The same for a Spark driver. It is lower, because Java and the executor must then be started again."""
_REPLACED_TIMES = 3
"""How much higher the probability is for files that are replaced. There are few of them, so with the usual probability,
a thousand windows may see none of these deaths."""
_FOLDERS = {"log": "commit", "snapshots": "snapshot", "checkpoints": "checkpoint", "files": "list"}
KINDS = ("before", "halfway through", "right after")


def become_mortal(rng: random.Random, last_words: Callable[[str], object], chance: float = CHANCE) -> None:
    """From now on, die around some creations of files.

    :param last_words: called with the cause of death.
    :param chance: probability of each kind of death, at each creation.
    """
    create, replace_file = storage._create, storage.replace_file

    def create_or_die(path: LedgerPath, content: bytes) -> None:
        number = int(rng.random() / chance)
        fate = KINDS[number] if number < len(KINDS) else None
        if fate == "halfway through" and path.protocol == "s3":  # an object store writes files as a whole
            fate = "before"

        def die(*_: object) -> NoReturn:
            last_words(f"{fate} {kind_of(path.path)}")
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("a killed process goes on")

        if fate == "before":
            die()
        if fate == "halfway through":  # the draft is written
            os.link = die  # type: ignore[assignment]  # it never returns
        create(path, content)
        if fate is not None:
            die()

    def replace_or_die(path: LedgerPath, content: bytes) -> None:
        number = int(rng.random() / (_REPLACED_TIMES * chance))
        if number == 0:
            last_words(f"before {kind_of(path.path)}")
            os.kill(os.getpid(), signal.SIGKILL)
        replace_file(path, content)
        if number == 1:
            last_words(f"right after {kind_of(path.path)}")
            os.kill(os.getpid(), signal.SIGKILL)

    storage._create = create_or_die
    storage.replace_file = replace_or_die


def make_driver_mortal(rng: random.Random, last_words: Callable[[str], object]) -> None:
    """The same for the files that a Spark driver writes, and for its rows."""
    from airflow_kafka_offsets.spark.session.files import HadoopFiles
    from airflow_kafka_offsets.spark.sinks.file_sink import FileSink

    driver = _Driver(rng, last_words)
    write_rows, write = FileSink.replace, HadoopFiles.write
    half_of: list[str] = []

    def write_half(files: HadoopFiles, uri: str, content: bytes) -> None:
        if half_of:
            fs, path = files._locate(uri)
            stream = fs.create(path, True)
            stream.write(bytearray(content[: len(content) // 2]))
            stream.flush()
            driver.die(half_of[0])
        write(files, uri, content)

    FileSink.replace = driver.mortal(  # type: ignore[method-assign]
        write_rows, lambda *_: "Spark's rows", driver.die_soon
    )
    HadoopFiles.write = driver.mortal(  # type: ignore[method-assign]
        write_half, lambda _, uri, *__: f"Spark's {kind_of(uri)}", half_of.append
    )


class _Driver:
    """A process with a Spark driver, which dies with it. Half of the time, its JVM is killed and can't clean up."""

    def __init__(self, rng: random.Random, last_words: Callable[[str], object]) -> None:
        self._rng = rng
        self._last_words = last_words

    def die(self, words: str) -> NoReturn:
        from pyspark import SparkContext

        self._last_words(words)
        if self._rng.random() < 0.5 and SparkContext._gateway is not None:
            os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a killed process goes on")

    def die_soon(self, words: str) -> None:
        """Die later, on another thread: halfway through the step, or right after a short one."""
        Timer(self._rng.uniform(0, 1.5), self.die, (words,)).start()

    def mortal(self, step: Callable[..., Any], words: Callable[..., str], halfway: Callable[[str], None]) -> Any:
        """A step around which the process dies now and then.

        :param words: returns what the step does.
        :param halfway: makes it die halfway through.
        """

        def step_or_die(*arguments: Any) -> Any:
            number, what = int(self._rng.random() / DRIVERS_CHANCE), words(*arguments)
            if number == 0:
                self.die(f"before {what}")
            if number == 1:
                halfway(f"halfway through {what}")
            outcome = step(*arguments)
            if number == 2:
                self.die(f"right after {what}")
            return outcome

        return step_or_die


def kind_of(path: str) -> str:
    """What a ledger's file is: a ``commit``, ``snapshot``, ``manifest``, ``checkpoint`` or ``list``, or the ``note``,
    ``result``, ``failure`` or ``ended`` of an attempt."""
    parts = PurePosixPath(path).parts
    known = next((kind for folder, kind in _FOLDERS.items() if folder in parts), None)
    if known is not None:
        return known
    name, _, kind = parts[-1].removesuffix(".json").rpartition(".")
    if name:
        return kind
    return kind if kind == "ended" else "probe" if kind.startswith("probe") else "manifest"
