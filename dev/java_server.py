"""A server that is a Java process, a child of this process: launch, wait, stop, kill, pause.

The server ends when this process ends, for whatever reason; on Linux even if it is killed. This module doesn't know
what is served: see :mod:`dev.kafka` and :mod:`dev.zookeeper_broker`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

START_DEADLINE_S = 300.0
STOP_DEADLINE_S = 30.0


class JavaServer:
    """A Java process and its log file.

    On Linux the process is bound to the thread that called :meth:`launch`: launch it from a thread that lives as long
    as the server is needed.

    :param name: its name in error messages, such as Kafka.
    :param log_file: receives its stdout and stderr; each launch appends.
    """

    def __init__(self, name: str, log_file: Path) -> None:
        self.name = name
        self.log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process exists. It may be paused."""
        return self._process is not None and self._process.poll() is None

    def launch(self, command: Sequence[str]) -> None:
        """Start the process and return at once."""
        with self.log_file.open("ab") as log:
            # A separate process group: Ctrl-C reaches only us, so whatever uses the server can end before the server.
            self._process = subprocess.Popen([*_ends_with_parent(), *command], stdout=log, stderr=log, process_group=0)

    def wait_until(self, answers: Callable[[], bool]) -> None:
        """Wait until a condition on the server is true.

        :raises RuntimeError: it ended or didn't answer in time; the message has the last lines of its log.
        """
        deadline = time.monotonic() + START_DEADLINE_S
        while not answers():
            if not self.is_running:
                raise RuntimeError(f"{self.name} ended while starting.\n{self._last_log_lines()}")
            if time.monotonic() > deadline:
                waited = f"{START_DEADLINE_S:.0f} s"
                raise RuntimeError(f"{self.name} did not answer within {waited}.\n{self._last_log_lines()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop it gracefully, or by force if that takes too long. Does nothing if it isn't running."""
        if self._process is None:
            return
        self._process.terminate()
        self.resume()
        try:
            self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def kill(self) -> None:
        """Kill the process (SIGKILL), like a crash. Does nothing if it isn't running."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def pause(self) -> None:
        """Pause the process (SIGSTOP): connections stay open, the system accepts new ones, but nothing is answered."""
        self._signal(signal.SIGSTOP)
        if self._process is not None and hasattr(os, "waitid"):
            # The signal takes time: on a busy machine, a thread may answer another request before it stops.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError(f"{self.name} isn't running")
        self._process.send_signal(number)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
        self._process = None

    def _last_log_lines(self, count: int = 25) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()[-count:]
        return "\n".join([f"The end of {self.log_file}:", *lines])


def _ends_with_parent() -> list[str]:
    """A prefix that makes the kernel end the command when our thread ends; empty if there is no setpriv (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []
