"""Java for seconds: how the driver's Java starts for a small window.

Most of what such a load costs is Java's own start. Java spends a third of it on compiling code as well as it can, and
the load is over before that has paid off: so it only gets the fast compiler. Another third goes to loading and checking
Spark's classes, which come from an archive (class data sharing, JEP 350). A user's own application may do heavy work
for a small window, so its Java starts as ever; and who gives Java options himself gets these alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from airflow_kafka_offsets.offsets.proof.split_plan import is_small
from airflow_kafka_offsets.spark.session.conf import BYTES_PER_RECORD
from airflow_kafka_offsets.submission.application import LOAD_APPLICATION
from airflow_kafka_offsets.submission.confs import DRIVER_JAVA
from airflow_kafka_offsets.submission.driver import DriverPlace
from airflow_kafka_offsets.submission.package_jars import require_private
from airflow_kafka_offsets.submission.spark_program import SparkProgram

log = logging.getLogger(__name__)

FAST_COMPILER = "-XX:TieredStopAtLevel=1"
"""Known to Java 8 and later. A choice of a garbage collector would save little more, and Java doesn't start if another
one has been chosen in a place that isn't known here."""
_CONFS = (DRIVER_JAVA, "spark.driver.defaultJavaOptions")
_VARIABLES = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_FIRST_JAVA = 17
"""Older ones lack some of the options, or haven't been tried. Spark 4 has none of them."""
_QUIETLY = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""An archive of other files is nothing that a task's log has to tell."""
_MADE_WITHIN_S = 3_600
_KEY_LENGTH = 32


def starts_quickly(
    place: DriverPlace, program: SparkProgram, application: str, span: int, confs: Mapping[str, str]
) -> bool:
    """Whether the driver's Java is to start quickly.

    :param span: how many offsets the load reads.
    :param confs: those of the user, and the one that says how large a record is.
    """
    if place is not DriverPlace.HERE or application != LOAD_APPLICATION:
        return False
    if any(name in confs for name in _CONFS) or any(map(program.variable, _VARIABLES)):
        return False
    return is_small(span, _number(confs.get(BYTES_PER_RECORD)))


@contextmanager
def quick_java(program: SparkProgram, kept: Path) -> Iterator[str]:
    """The driver's Java options, while the block runs it.

    :param kept: the folder for what is kept on this machine.
    """
    archive = ClassArchive.of(program, kept)
    if archive is None:
        yield FAST_COMPILER
        return
    try:
        yield f"{FAST_COMPILER} {archive.options}"
        archive.keep()
    except BaseException:
        archive.drop()
        raise


def _number(text: str | None) -> float | None:
    """The number; None if there is none, or the driver is going to refuse it."""
    try:
        return float(text or "")
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """An archive that a driver uses, or makes: Java can write the classes that it has used to a file when it ends, and
    map that file into memory the next time.

    It is made by the second load of a small window on a machine: what loads one window alone, such as a container,
    isn't held up by it. Its name says which Java and which Spark it is of, and how large it is: Java dies of one that
    was cut off. If a file of the two has changed all the same, Java loads classes as usual. It may be deleted at any
    time.

    :param file: the archive, or the file that this driver writes.
    :param is_made: whether this driver makes it.
    """

    file: Path
    is_made: bool = False

    @classmethod
    def of(cls, program: SparkProgram, root: Path) -> Self | None:
        """The archive for a driver; None if its Java starts as usual.

        :param root: the folder for what is kept on this machine. It may begin with ``~``.
        """
        try:
            key = _key(program)
            root = root.expanduser()
            if key is None or " " in str(root):  # Spark splits Java's options at spaces
                return None
            require_private(root)
            for file in root.glob(f"{key}-*.jsa"):
                if file.name == _name(key, file):
                    return cls(file)
            seen, draft = root / f"{key}.seen", root / f"{key}.draft"
            if not seen.exists():
                seen.touch()
                return None
            return cls(draft, is_made=True) if _claim(draft) else None
        except (OSError, RuntimeError) as error:  # a user without a home is a RuntimeError
            log.debug("Spark's classes aren't taken from an archive: %s", error)
            return None

    @property
    def options(self) -> str:
        """The driver's Java options."""
        return f"-XX:{'ArchiveClassesAtExit' if self.is_made else 'SharedArchiveFile'}={self.file} {_QUIETLY}"

    def keep(self) -> None:
        """Keep what the driver has written, now that it has succeeded."""
        if self.is_made:
            with suppress(OSError):  # the load itself has succeeded
                self.file.rename(self.file.with_name(_name(self.file.stem, self.file)))

    def drop(self) -> None:
        """Drop what the driver has begun to write."""
        if self.is_made:
            with suppress(OSError):
                self.file.unlink(missing_ok=True)


def _name(key: str, file: Path) -> str:
    return f"{key}-{file.stat().st_size}.jsa"


def _key(program: SparkProgram) -> str | None:
    """Names the archive of a Java and a Spark; None if one of them isn't known."""
    java, spark = program.java(), program.own_jars()
    release = None if java is None else java.resolve().parent.parent / "release"
    if spark is None or release is None or not release.is_file():
        return None
    text = release.read_text(errors="replace")
    told = next((line for line in text.splitlines() if line.startswith("JAVA_VERSION=")), "")
    version = told.partition("=")[2].strip('"').partition(".")[0]
    if not version.isdigit() or int(version) < _FIRST_JAVA:
        return None
    jars = sorted((jar.name, jar.stat().st_size) for jar in spark[0].glob("*.jar"))
    deciding = json.dumps([1, str(release), text, str(spark[0]), jars])
    return hashlib.sha256(deciding.encode()).hexdigest()[:_KEY_LENGTH]


def _claim(draft: Path) -> bool:
    """Whether this driver is the one that makes an archive. A claim whose driver has died is taken over."""
    with suppress(FileNotFoundError):
        if time.time() - draft.stat().st_mtime > _MADE_WITHIN_S:
            draft.unlink(missing_ok=True)
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True
