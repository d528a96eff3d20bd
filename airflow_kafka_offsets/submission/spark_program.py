"""The ``spark-submit`` that the provider runs, and what it finds on this worker: Java, its defaults."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_kafka_offsets.errors import ConfigurationError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SparkProgram:
    """A program and what it runs in.

    :param binary: name or path of ``spark-submit``, as in the Spark connection or the operator's ``spark_binary``.
    :param env_vars: the operator's: they come before the worker's own environment.
    """

    binary: str = "spark-submit"
    env_vars: Mapping[str, str] = field(default_factory=dict)

    def defaults(self) -> Path | None:
        """The ``spark-defaults.conf`` that it would read; None, and a line in the log, when there is none."""
        chosen = self._variable("SPARK_CONF_DIR")
        folders = [Path(chosen)] if chosen else [home / "conf" for home in self._homes()]
        for folder in folders:
            if (found := folder / "spark-defaults.conf").is_file():
                return found
        log.info("%s has no spark-defaults.conf in %s", self.binary, ", ".join(map(str, folders)))
        return None

    def explain(self, error: Exception) -> None:
        """Why it can't have started: it isn't on this worker, or Java isn't, which it needs whatever the master.

        :param error: what running it ended with: the operating system's own, or the provider's with its last lines.
        :raises ConfigurationError: when one of them isn't here.
        """
        if isinstance(error, OSError) and not self._found():
            raise ConfigurationError(self._missing()) from error
        self._explain_missing_java(error)

    def _found(self) -> str | None:
        return shutil.which(self.binary, path=self._variable("PATH"))

    def _missing(self) -> str:
        where = "there" if "/" in self.binary else f"on this worker's PATH ({self._variable('PATH')})"
        packaged = [home / "bin" / "spark-submit" for home in self._packaged()]
        found = [str(program) for program in packaged if program.is_file()]
        way = f"PySpark's is {found[0]}" if found else "Install Spark, or pip install pyspark, which brings it"
        return (
            f"The load is run by {self.binary}, and there is no such program {where}. {way}: put its folder on PATH, "
            "or give its path as spark_binary= to the operator."
        )

    def _explain_missing_java(self, error: Exception) -> None:
        home = self._variable("JAVA_HOME")
        if (Path(home) / "bin" / "java").is_file() if home else shutil.which("java", path=self._variable("PATH")):
            return
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH and no JAVA_HOME"
        raise ConfigurationError(
            f"{self.binary} needs Java 17 or newer on this worker: {where}. Install it or set JAVA_HOME."
        ) from error

    def _homes(self) -> Iterator[Path]:
        """Where Spark is, as its own ``find-spark-home`` looks for it."""
        if home := self._variable("SPARK_HOME"):
            yield Path(home)
            return
        if program := self._found():
            yield Path(program).resolve().parent.parent
        yield from self._packaged()

    def _packaged(self) -> Iterator[Path]:
        """The Spark that PySpark's package brings; that of ``pyspark-client`` alone has no programs."""
        pyspark = importlib.util.find_spec("pyspark")
        if pyspark is not None and pyspark.origin is not None:
            yield Path(pyspark.origin).parent

    def _variable(self, name: str) -> str | None:
        value = self.env_vars.get(name, os.environ.get(name))
        return None if value is None else str(value)
