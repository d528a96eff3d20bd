"""The ``spark-submit`` that the provider runs, and what it needs on this worker: Java, its defaults, its packages."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.release import SparkRelease

log = logging.getLogger(__name__)

_CORE = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<version>\d+\.\d+\.\d+).*\.jar")
_TOLD = re.compile(r"version (?P<version>\d+\.\d+\.\d+)\S*\s.*Using Scala version (?P<scala>\d+\.\d+)", re.DOTALL)
_TELLS_WITHIN_S = 60
_OLDER_JAVA = "UnsupportedClassVersionError"
_NO_HADOOP = "either HADOOP_CONF_DIR or YARN_CONF_DIR must be set"


@dataclass(frozen=True, slots=True)
class SparkProgram:
    """A program and its environment.

    :param binary: name or path of ``spark-submit``, as in the Spark connection or the operator's ``spark_binary``.
    :param env_vars: the operator's variables, which override the worker's environment.
    """

    binary: str = "spark-submit"
    env_vars: Mapping[str, str] = field(default_factory=dict)

    def defaults(self) -> Path | None:
        """The ``spark-defaults.conf`` that it would read; None, with a line in the log, if there is none."""
        chosen = self.variable("SPARK_CONF_DIR")
        folders = [Path(chosen)] if chosen else [home / "conf" for home in self._homes()]
        for folder in folders:
            if (found := folder / "spark-defaults.conf").is_file():
                return found
        log.info("%s has no spark-defaults.conf in %s", self.binary, ", ".join(map(str, folders)))
        return None

    def release(self, *, ask: bool = False) -> SparkRelease | None:
        """Its version of Spark, from the jars beside it. Without jars: with ``ask``, what it answers itself, else
        None."""
        if (own := self.own_jars()) is not None:
            return own[1]
        if not ask:
            return None
        with suppress(OSError, subprocess.SubprocessError):  # running the load will show what is wrong with it
            answer = subprocess.run(
                [self.binary, "--version"],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_TELLS_WITHIN_S,
            )
            if found := _TOLD.search(answer.stdout):
                return SparkRelease(found["version"], found["scala"])
        return None

    def java(self) -> Path | None:
        """The Java that it starts; None if there is none."""
        home = self.variable("JAVA_HOME")
        found = f"{home}/bin/java" if home else shutil.which("java", path=self.variable("PATH"))
        return Path(found) if found and Path(found).is_file() else None

    def own_jars(self) -> tuple[Path, SparkRelease] | None:
        """The folder with Spark's own jars, and the version that they are of; None if there is none beside it."""
        for home in self._homes():
            for jar in home.glob("jars/spark-core_*.jar"):
                if found := _CORE.fullmatch(jar.name):
                    return jar.parent, SparkRelease(found["version"], found["scala"])
        return None

    @property
    def environment(self) -> dict[str, str]:
        """The environment that it gets."""
        return os.environ | {name: str(value) for name, value in self.env_vars.items()}

    def refuse_mixed(self) -> None:
        """Refuse PySpark's own Spark if another version of ``pyspark-client`` was installed into the same folder."""
        if not set(self._packaged()) & set(self._homes()):
            return
        with suppress(PackageNotFoundError):
            full, client = version("pyspark"), version("pyspark-client")
            if full != client:
                # Suggest the client's version: it may lag behind, and Airflow's constraints pin it.
                raise ConfigurationError(
                    f"pyspark {full} and pyspark-client {client} are installed into one folder, and have mixed their "
                    f"files. Install the same version of both: pip install --force-reinstall pyspark=={client} "
                    f"pyspark-client=={client}."
                )

    def refuse_missing(self) -> None:
        """Refuse a program that isn't on this worker.

        :raises ConfigurationError: when it isn't there.
        """
        if not self._found():
            raise ConfigurationError(self._missing())

    def explain(self, error: Exception, output: Collection[str], conn_id: str | None) -> None:
        """Explain why it can't have started: it isn't on this worker, or Java isn't, which it needs for every master.

        :param error: the error from running it: the operating system's, or the provider's.
        :param output: what it printed.
        :param conn_id: the Spark connection that the task names.
        :raises ConfigurationError: when it, Java, or YARN's settings are missing here, or Java is too old.
        """
        if isinstance(error, OSError):
            self.refuse_missing()
        self._explain_missing_java(error)
        if any(_OLDER_JAVA in line for line in output):
            raise ConfigurationError(
                f"The Java that {self.binary} found on this worker is too old for it. Spark 4 needs Java 17 or newer, "
                "Spark 3.5 takes 8, 11 and 17: set JAVA_HOME."
            ) from error
        if any(_NO_HADOOP in line for line in output):
            raise ConfigurationError(
                f"The Spark master is YARN, but this worker has neither HADOOP_CONF_DIR nor YARN_CONF_DIR. Is there a "
                f"Spark connection {conn_id!r}? Without it, Airflow's Spark provider takes YARN: create it with your "
                "master as its host, for example spark://spark:7077 or local[*]."
            ) from error

    def _found(self) -> str | None:
        return shutil.which(self.binary, path=self.variable("PATH"))

    def _missing(self) -> str:
        where = "there" if "/" in self.binary else f"on this worker's PATH ({self.variable('PATH')})"
        packaged = [home / "bin" / "spark-submit" for home in self._packaged()]
        found = [str(program) for program in packaged if program.is_file()]
        way = f"PySpark's is {found[0]}" if found else f"Install Spark, or {_pip()}, which brings it"
        return (
            f"The load is run by {self.binary}, but there is no such program {where}. {way}: put its folder on PATH, "
            "or give its path as spark_binary= to the operator."
        )

    def _explain_missing_java(self, error: Exception) -> None:
        if self.java() is not None:
            return
        home = self.variable("JAVA_HOME")
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH and no JAVA_HOME"
        raise ConfigurationError(
            f"{self.binary} needs Java on this worker (17 or newer; Spark 3.5 also 8 and 11): {where}. "
            "Install it or set JAVA_HOME."
        ) from error

    def _homes(self) -> Iterator[Path]:
        """Where Spark is, in the order of its own ``find-spark-home``."""
        if home := self.variable("SPARK_HOME"):
            yield Path(home)
            return
        program = self._found()
        if program is not None:
            yield Path(program).resolve().parent.parent
        # Another Python's spark-submit finds the Spark of its own PySpark.
        if program is None or Path(program).parent == Path(sysconfig.get_path("scripts")):
            yield from self._packaged()

    def _packaged(self) -> Iterator[Path]:
        """The Spark in the package ``pyspark``; ``pyspark-client`` alone brings no programs."""
        pyspark = importlib.util.find_spec("pyspark")
        if pyspark is not None and pyspark.origin is not None:
            yield Path(pyspark.origin).parent

    def variable(self, name: str) -> str | None:
        """A variable of the environment that ``spark-submit`` gets; None if it isn't set."""
        value = self.env_vars.get(name, os.environ.get(name))
        return None if value is None else str(value)


def _pip() -> str:
    """How to install PySpark: in the version of ``pyspark-client`` if that is installed, as both write into one
    folder."""
    with suppress(PackageNotFoundError):
        return f"pip install pyspark=={version('pyspark-client')}"
    return "pip install pyspark"
