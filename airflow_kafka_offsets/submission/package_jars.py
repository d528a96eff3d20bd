"""The jars of Maven packages, resolved once on each machine and then given to ``spark-submit`` as files.

Given names, every ``spark-submit`` resolves them anew: it reads each package's description, and asks repositories about
those that aren't there. Here it does so once, by itself, with the user's own repositories, Ivy settings and exclusions;
what it finds is copied into a folder of this user, and used as long as it is whole. A folder is named by everything
that decides which jars are found, so another Spark or another package has another one. Nothing in it is changed, and it
may be deleted whenever no load runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

log = logging.getLogger(__name__)

_LIST = "jars.json"
_FOUND = "Classpath elements:"
"""What ``spark-submit --verbose`` prints before the jars, one in each line."""
_ENDS_AT_ONCE = "org.apache.hadoop.util.VersionInfo"
"""A program among Spark's own jars that only prints a version."""
_DECIDE = "spark.jars."
"""Prefix of the confs that say how packages are resolved."""
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
"""They may name a proxy."""
_NONE_OF_ITS_OWN = ("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles")
"""Confs with further files of the user, which needn't be fetched to resolve packages."""
_MOVING = ("SNAPSHOT", "latest.", "+", "[", "]", "(", ")", ",")
"""Parts of versions that name another jar tomorrow."""
_KEY_LENGTH = 32
_LEFT = f".{'[0-9a-f]' * _KEY_LENGTH}-*"
"""Folders that weren't complete: only of these names, since somebody else's may be beside them."""
_LAST_LINES = 3
_OTHERS_MAY_WRITE = 0o022


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages of a submission, and what decides which jars they are.

    :param coordinates: Maven coordinates.
    :param release: version of Spark, whose own packages aren't resolved.
    :param spark_jars: the folder with Spark's own jars.
    :param confs: all of the user's confs.
    :param in_task: those that his task gives; ``spark-submit`` reads the others from its file.
    :param exclude: coordinates to leave out, comma-separated.
    :param repositories: more repositories, comma-separated.
    :param properties_file: as for ``spark-submit``.
    """

    coordinates: Sequence[str]
    release: str
    spark_jars: Path
    confs: Mapping[str, str] = field(repr=False)
    in_task: Mapping[str, str] = field(repr=False)
    exclude: str | None = None
    repositories: str | None = None
    properties_file: str | None = None

    @property
    def are_fixed(self) -> bool:
        """Whether the same jars are found tomorrow."""
        versions = (coordinate.rpartition(":")[2] for coordinate in self.coordinates)
        return not any(mark in version for version in versions for mark in _MOVING)

    @property
    def key(self) -> str:
        """Names the folder with their jars."""
        resolving = {name: value for name, value in self.confs.items() if name.startswith(_DECIDE)}
        settings = Path(resolving.get("spark.jars.ivySettings", "").removeprefix("file:") or "/dev/null")
        text = settings.read_text(errors="replace") if settings.is_file() else ""
        given = [list(self.coordinates), self.exclude, self.repositories, sorted(resolving.items()), text]
        deciding = json.dumps([1, self.release, str(self.spark_jars), *given])
        return hashlib.sha256(deciding.encode()).hexdigest()[:_KEY_LENGTH]

    def command(self, binary: str) -> list[str]:
        """Has ``spark-submit`` resolve them, and say where the jars are."""
        words = [binary, "--verbose", "--master", "local[1]", "--deploy-mode", "client", "--driver-memory", "512m"]
        options = {
            "--properties-file": self.properties_file,
            "--packages": ",".join(self.coordinates),
            "--exclude-packages": self.exclude,
            "--repositories": self.repositories,
        }
        words += [word for name, value in options.items() if value for word in (name, value)]
        wanted = {
            name: value for name, value in self.in_task.items() if name.startswith(_DECIDE) or name in _JAVA_OPTIONS
        }
        wanted.pop("spark.jars.packages", None)
        for name, value in {**wanted, **dict.fromkeys(_NONE_OF_ITS_OWN, "")}.items():
            words += ["--conf", f"{name}={value}"]
        return [*words, "--class", _ENDS_AT_ONCE, "spark-internal"]


@dataclass(frozen=True, slots=True)
class PackageJars:
    """Jars in a folder that holds exactly these.

    :param jars: their paths, in Spark's order.
    :param python: those among them that hold Python modules.
    :param missing: those among them that this Spark doesn't have itself, byte for byte.
    """

    jars: tuple[Path, ...]
    python: tuple[Path, ...]
    missing: tuple[Path, ...]

    @classmethod
    def in_folder(cls, folder: Path) -> Self | None:
        """The jars of a folder; None if it is missing, torn or changed."""
        try:
            listed = json.loads((folder / _LIST).read_bytes())
            whole = all(_digest(folder / jar["name"]) == jar["sha256"] for jar in listed)
            if not whole or {file.name for file in folder.iterdir()} != {_LIST, *(jar["name"] for jar in listed)}:
                return None
            return cls(
                tuple(folder / jar["name"] for jar in listed),
                tuple(folder / jar["name"] for jar in listed if jar["python"]),
                tuple(folder / jar["name"] for jar in listed if not _is_there(jar["twin"], folder / jar["name"])),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None


def jars_of(packages: Packages, binary: str, environment: Mapping[str, str], root: Path) -> PackageJars | None:
    """The jars of some packages, resolved now if this machine hasn't yet.

    :param binary: the ``spark-submit`` to resolve with.
    :param environment: variables that it gets.
    :param root: the folder for the jars of all packages; it is made if it is missing. It may begin with ``~``.
    :returns: None if ``spark-submit`` has to resolve them itself, with the reason in the log: they can't be resolved
        here, or versions among them change, or the folder can't be used.
    """
    try:
        if not packages.are_fixed:
            raise _NotResolved("versions among them may name other jars tomorrow.")
        root = root.expanduser()
        folder = root / packages.key
        require_private(root)
        found = PackageJars.in_folder(folder)
        if found is not None:
            return found
        with _alone(root):  # Ivy's own cache isn't safe either for several that resolve side by side
            found = PackageJars.in_folder(folder)
            if found is None:
                log.info("Resolving %s, once on this machine, into %s", ", ".join(packages.coordinates), folder)
                _copy_into(folder, _resolved(packages.command(binary), environment), packages.spark_jars)
                found = PackageJars.in_folder(folder)
        if found is None:
            raise _NotResolved(f"{folder} was changed while it was written.")
    except PermissionError as error:
        log.warning("spark-submit resolves the packages itself, for each load: %s", error)
        return None
    # A user without a home is a RuntimeError.
    except (OSError, RuntimeError, zipfile.BadZipFile, _NotResolved) as error:
        log.info("spark-submit resolves the packages itself: %s", error)
        return None
    return found


class _NotResolved(Exception):
    """Why there are no jars."""


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    with (root / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _resolved(command: Sequence[str], environment: Mapping[str, str]) -> list[Path]:
    """Have ``spark-submit`` resolve packages. Returns the jars that it found, in its own cache."""
    answer = subprocess.run(
        command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    lines = answer.stdout.decode(errors="replace").splitlines()
    if answer.returncode:
        said = [line for line in lines if "nresolved" in line or "Exception" in line] or lines
        raise _NotResolved(f"it ended with status {answer.returncode}, {' / '.join(said[-_LAST_LINES:]).strip()}")
    starts = [number for number, line in enumerate(lines) if line.strip() == _FOUND]
    if not starts:
        raise _NotResolved("it doesn't tell which jars it found.")
    jars = []
    for line in lines[starts[-1] + 1 :]:
        if not line.startswith(("file:", "/")):
            break
        jars.append(Path(unquote(urlsplit(line.strip()).path)))
    if not jars or not all(map(zipfile.is_zipfile, jars)):
        raise _NotResolved("it found no jars, or they aren't whole.")
    return jars


def _copy_into(folder: Path, jars: Sequence[Path], spark_jars: Path) -> None:
    """Copy into another folder, then rename it: a folder with this name was complete once."""
    for left in folder.parent.glob(_LEFT):  # of a process that was killed: only one at a time makes such folders
        shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        listed: list[dict[str, Any]] = []
        for jar in jars:
            shutil.copyfile(jar, made / jar.name)
            sha256 = _digest(made / jar.name)
            twins = (str(own) for own in spark_jars.glob("*.jar") if jar.name.endswith(own.name))
            twin = next((own for own in twins if _digest(Path(own)) == sha256), None)
            listed.append({"name": jar.name, "sha256": sha256, "python": _holds_python(jar), "twin": twin})
        (made / _LIST).write_text(json.dumps(listed))
        shutil.rmtree(folder, ignore_errors=True)  # torn or changed
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _is_there(twin: str | None, jar: Path) -> bool:
    own = Path(twin) if twin else None
    return own is not None and own.is_file() and own.stat().st_size == jar.stat().st_size


def _holds_python(jar: Path) -> bool:
    with zipfile.ZipFile(jar) as archive:
        return any(name.endswith(".py") for name in archive.namelist())


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def require_private(root: Path) -> None:
    """Make the folder for what Spark's Java runs, or refuse one in which others could change that.

    :raises PermissionError: saying which setting names another one.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = root.stat()
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_MAY_WRITE:
        raise PermissionError(
            f"{root} belongs to another user, or others may write there, and could change what Spark runs. Set "
            "[kafka_offsets] jars_folder to a folder that only this user may write to: if it is missing, it is made."
        )
