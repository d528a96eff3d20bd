"""A process of Airflow, such as its triggerer, together with the processes that it forks: launch, stop, kill.

They end when this process ends, for whatever reason; on Linux even if it is killed. For that, ``python -m
dev.airflow_process PARENT COMMAND`` runs Airflow's command line with an addition: the kernel ends the process, and what
it forks, when its parent ends. Which processes run with which settings is decided in :mod:`dev.airflow_services`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # Airflow brings it, without types

from dev import ROOT

_PR_SET_PDEATHSIG = 1


class AirflowProcess:
    """A process of Airflow's command line, and its log file.

    On Linux the process is bound to the thread that called :meth:`launch`: launch it from a thread that lives as long
    as the process is needed.

    :param command: words for Airflow's command line, such as ``["triggerer"]``.
    :param log_file: receives its stdout and stderr; each launch appends.
    :param environment: all of its environment variables.
    """

    def __init__(self, command: Sequence[str], log_file: Path, environment: Mapping[str, str]) -> None:
        self.command = list(command)
        self.log_file = log_file
        self.environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """Its name in error messages."""
        return f"airflow {self.command[0]}"

    @property
    def is_running(self) -> bool:
        """Whether the process exists. It may not be ready yet."""
        return self._process is not None and self._process.poll() is None

    @property
    def has_ended(self) -> bool:
        """Whether it was launched and has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    @property
    def pid(self) -> int:
        """Process id.

        :raises LookupError: it isn't running.
        """
        if self._process is None or not self.is_running:
            raise LookupError(f"{self.name} does not run")
        return self._process.pid

    @property
    def child_pids(self) -> list[int]:
        """Process ids of its live children, oldest first; empty if it isn't running."""
        try:
            return [each.pid for each in psutil.Process(self.pid).children()]
        except (LookupError, psutil.NoSuchProcess):
            return []

    def launch(self) -> None:
        """Start the process and return at once."""
        program = [sys.executable, "-m", "dev.airflow_process", str(os.getpid()), *self.command]
        with self.log_file.open("ab") as log:
            # A separate process group: Ctrl-C reaches only us, and a kill also reaches what it forked.
            self._process = subprocess.Popen(
                program, env=self.environment, cwd=ROOT, stdout=log, stderr=log, process_group=0
            )

    def wait(self) -> int:
        """Wait until it ends by itself. Returns its exit code.

        :raises LookupError: it wasn't launched.
        """
        if self._process is None:
            raise LookupError(f"{self.name} does not run")
        code = self._process.wait()
        self._process = None
        return code

    def kill(self) -> None:
        """Kill the process and what it forked (SIGKILL), like a crash of the machine."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def last_log_lines(self, count: int = 25) -> str:
        """The end of its log file, for error messages."""
        lines = self.log_file.read_text(errors="replace").splitlines()[-count:]
        return "\n".join([f"The end of {self.log_file}:", *lines])


def _end_with_parent() -> None:
    """Make the kernel end this process when the thread that forked it ends. Does nothing if this isn't Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Airflow's command line, in a process that ends with its parent. So do the processes that it forks."""
    _end_with_parent()
    parent = int(sys.argv.pop(1))
    if os.getppid() != parent:
        sys.exit(f"process {parent}, which launched this one, has ended")
    os.register_at_fork(after_in_child=_end_with_parent)
    from airflow.__main__ import main as airflow

    airflow()


if __name__ == "__main__":
    main()
