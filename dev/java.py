"""The Java that brokers, Kafka's tools and Spark run on.

Kafka 4's brokers need Java 17, and Spark 4.0 runs on 17 to 21. If no Java is found, a headless JRE is installed if we
are root on a Debian-like machine. Otherwise the user is told what to install.

Run as a module, it prints what it found.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dev import debian

OLDEST, NEWEST = 17, 21
PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")
USUAL_PLACES = ("/usr/lib/jvm/*", "/opt/java/*", "/opt/jdk*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")


@dataclass(frozen=True, slots=True)
class Java:
    """One installed Java.

    :param home: its folder, as in JAVA_HOME.
    :param major: major version, such as 17.
    """

    home: Path
    major: int

    @property
    def suits(self) -> bool:
        return OLDEST <= self.major <= NEWEST


def java_home() -> Path:
    """The folder of a suitable Java. Installs one if it is missing, if possible; otherwise exits with a message."""
    return _java().home


def java_command() -> str:
    """The path of the ``java`` program in :func:`java_home`."""
    return str(java_home() / "bin" / "java")


@functools.cache
def _java() -> Java:
    found = _first_suitable() or _installed()
    if found is None:
        sys.exit(
            f"Java {OLDEST} to {NEWEST} is needed and was not found: install a JRE"
            f" (Debian, Ubuntu: apt-get install {PACKAGES[0]}) or set JAVA_HOME to one."
        )
    return found


def _first_suitable() -> Java | None:
    return next((java for home in _homes() if (java := _inspect(home)) is not None and java.suits), None)


def _homes() -> Iterator[Path]:
    """Folders that may contain a Java, the user's own choice first."""
    if chosen := os.environ.get("JAVA_HOME"):
        yield Path(chosen)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent
    for pattern in USUAL_PLACES:
        yield from sorted(Path("/").glob(pattern.removeprefix("/")))


def _inspect(home: Path) -> Java | None:
    """The Java in a folder; None if its ``java`` doesn't exist or doesn't run."""
    try:
        answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    version = re.search(r'version "(\d+)', answer.stderr)
    return Java(home, int(version[1])) if version else None


def _installed() -> Java | None:
    """A headless JRE, installed now: the first suitable one that this release of the system offers. None if it offers
    none, or if we can't install packages."""
    for package in PACKAGES:
        if debian.install("Java", package) and (found := _first_suitable()) is not None:
            return found
    return None


if __name__ == "__main__":
    _found = _java()
    print(f"Java {_found.major}: {_found.home}")
