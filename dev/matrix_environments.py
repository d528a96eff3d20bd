"""The environments of the matrix: an Airflow or a Spark, with the packages that its users have installed with it.

They are kept in ``.local/matrix``. In addition to the versions that constraints files name, an Airflow gets the newest
packages of the day of its release.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dev import LOCAL, ROOT

FOLDER = LOCAL / "matrix"
_DEPENDS_ON = ("airflow_kafka_offsets", "dags", "dev")
"""Folders whose files all decide what the wheel is, or what is done with it."""
_UV = str(Path(sys.executable).with_name("uv"))


class MatrixError(Exception):
    """A combination doesn't work; the message ends with the program's output."""


@dataclass(frozen=True, slots=True)
class Airflow:
    """An Airflow with the versions of its constraints file.

    :param version: of ``apache-airflow``.
    :param python: its Python's version.
    :param released: the date of its release; no newer packages are installed. None for the newest of all.
    :param pins: versions from constraints files, by package.
    :param has_pyspark: whether PySpark, which the Spark provider requires, is installed. A worker whose
        ``spark-submit`` is elsewhere doesn't need it.
    """

    version: str
    python: str
    released: str | None
    pins: Mapping[str, str]
    has_pyspark: bool = True

    @property
    def folder(self) -> str:
        """The name of its environment's folder."""
        return "-".join(("airflow", self.version, *self.pins.values()))


@dataclass(frozen=True, slots=True)
class Spark:
    """A Spark from PySpark.

    :param version: of ``pyspark``.
    :param python: its driver's Python version.
    """

    version: str
    python: str


def build() -> Path:
    """Build the wheel from the package as it is now."""
    folder = FOLDER / "dist" / package_hash()
    if not list(folder.glob("*.whl")):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as place:
            made = Path(place) / "dist"
            run_program([sys.executable, "-m", "build", "--wheel", "--outdir", str(made), str(ROOT)], os.environ)
            try:
                made.rename(folder)
            except OSError:
                if not folder.exists():  # otherwise somebody else was faster
                    raise
    (wheel,) = folder.glob("*.whl")
    return wheel


def package_hash() -> str:
    """A hash of everything that a combination's result depends on.

    The whole of ``dev/`` is part of it, although the matrix uses only some modules: a list of these could lack one.
    """
    digest = hashlib.sha256()
    found = (file for name in _DEPENDS_ON for file in (ROOT / name).rglob("*"))
    files = [file for file in found if file.is_file() and file.parent.name != "__pycache__"]
    for file in sorted([*files, ROOT / "pyproject.toml"]):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(ROOT)} {content}\n".encode())
    return digest.hexdigest()[:16]


def airflow_environment(airflow: Airflow, wheel: Path) -> Path:
    """The environment of an Airflow, with the wheel in it."""
    pins = [f"{name}=={version}" for name, version in airflow.pins.items()]
    wanted = [f"apache-airflow=={airflow.version}", *pins, "apache-airflow-providers-apache-kafka"]
    newer = ["--exclude-newer", airflow.released] if airflow.released else []
    without = [] if airflow.has_pyspark else ["--override", str(_without_pyspark())]
    folder = _environment(airflow.folder, airflow.python, [*newer, *without, *wanted])
    # Pin all installed packages, as with a constraints file: only the wheel and missing requirements may be added.
    frozen = folder / "constraints.txt"
    if not frozen.exists():
        frozen.write_text(_uv("pip", "freeze", "--python", str(folder)), encoding="utf-8")
    _uv(
        *("pip", "install", "--python", str(folder), "--reinstall-package", "airflow-kafka-offsets", str(wheel)),
        *("--constraint", str(frozen), *without),
    )
    return folder


def tools_of_tests() -> Path:
    """A folder with what unit tests import beside the package, to be put on the path of any of these environments."""
    folder = FOLDER / "test-tools"
    if not (folder / "bin" / "pytest").exists():
        tools = ("hypothesis", "psutil", "pytest", "pytest-timeout", "pytest-xdist")
        pins = ("--constraint", str(ROOT / "dev" / "constraints.txt"))
        _uv("pip", "install", "--quiet", "--target", str(folder), *tools, *pins)
    return folder


def _without_pyspark() -> Path:
    """A file that makes uv leave PySpark out, whatever requires it."""
    file = FOLDER / "without_pyspark.txt"
    file.write_text("pyspark ; sys_platform == 'none'\npyspark-client ; sys_platform == 'none'\n")
    return file


def spark_environment(spark: Spark) -> Path:
    """The environment of a Spark: only PySpark."""
    return _environment(f"spark-{spark.version}-{spark.python}", spark.python, [f"pyspark=={spark.version}"])


def python_of(version: str) -> str:
    """A Python of a version such as 3.10: from PATH, from pyenv, or installed by uv.

    :raises MatrixError: uv can't install it.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in (shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))):
        # The one on PATH may be a shim without a Python behind it.
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    there = os.environ | {"UV_PYTHON_INSTALL_DIR": str(FOLDER / "python")}
    run_program([_UV, "python", "install", "--quiet", "--no-bin", version], there)
    return run_program([_UV, "python", "find", "--managed-python", version], there).strip()


def _environment(name: str, python: str, packages: list[str]) -> Path:
    """Create an environment once. An incomplete one is created again."""
    folder, wanted = FOLDER / name, " ".join([python, *packages])
    done = folder / "packages.txt"
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _uv("venv", "--quiet", "--no-python-downloads", "--python", python_of(python), str(folder))
        _uv("pip", "install", "--quiet", "--python", str(folder), *packages)
        done.write_text(wanted)
    return folder


def _uv(*arguments: str) -> str:
    """Run uv, without its cache: the environments are kept, and the cache would take half a gigabyte for each Spark."""
    return run_program([_UV, "--no-cache", *arguments], os.environ)


def run_program(command: list[str], variables: Mapping[str, str]) -> str:
    """Run a program. Returns its stdout, without its log.

    :raises MatrixError: it failed.
    """
    answer = subprocess.run(command, env=dict(variables), cwd=LOCAL, capture_output=True, text=True)
    if answer.returncode != 0:
        said = "\n".join((answer.stdout + answer.stderr).splitlines()[-40:])
        raise MatrixError(f"{' '.join(command)} ended with {answer.returncode}:\n{said}")
    return answer.stdout
