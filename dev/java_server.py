"""A server that is one Java process, child of this one: launched, awaited, stopped, killed, hung.

The process ends with this one, however this one ends; on Linux also when it is killed. What it serves is not known
here: see :mod:`dev.kafka` and :mod:`dev.zookeeper_broker`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

START_DEADLINE_S = 120.0
STOP_DEADLINE_S = 30.0


class JavaServer:
    """A Java process and its log file.

    On Linux the process is bound to the thread that called :meth:`launch`: launch it from a thread that lives as long
    as the server is needed.

    :param name: how error messages call it, such as Kafka.
    :param log_file: what it writes to stdout and stderr, one launch after the other.
    """

    def __init__(self, name: str, log_file: Path) -> None:
        self.name = name
        self.log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process, which may be paused."""
        return self._process is not None and self._process.poll() is None

    def launch(self, command: Sequence[str]) -> None:
        """Start the process and return at once."""
        with self.log_file.open("ab") as log:
            # A process group of its own: Ctrl-C reaches us alone, so that what still uses the server ends before it.
            self._process = subprocess.Popen([*_ends_with_parent(), *command], stdout=log, stderr=log, process_group=0)

    def wait_until(self, answers: Callable[[], bool]) -> None:
        """Wait until the server answers as a caller wants.

        :raises RuntimeError: it ended or did not answer in time; the message holds the last lines of its log.
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
        """Stop in an orderly way, and by force when that takes too long. Nothing happens when it does not run."""
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
        """End the process at once (SIGKILL), as a crash does. Nothing happens when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def pause(self) -> None:
        """Hang the process (SIGSTOP): its connections stay open, the system accepts new ones, nothing is answered."""
        self._signal(signal.SIGSTOP)
        if self._process is not None and hasattr(os, "waitid"):
            # The signal is on its way: on a busy machine a thread may answer one more request before it stops.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError(f"{self.name} does not run")
        self._process.send_signal(number)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
        self._process = None

    def _last_log_lines(self, count: int = 25) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()[-count:]
        return "\n".join([f"The end of {self.log_file}:", *lines])


def _ends_with_parent() -> list[str]:
    """A prefix that makes the kernel end the command when our thread ends; empty where there is no setpriv (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []
