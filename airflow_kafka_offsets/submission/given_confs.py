"""The user's own confs: those of the one file that ``spark-submit`` reads, and those of the task, which override them.
``spark-submit`` also takes the deploy mode from the environment.

Everything that is passed with ``--conf`` overrides the file. So what the user gives is left out of our defaults, and
guards look here, not at the task alone. The file may hold secrets: its values stay in it, except those that ours are
appended to: Java options, packages, jars and Python files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.submission.spark_program import SparkProgram

DEPLOY_MODE = "spark.submit.deployMode"
_MODE_VARIABLE = "DEPLOY_MODE"
_ENDS_OPEN = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_CONF = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:]?\s*(.*)")
_ESCAPED, _CONTROLS = re.compile(r"\\(.)"), {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class GivenConfs:
    """What a user gives for one submission.

    :param file: the file that ``spark-submit`` reads; None if there is none.
    :param in_file: the file's confs; none if it can't be read, and then ``spark-submit`` says why.
    :param in_task: the task's confs, as text. Those that OpenLineage adds when the load is submitted aren't here.
    :param in_environment: confs that the environment stands in for, which both others override.
    """

    file: Path | None = None
    in_file: Mapping[str, str] = field(default_factory=dict, repr=False)
    in_task: Mapping[str, str] = field(default_factory=dict, repr=False)
    in_environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, task: SparkSubmitOperator, program: SparkProgram) -> Self:
        """Read them.

        :param program: what submits; its ``spark-defaults.conf`` applies if the task names no ``properties_file``.
        """
        file = Path(task.properties_file) if task.properties_file else program.defaults()
        in_task = {name: str(value) for name, value in (task.conf or {}).items()}
        mode = program.variable(_MODE_VARIABLE)
        return cls(file, confs_in(_text(file)), in_task, {DEPLOY_MODE: mode} if mode else {})

    @property
    def confs(self) -> dict[str, str]:
        """All confs, as Spark sees them."""
        return {**self.in_environment, **self.in_file, **self.in_task}

    def source(self, name: str) -> str:
        """For messages: where a conf is set."""
        if name in self.in_task:
            return "conf="
        return str(self.file) if name in self.in_file else f"the variable {_MODE_VARIABLE}"


def not_given(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Our defaults, without those that the user sets."""
    return {name: value for name, value in own.items() if name not in given}


def confs_in(properties: str) -> dict[str, str]:
    """The confs in the text of a ``spark-defaults.conf``, which Spark reads as ``java.util.Properties``: on each line a
    name and a value, separated by blanks, ``=`` or ``:``. A backslash continues a line, or escapes a character."""
    pairs = (_CONF.fullmatch(line.strip()) for line in _lines(properties))
    return {_unescaped(pair[1]): _unescaped(pair[2]) for pair in pairs if pair is not None and pair[2]}


def _lines(properties: str) -> Iterator[str]:
    """The lines with what continues them, without comments, which nothing continues."""
    begun = ""
    for line in map(str.lstrip, properties.splitlines()):
        if begun or not line.startswith(("#", "!")):
            begun += line
            if _ENDS_OPEN.search(line):
                begun = begun[:-1]
            else:
                yield begun
                begun = ""
    yield begun


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _CONTROLS.get(found[1], found[1]), text)


def _text(file: Path | None) -> str:
    if file is None or not file.is_file() or not os.access(file, os.R_OK):
        return ""
    return file.read_text(encoding="utf-8", errors="replace")
