"""Jars by Maven coordinates, with all that they depend on.

Ivy resolves them, and Ivy ships inside PySpark, so Java is all it takes. Each named set lies in its own folder under
``.local/jars`` and is retrieved once; a set whose coordinates changed is retrieved again.
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
    """Folder with the jars of some Maven coordinates and of their runtime dependencies.

    :param name: names the set, and its folder.
    :param coordinates: ``group:artifact:version`` each.
    :param without: ``group:artifact`` of dependencies to leave out, as regular expressions.
    :raises RuntimeError: Ivy could not resolve or download them; the message ends with what Ivy said.
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
    """Every jar of a folder, as ``java -cp`` takes it."""
    return f"{folder}/*"


def _holds(folder: Path, module: str) -> bool:
    """Whether a folder was retrieved for just this Ivy module: each keeps its own beside the jars."""
    file = folder / "ivy.xml"
    return file.is_file() and file.read_text() == module


@contextmanager
def _lock() -> Iterator[None]:
    """Held by one process at a time: Ivy's cache, which all sets share, does not lock itself."""
    JARS.mkdir(parents=True, exist_ok=True)
    with (JARS / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _retrieve_into(folder: Path, module: str) -> None:
    """Retrieve beside the folder, then rename: a folder with this name is always whole."""
    with tempfile.TemporaryDirectory(dir=JARS, prefix=f".{folder.name}-") as temporary:
        complete = Path(temporary) / "jars"
        complete.mkdir()
        (complete / "ivy.xml").write_text(module)
        _run_ivy(complete)
        _lie_once(complete)
        shutil.rmtree(folder, ignore_errors=True)
        complete.rename(folder)


def _lie_once(folder: Path) -> None:
    """Make the jars those of Ivy's cache: sets share many, and Amazon's alone has half a gigabyte."""
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


def _ivy_dependency(group: str, artifact: str, version: str) -> str:
    return f'<dependency org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)} conf="default"/>'


def _ivy_exclusion(group: str, artifact: str) -> str:
    return f'<exclude org={quoteattr(group)} module={quoteattr(artifact)} matcher="regexp"/>'


def _run_ivy(folder: Path) -> None:
    """Retrieve what the folder's ``ivy.xml`` names into the folder."""
    ivy = [java_command(), "-jar", str(_ivy_jar()), "-warn", "-cache", str(CACHE), "-ivy", str(folder / "ivy.xml")]
    # Some of Kafka's dependencies have the packaging "bundle": jars all the same.
    selection = ["-confs", "default", "-types", "jar", "bundle", "-retrieve", f"{folder}/{PATTERN}"]
    answer = subprocess.run(ivy + selection, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if answer.returncode != 0:
        last_lines = "\n".join(answer.stdout.splitlines()[-20:])
        raise RuntimeError(f"Ivy could not retrieve the jars: check the network and try again. It said:\n{last_lines}")


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise RuntimeError("pyspark, which carries Ivy, is not installed: run make setup")
    return next((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))
