"""The environments of the matrix: an Airflow, or a Spark, with what its users have beside it.

They lie under ``.local/matrix`` and are kept. Beside the versions that constraints files name, an Airflow gets what the
registry had on the day of its release.
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
_UV = str(Path(sys.executable).with_name("uv"))


class MatrixError(Exception):
    """A combination doesn't work; the message ends with what the program said."""


@dataclass(frozen=True, slots=True)
class Airflow:
    """An Airflow with what its constraints file names.

    :param version: of ``apache-airflow``.
    :param python: what it runs on.
    :param released: nothing newer is installed beside it; None for whatever is newest.
    :param pins: what constraints files name, by package.
    :param has_pyspark: whether the PySpark that the provider asks for is beside it; a worker whose ``spark-submit`` is
        elsewhere needs none.
    """

    version: str
    python: str
    released: str | None
    pins: Mapping[str, str]
    has_pyspark: bool = True

    @property
    def folder(self) -> str:
        """The name of its environment."""
        return "-".join(("airflow", self.version, *self.pins.values()))


@dataclass(frozen=True, slots=True)
class Spark:
    """A Spark, as PySpark brings it.

    :param version: of ``pyspark``.
    :param python: what its driver runs on.
    """

    version: str
    python: str


def build() -> Path:
    """The wheel, of the package as it is now."""
    folder = FOLDER / "dist" / package_hash()
    if not list(folder.glob("*.whl")):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as place:
            made = Path(place) / "dist"
            run_program([sys.executable, "-m", "build", "--wheel", "--outdir", str(made), str(ROOT)], os.environ)
            try:
                made.rename(folder)
            except OSError:
                if not folder.exists():  # otherwise it is somebody else's, who was faster
                    raise
    (wheel,) = folder.glob("*.whl")
    return wheel


def package_hash() -> str:
    """Of everything that a combination's result depends on."""
    digest = hashlib.sha256()
    package, dags = (ROOT / "airflow_kafka_offsets").rglob("*.py"), (ROOT / "dags").glob("*.py")
    files = [*package, *dags, *(ROOT / "dev").glob("matrix*.py"), ROOT / "pyproject.toml"]
    for file in sorted(files):
        digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def airflow_environment(airflow: Airflow, wheel: Path) -> Path:
    """The environment of an Airflow, with the wheel in it."""
    pins = [f"{name}=={version}" for name, version in airflow.pins.items()]
    wanted = [f"apache-airflow=={airflow.version}", *pins, "apache-airflow-providers-apache-kafka"]
    newer = ["--exclude-newer", airflow.released] if airflow.released else []
    without = [] if airflow.has_pyspark else ["--override", str(_without_pyspark())]
    folder = _environment(airflow.folder, airflow.python, [*newer, *without, *wanted])
    # The wheel and what it needs, and nothing else may change: so it is beside a constraints file.
    frozen = folder / "constraints.txt"
    if not frozen.exists():
        frozen.write_text(_uv("pip", "freeze", "--python", str(folder)), encoding="utf-8")
    _uv(
        *("pip", "install", "--python", str(folder), "--reinstall-package", "airflow-kafka-offsets", str(wheel)),
        *("--constraint", str(frozen), *without),
    )
    return folder


def _without_pyspark() -> Path:
    """What uv takes to leave PySpark out, whoever asks for it."""
    file = FOLDER / "without_pyspark.txt"
    file.write_text("pyspark ; sys_platform == 'none'\npyspark-client ; sys_platform == 'none'\n")
    return file


def spark_environment(spark: Spark) -> Path:
    """The environment of a Spark: PySpark and nothing else."""
    return _environment(f"spark-{spark.version}-{spark.python}", spark.python, [f"pyspark=={spark.version}"])


def python_of(version: str) -> str:
    """That Python, such as 3.10: on PATH, among pyenv's, or one that uv brings.

    :raises MatrixError: uv can't bring it.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in (shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))):
        # What is on PATH may be a shim for none.
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    there = os.environ | {"UV_PYTHON_INSTALL_DIR": str(FOLDER / "python")}
    run_program([_UV, "python", "install", "--quiet", "--no-bin", version], there)
    return run_program([_UV, "python", "find", "--managed-python", version], there).strip()


def _environment(name: str, python: str, packages: list[str]) -> Path:
    """Make an environment once; one that is half made is made anew."""
    folder, wanted = FOLDER / name, " ".join([python, *packages])
    done = folder / "packages.txt"
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _uv("venv", "--quiet", "--no-python-downloads", "--python", python_of(python), str(folder))
        _uv("pip", "install", "--quiet", "--python", str(folder), *packages)
        done.write_text(wanted)
    return folder


def _uv(*arguments: str) -> str:
    """Run uv. The environments are kept: its cache would be half a gigabyte a Spark, for nothing."""
    return run_program([_UV, "--no-cache", *arguments], os.environ)


def run_program(command: list[str], variables: Mapping[str, str]) -> str:
    """What a program prints, but for its log.

    :raises MatrixError: it failed.
    """
    answer = subprocess.run(command, env=dict(variables), cwd=LOCAL, capture_output=True, text=True)
    if answer.returncode != 0:
        said = "\n".join((answer.stdout + answer.stderr).splitlines()[-40:])
        raise MatrixError(f"{' '.join(command)} ended with {answer.returncode}:\n{said}")
    return answer.stdout
