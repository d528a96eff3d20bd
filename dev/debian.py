"""Programs of the system, and the Debian packages that have them.

Only :func:`provide` installs packages, and says so beforehand. ``python -m dev.install`` calls it for Java, and
``python -m dev.programs`` for what the tests need. Whatever needs a program later finds it, or ends with the words that
install it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

NO_APT = "NO_APT"
"""The variable that, unless it is empty, keeps :func:`provide` from installing anything."""


@dataclass(frozen=True, slots=True)
class Program:
    """Something that the system must have.

    :param name: as in messages, such as ``PostgreSQL``.
    :param why: what runs on it, as in "Kafka and Spark run on it".
    :param choices: sets of packages that contain it; the first that this release of the system offers is installed.
    :param find: where it is; None if it isn't there.
    :param otherwise: what else helps, for messages, such as a variable to set.
    """

    name: str
    why: str
    choices: tuple[tuple[str, ...], ...]
    find: Callable[[], Path | None]
    otherwise: str = ""

    @property
    def missing(self) -> str:
        """The message that it is missing, and what installs it."""
        return (
            f"{self.name} is missing; {self.why}. Install it (Debian, Ubuntu: apt-get install"
            f" {' '.join(self.choices[0])}){self.otherwise}."
        )

    def found(self) -> Path:
        """Where it is; exits with a message if it isn't there."""
        place = self.find()
        if place is None:
            sys.exit(self.missing)
        return place


def provide(programs: Iterable[Program]) -> None:
    """See that programs are there: say which are missing, and install them as root on a Debian-like machine.

    :raises SystemExit: some are still missing; the message says what to install.
    """
    missing = [each for each in programs if each.find() is None]
    if missing and (reason := _why_not()) is None:
        _install(missing)
        missing = [each for each in missing if each.find() is None]
        reason = "apt-get could not install it"
    if missing:
        sys.exit("\n".join([*(each.missing for each in missing), f"(Not installed by make: {reason}.)"]))


def _why_not() -> str | None:
    """Why packages aren't installed here; None if they are."""
    if os.environ.get(NO_APT):
        return f"{NO_APT} is set"
    if not shutil.which("apt-get"):
        return "there is no apt-get"
    return None if os.geteuid() == 0 else "this isn't root"


def _install(programs: list[Program]) -> None:
    """Install what is missing. Everything is said before the first call of apt-get, which may change the system."""
    for each in programs:
        packages = ", or if that isn't offered ".join(map(" ".join, each.choices))
        print(f"{each.name} is missing; {each.why}: installing {packages} with apt-get", file=sys.stderr)
    print(f"(with {NO_APT}=1, make only says which packages to install)", file=sys.stderr, flush=True)
    with (Path(tempfile.gettempdir()) / "dev-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt-get doesn't wait for another apt-get, such as another clone's
        _apt_get("update")
        for each in programs:
            _install_one(each)


def _install_one(program: Program) -> None:
    for packages in program.choices:
        said = _apt_get("install", "--yes", "--no-install-recommends", *packages)
        if said is None:
            return
        print(f"{' '.join(packages)}: {said}", file=sys.stderr, flush=True)


def _apt_get(*words: str) -> str | None:
    """Run apt-get. Returns the end of what it said if it failed, else None."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    answer = subprocess.run(
        ["apt-get", "-qq", *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if answer.returncode == 0:
        return None
    return " ".join(answer.stdout.split()[-30:]) or f"apt-get ended with {answer.returncode}"
