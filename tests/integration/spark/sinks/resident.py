"""A driver that stays: ``spark-submit`` without the seconds that it takes to start.

A program in ``spark-submit``'s place hands its words to a driver by a socket, whose name is the master. The driver runs
the ready-made load in a session of its own, with the confs that it was submitted with, and answers how it ended. It may
be told to pause once at one of its steps.

As a program it is such a driver; its arguments: the socket, the folder of pauses, jars, and the warehouse.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_offsets.errors import KafkaOffsetsError
from airflow_kafka_offsets.offsets.proof.driver_notes import exit_line
from airflow_kafka_offsets.spark import Sink, load
from airflow_kafka_offsets.spark.pinned import pinned_window
from airflow_kafka_offsets.spark.sinks.delta_sink import DeltaSink
from airflow_kafka_offsets.spark.sinks.file_sink import FileSink
from airflow_kafka_offsets.spark.sinks.iceberg_sink import IcebergSink
from airflow_kafka_offsets.spark.window.ledger import RunLedger
from tests.integration.spark.conftest import make_session
from tests.integration.spark.sinks.faults import held_up, wait_for

ASK = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as driver:
    driver.connect(os.path.join(os.environ["DRIVERS"], sys.argv[sys.argv.index("--master") + 1]))
    driver.sendall(json.dumps(sys.argv[1:]).encode() + b"\\n")
    status, _, said = driver.makefile().read().partition("\\n")
print(said)
sys.exit(int(status))
"""
"""In ``spark-submit``'s place. The folder of sockets is in the environment."""

Work = Callable[..., Any]
DRIVER_STEPS = (
    "before it notes that it has begun",
    "before it writes rows",
    "while it writes rows",
    "after its commit",
    "before its branch is released",
    "after its branch is released",
    "before it notes what it counted",
    "after it has noted what it counted",
)


@dataclass(frozen=True, slots=True)
class Pause:
    """A stop, once: a file ``at`` names the step, ``begun`` is made there, and ``go`` ends it.

    :param folder: of these files.
    """

    folder: Path

    @property
    def step(self) -> str | None:
        """Where to pause; None where nobody is to."""
        at = self.folder / "at"
        return at.read_text() if at.exists() else None

    def ask(self, step: str) -> None:
        """Have the next load pause there."""
        for name in ("begun", "go"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "at").write_text(step)

    def end(self) -> None:
        """Have whoever pauses go on, and nobody else pause."""
        (self.folder / "at").unlink(missing_ok=True)
        (self.folder / "go").touch()

    def here(self) -> None:
        """Pause, unless somebody has."""
        if not (self.folder / "begun").exists():
            (self.folder / "begun").touch()
            wait_for(self.folder / "go")

    def before(self, work: Work) -> Work:
        """The same work, after a pause."""

        def late(*arguments: Any, **named: Any) -> Any:
            self.here()
            return work(*arguments, **named)

        return late

    def after(self, work: Work) -> Work:
        """The same work, and then a pause."""

        def slow(*arguments: Any, **named: Any) -> Any:
            done = work(*arguments, **named)
            self.here()
            return done

        return slow

    def meanwhile(self, replace_rows: Work) -> Work:
        """Writing of rows, the first of which waits."""

        def slow(sink: Sink, rows: Any, *others: Any) -> Any:
            return replace_rows(sink, held_up(rows, self.folder), *others)

        return slow


@contextmanager
def pausing(pause: Pause) -> Iterator[None]:
    """Have this process's driver pause where it is told to."""
    begin, rows, while_rows, commit, branch, main, count, counted = DRIVER_STEPS
    write = [(DeltaSink, "_overwrite"), (IcebergSink, "_overwrite"), (FileSink, "replace")]
    places: dict[str, tuple[list[tuple[Any, str]], Callable[[Work], Work]]] = {
        begin: ([(RunLedger, "note")], pause.before),
        rows: (write, pause.before),
        while_rows: (write, pause.meanwhile),
        commit: (write, pause.after),
        branch: ([(IcebergSink, "_take_over")], pause.before),
        main: ([(IcebergSink, "_take_over")], pause.after),
        count: ([(RunLedger, "record")], pause.before),
        counted: ([(RunLedger, "record")], pause.after),
    }
    works, how = places.get(pause.step or "", ([], pause.before))
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in works:
            patch.setattr(owner, name, how(getattr(owner, name)))
        yield


def run(session: SparkSession, words: list[str]) -> str:
    """Load as ``spark-submit`` with these words would; what it says at its end.

    :raises KafkaOffsetsError: as the application.
    """
    own = session.newSession()
    for name, value in (words[n + 1].split("=", 1) for n, word in enumerate(words) if word == "--conf"):
        if name.startswith("spark.kafkaOffsets."):
            own.conf.set(name, value)
    application = next(n for n, word in enumerate(words) if word.endswith("load.py"))
    window, table = pinned_window(own), load.TableLoad.of_words(words[application + 1 :])
    return json.dumps(load.outcome(window.manifest.window, load.load(window, table)))


@contextmanager
def resident(session: SparkSession, socket: Path, pause: Pause | None = None) -> Iterator[None]:
    """Take orders, each in a thread, until the block ends."""

    class Order(StreamRequestHandler):
        def handle(self) -> None:
            words = json.loads(self.rfile.readline())
            try:
                with nullcontext() if pause is None else pausing(pause):
                    answer = f"0\n{run(session, words)}"
            except KafkaOffsetsError as error:
                answer = f"1\n{exit_line(error)}"
            except Exception as error:
                answer = f"1\n{error!r}"
            self.wfile.write(answer.encode())

    with ThreadingUnixStreamServer(str(socket), Order) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield
        server.shutdown()
        socket.unlink()


if __name__ == "__main__":
    address, folder, found, warehouse = sys.argv[1:]
    with resident(make_session(found, Path(warehouse)), Path(address), Pause(Path(folder))):
        sys.stdin.read()
