"""The Java that brokers, Kafka's tools and Spark run on.

Kafka 4's brokers need Java 17, and Spark 4.0 runs on 17 to 21. :mod:`dev.programs` installs one where that is possible.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dev.debian import Program

OLDEST, NEWEST = 17, 21
_PACKAGES = (("openjdk-17-jre-headless",), ("openjdk-21-jre-headless",), ("default-jre-headless",))
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


@functools.cache
def java_home() -> Path:
    """The folder of a suitable Java; exits with a message if there is none."""
    return JAVA.found()


def java_command() -> str:
    """The path of the ``java`` program in :func:`java_home`."""
    return str(java_home() / "bin" / "java")


def _first_suitable() -> Path | None:
    return next((home for home in _homes() if (java := _inspect(home)) is not None and java.suits), None)


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


JAVA = Program(
    f"Java {OLDEST} to {NEWEST}", "Kafka and Spark run on it", _PACKAGES, _first_suitable, ", or set JAVA_HOME to one"
)
