"""Jars by Maven coordinates, with all their dependencies.

Ivy, which is part of PySpark, resolves them, so only Java is needed. Each named set has its own folder in
``.local/jars``. It is retrieved once, and again if its coordinates change.
"""

from __future__ import annotations

import fcntl
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import quoteattr

from dev import LOCAL
from dev.java import java_command

JARS = LOCAL / "jars"
CACHE = LOCAL / "ivy"
PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


def retrieve(name: str, *coordinates: str, without: str | None = None) -> Path:
    """A folder with the jars of some Maven coordinates and of their runtime dependencies.

    :param name: the name of the set and of its folder.
    :param coordinates: ``group:artifact:version`` each; or ``group:artifact:version:classifier:type`` for one file that
        isn't a jar, without dependencies.
    :param without: ``group:artifact`` of dependencies to leave out, as regular expressions.
    :raises RuntimeError: Ivy couldn't resolve or download them; the message ends with Ivy's output.
    """
    folder = JARS / name
    module = _ivy_module(coordinates, without)
    if _holds(folder, module):
        return folder
    with _lock():
        if not _holds(folder, module):
            print(f"retrieving {', '.join(coordinates)} and dependencies (a minute or two, once)", file=sys.stderr)
            _retrieve_into(folder, module)
    return folder


def classpath(folder: Path) -> str:
    """All jars of a folder, for ``java -cp``."""
    return f"{folder}/*"


def _holds(folder: Path, module: str) -> bool:
    """Whether a folder was retrieved for exactly this Ivy module, which is stored beside the jars."""
    file = folder / "ivy.xml"
    return file.is_file() and file.read_text() == module


@contextmanager
def _lock() -> Iterator[None]:
    """A lock between processes: all sets share Ivy's cache, which has no lock of its own."""
    JARS.mkdir(parents=True, exist_ok=True)
    with (JARS / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _retrieve_into(folder: Path, module: str) -> None:
    """Retrieve into another folder, then rename it, so that a folder with this name is always complete."""
    with tempfile.TemporaryDirectory(dir=JARS, prefix=f".{folder.name}-") as temporary:
        complete = Path(temporary) / "jars"
        complete.mkdir()
        (complete / "ivy.xml").write_text(module)
        _run_ivy(complete)
        _lie_once(complete)
        shutil.rmtree(folder, ignore_errors=True)
        complete.rename(folder)


def _lie_once(folder: Path) -> None:
    """Link the jars to Ivy's cache, because sets share many, and Amazon's alone takes half a gigabyte."""
    cached = {(file.name, file.stat().st_size): file for file in CACHE.glob("*/*/*s/*.jar")}
    for jar in folder.glob("*.jar"):
        same = cached.get((jar.name, jar.stat().st_size))
        if same is not None:
            jar.unlink()
            jar.hardlink_to(same)


def _ivy_module(coordinates: tuple[str, ...], without: str | None) -> str:
    elements = [_ivy_dependency(*each.split(":")) for each in coordinates]
    if without is not None:
        elements.append(_ivy_exclusion(*without.split(":")))
    lines = ['<ivy-module version="2.0">', '<info organisation="local" module="jars"/>']
    return "\n".join([*lines, "<dependencies>", *elements, "</dependencies>", "</ivy-module>", ""])


def _ivy_dependency(group: str, artifact: str, version: str, *file: str) -> str:
    named = f"org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)}"
    if not file:
        return f'<dependency {named} conf="default"/>'
    classifier, kind = map(quoteattr, file)
    maven = 'xmlns:m="http://ant.apache.org/ivy/maven"'
    part = f"<artifact {maven} name={quoteattr(artifact)} type={kind} ext={kind} m:classifier={classifier}/>"
    return f'<dependency {named} transitive="false">{part}</dependency>'


def _ivy_exclusion(group: str, artifact: str) -> str:
    return f'<exclude org={quoteattr(group)} module={quoteattr(artifact)} matcher="regexp"/>'


def _run_ivy(folder: Path) -> None:
    """Retrieve what the folder's ``ivy.xml`` names into the folder."""
    ivy = [java_command(), "-jar", str(_ivy_jar()), "-warn", "-cache", str(CACHE), "-ivy", str(folder / "ivy.xml")]
    # Some of Kafka's dependencies have the packaging "bundle", but are jars too.
    selection = ["-confs", "default", "-types", "jar", "bundle", "tar.gz", "-retrieve", f"{folder}/{PATTERN}"]
    answer = subprocess.run(ivy + selection, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if answer.returncode != 0:
        last_lines = "\n".join(answer.stdout.splitlines()[-20:])
        raise RuntimeError(f"Ivy could not retrieve the jars: check the network and try again. It said:\n{last_lines}")


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise RuntimeError("pyspark, which contains Ivy, is not installed: run make setup")
    return next((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))
