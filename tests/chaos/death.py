"""Deaths: a process that kills itself around the creation of a ledger's file, now and then, as drawn from a seed.

Everything in a ledger comes to be in one function, which is wrapped here from the outside.
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
from airflow_kafka_offsets.ledger.storage import StoragePath

CHANCE = 0.008
"""Of each kind of death, at each creation."""
DRIVERS_CHANCE = 0.0045
"""The same of a Spark driver, who leaves a Java and its executor to be started anew."""
_NUMEROUS = ("snapshots", "instants", "attempts", "losses")
KINDS = ("before", "halfway through", "right after")


def become_mortal(rng: random.Random, last_words: Callable[[str], object], chance: float = CHANCE) -> None:
    """From now on, die around some creations of files.

    :param last_words: told what the process dies of.
    :param chance: of each kind of death, at each creation.
    """
    create = storage._create

    def create_or_die(path: StoragePath, content: bytes) -> None:
        number = int(rng.random() / chance)
        fate = KINDS[number] if number < len(KINDS) else None
        if fate == "halfway through" and path.protocol == "s3":  # an object store has no halfway
            fate = "before"

        def die(*_: object) -> NoReturn:
            last_words(f"{fate} {kind_of(path)}")
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("a killed process goes on")

        if fate == "before":
            die()
        if fate == "halfway through":  # the draft is written
            os.link = die  # type: ignore[assignment]  # it never returns
        create(path, content)
        if fate is not None:
            die()

    storage._create = create_or_die


def make_driver_mortal(rng: random.Random, last_words: Callable[[str], object]) -> None:
    """The same for the files that a Spark driver creates, for its writing of rows, and for moving them.

    Half of the times Spark's JVM is killed too, before it can clean up.
    """
    from pyspark import SparkContext

    from airflow_kafka_offsets.spark.file_sink import FileSink
    from airflow_kafka_offsets.spark.hadoop import HadoopFiles

    def mortal(step: Callable[..., Any], words: Callable[..., str]) -> Callable[..., Any]:
        def step_or_die(*arguments: Any) -> Any:
            number = int(rng.random() / DRIVERS_CHANCE)

            def die(fate: str) -> None:
                last_words(f"{fate} {words(*arguments)}")
                if rng.random() < 0.5 and SparkContext._gateway is not None:
                    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)

            if number == 0:
                die("before")
            if number == 1:
                # Later than the other thread's last line means halfway through, or right after a short one.
                Timer(rng.uniform(0, 1.5), die, ("halfway through",)).start()
            outcome = step(*arguments)
            if number == 2:
                die("right after")
            return outcome

        return step_or_die

    FileSink.write = mortal(FileSink.write, lambda *_: "Spark's rows")  # type: ignore[method-assign]
    for name in ("write", "create_exclusive"):
        wrapped = mortal(getattr(HadoopFiles, name), lambda _, uri, *__: f"Spark's {_kind_of_uri(uri)}")
        setattr(HadoopFiles, name, wrapped)
    HadoopFiles.rename = mortal(HadoopFiles.rename, lambda *_: "Spark's move")  # type: ignore[method-assign]


def _kind_of_uri(uri: str) -> str:
    folder, name = uri.split("/")[-2:]
    return folder if folder in ("applications", "results", "failures") else name.lstrip("_")


def kind_of(path: StoragePath) -> str:
    """A file's name without what is its own alone, or the folder of those that there are many of."""
    parts = PurePosixPath(path.path).parts
    return next((each for each in _NUMEROUS if each in parts), parts[-1].partition("-")[0])
