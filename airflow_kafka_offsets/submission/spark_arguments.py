"""What ``spark-submit`` is given beside the user's arguments: confs, credentials, the driver's part of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.spark import conf as driver
from airflow_kafka_offsets.submission.driver_bundle import (
    PYTHON_RUNNER,
    application_bundle,
    driver_bundle,
    start_arguments,
    stored_bundle,
)
from airflow_kafka_offsets.submission.driver_secrets import DriverPlace, secrets_on_their_way
from airflow_kafka_offsets.submission.record_size import record_size_conf
from airflow_kafka_offsets.submission.spark_program import SparkProgram
from airflow_kafka_offsets.submission.window_load import WindowLoad

_LOG_LEVEL = "spark.log.level"
"""From Spark 3.5 on. It holds where a session runs: what spark-submit itself says of drivers, applications and pods,
which the provider looks for, comes from a process without one."""
_USERS_FIRST = "spark.driver.userClassPathFirst"


@dataclass(frozen=True, slots=True)
class SparkArguments:
    """What is submitted in the place of a task's own arguments; the task keeps those.

    :param defaults: confs that hold where the user's don't say otherwise.
    :param confs: confs that hold whatever the user's say.
    :param properties_file, application, application_args, java_class, py_files: as ``SparkSubmitOperator`` takes them.
    """

    defaults: Mapping[str, str]
    confs: Mapping[str, str] = field(repr=False)
    properties_file: str | None
    application: str
    application_args: list[Any] | None
    java_class: str | None
    py_files: str | None

    def hook(self, task: SparkSubmitOperator) -> SparkSubmitHook:
        """The provider's hook, as it makes it of a task with these arguments; the task's confs are those that it has by
        then, as OpenLineage may have added some."""
        given = copy(task)
        given.conf = {**self.defaults, **(task.conf or {}), **self.confs}
        given.properties_file, given.py_files = self.properties_file, self.py_files
        given.application_args, given._java_class = self.application_args, self.java_class
        return SparkSubmitOperator._get_hook(given)


@dataclass(frozen=True, slots=True)
class Submission:
    """One attempt, before it is submitted.

    :param load: the try that it is of.
    :param pinned: what is to be loaded.
    :param attempt: the attempt's name.
    :param note_key: what its driver signs its note with.
    :param allow_gaps: the topics may have offsets without a record.
    """

    load: WindowLoad
    pinned: PinnedManifest
    attempt: str
    note_key: str = field(repr=False)
    allow_gaps: bool

    def program(self, task: SparkSubmitOperator) -> SparkProgram:
        """What submits it."""
        return SparkProgram(self.load.spark["spark_binary"], task.env_vars or {})

    @contextmanager
    def arguments(self, task: SparkSubmitOperator) -> Iterator[SparkArguments]:
        """A task's arguments with all that the driver needs, which is there until the block ends."""
        kafka = self.load.kafka.java_settings()
        own = SparkArguments(
            self._defaults(task, kafka.plain),
            self._window(),
            *(task.properties_file, task.application, task.application_args, task._java_class, task.py_files),
        )
        secrets = self.load.place, kafka.secret, task.conf or {}, task.properties_file, self.program(task)
        with self._with_python_files(own, task) as own, secrets_on_their_way(*secrets) as way:
            properties_file = way.properties_file or own.properties_file
            yield replace(own, confs={**own.confs, **way.confs}, properties_file=properties_file)

    def _defaults(self, task: SparkSubmitOperator, reader: Mapping[str, str]) -> dict[str, str]:
        # A driver that YARN starts again would be refused: an attempt is made once.
        own = {"spark.yarn.maxAppAttempts": "1"} if self.load.place is DriverPlace.YARN else {}
        own |= driver.GIVEN_BACK
        if not self._logging_is_set(task):
            own[_LOG_LEVEL] = "WARN"
        if driver.BYTES_PER_RECORD not in (task.conf or {}):
            own |= record_size_conf(self.load.kafka, self.load.ledger, self.pinned.manifest)
        return own | {f"{driver.PREFIX}{name}": value for name, value in reader.items()}

    def _window(self) -> dict[str, str]:
        return {
            driver.MANIFEST: self.pinned.uri,
            driver.SHA256: self.pinned.sha256,
            driver.ATTEMPT: self.attempt,
            driver.NOTE_KEY: self.note_key,
            driver.ALLOW_GAPS: str(self.allow_gaps).lower(),
        }

    def _logging_is_set(self, task: SparkSubmitOperator) -> bool:
        """Whether the user's own files say how much Spark is to log: a conf of ours would come before them."""
        defaults = Path(task.properties_file) if task.properties_file else self.program(task).defaults()
        if defaults is None:
            return False
        with suppress(OSError):  # spark-submit says what is wrong with it
            return _LOG_LEVEL in defaults.read_text() or (defaults.parent / "log4j2.properties").is_file()
        return False

    @contextmanager
    def _with_python_files(self, own: SparkArguments, task: SparkSubmitOperator) -> Iterator[SparkArguments]:
        """Have the driver's part of this package, and the application, where the driver can get them."""
        if self.load.place is DriverPlace.STANDALONE and own.application.endswith(".py"):
            yield self._as_one_file(own, task)
            return
        with driver_bundle() as bundle:
            yield replace(own, py_files=",".join(filter(None, (own.py_files, bundle))))

    def _as_one_file(self, own: SparkArguments, task: SparkSubmitOperator) -> SparkArguments:
        """``spark-submit`` takes no Python application for a standalone cluster's own workers. They do take a jar, and
        a class of Spark itself to run: here a zip as jar, and the class by which ``spark-submit`` starts Python too."""
        if str((task.conf or {}).get(_USERS_FIRST, "false")).lower() == "true":
            raise ConfigurationError(
                f"The conf {_USERS_FIRST}=true would have the driver take Spark's own classes from the ledger's folder "
                "drivers, before anybody has looked at them. Leave it out, or use the deploy mode client."
            )
        content = application_bundle(own.application, own.py_files)
        jar = stored_bundle(self.load.ledger, content)
        arguments = [*start_arguments(jar, content), *(own.application_args or [])]
        return replace(own, application=jar, application_args=arguments, java_class=PYTHON_RUNNER, py_files=None)
