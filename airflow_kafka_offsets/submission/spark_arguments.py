"""What ``spark-submit`` is given beside the user's arguments: confs, credentials, the driver's part of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
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

_LOG_LEVEL = "spark.log.level"
"""From Spark 3.5 on. It holds where a session runs: what spark-submit itself says of drivers, applications and pods,
which the provider looks for, comes from a process without one."""
_CHANGED = ("application", "application_args", "conf", "properties_file", "py_files", "_java_class")
_USERS_FIRST = "spark.driver.userClassPathFirst"


@dataclass(frozen=True, slots=True)
class Submission:
    """One attempt, before it is submitted.

    :param ledger: the pipeline's ledger.
    :param pinned: what is to be loaded.
    :param attempt: the attempt's name.
    :param note_key: what its driver signs its note with.
    :param allow_gaps: the topics may have offsets without a record.
    :param kafka: the Kafka connection.
    :param place: who starts the driver.
    :param spark_binary: the ``spark-submit`` that the Spark connection names.
    """

    ledger: Ledger
    pinned: PinnedManifest
    attempt: str
    note_key: str = field(repr=False)
    allow_gaps: bool
    kafka: KafkaOffsetsHook
    place: DriverPlace
    spark_binary: str

    def program(self, task: SparkSubmitOperator) -> SparkProgram:
        """What submits it."""
        return SparkProgram(self.spark_binary, task.env_vars or {})

    @contextmanager
    def arguments(self, task: SparkSubmitOperator) -> Iterator[None]:
        """Have a task's arguments say all that the driver needs, until the block ends: the user's come back then."""
        before = {name: getattr(task, name) for name in _CHANGED}
        kafka = self.kafka.java_settings()
        try:
            task.conf = self._confs(task, kafka.plain, task.conf or {})
            with (
                self._python_files(task),
                secrets_on_their_way(
                    self.place, kafka.secret, task.conf, task.properties_file, self.program(task)
                ) as way,
            ):
                task.conf |= way.confs
                task.properties_file = way.properties_file or task.properties_file
                task._hook = None  # the one that was asked for an earlier driver knows nothing of all this
                yield
        finally:
            for name, value in before.items():
                setattr(task, name, value)

    def _logging_is_set(self, task: SparkSubmitOperator) -> bool:
        """Whether the user's own files say how much Spark is to log: a conf of ours would come before them."""
        defaults = Path(task.properties_file) if task.properties_file else self.program(task).defaults()
        if defaults is None:
            return False
        with suppress(OSError):  # spark-submit says what is wrong with it
            return _LOG_LEVEL in defaults.read_text() or (defaults.parent / "log4j2.properties").is_file()
        return False

    def _confs(self, task: SparkSubmitOperator, reader: Mapping[str, str], users: Mapping[str, str]) -> dict[str, str]:
        # A driver that YARN starts again would be refused: an attempt is made once.
        own = {"spark.yarn.maxAppAttempts": "1"} if self.place is DriverPlace.YARN else {}
        own |= driver.GIVEN_BACK
        if not self._logging_is_set(task):
            own[_LOG_LEVEL] = "WARN"
        if driver.BYTES_PER_RECORD not in users:
            own |= record_size_conf(self.kafka, self.ledger, self.pinned.manifest)
        told = {f"{driver.PREFIX}{key}": value for key, value in reader.items()}
        window = {
            driver.MANIFEST: self.pinned.uri,
            driver.SHA256: self.pinned.sha256,
            driver.ATTEMPT: self.attempt,
            driver.NOTE_KEY: self.note_key,
            driver.ALLOW_GAPS: str(self.allow_gaps).lower(),
        }
        return own | told | dict(users) | window

    @contextmanager
    def _python_files(self, task: SparkSubmitOperator) -> Iterator[None]:
        """Have the driver's part of this package, and the application, where the driver can get them."""
        if self.place is DriverPlace.STANDALONE and task.application.endswith(".py"):
            self._send_as_one_file(task)
            yield
            return
        with driver_bundle() as bundle:
            task.py_files = ",".join(filter(None, (task.py_files, bundle)))
            yield

    def _send_as_one_file(self, task: SparkSubmitOperator) -> None:
        """``spark-submit`` takes no Python application for a standalone cluster's own workers. They do take a jar, and
        a class of Spark itself to run: here a zip as jar, and the class by which ``spark-submit`` starts Python too."""
        if str((task.conf or {}).get(_USERS_FIRST, "false")).lower() == "true":
            raise ConfigurationError(
                f"The conf {_USERS_FIRST}=true would have the driver take Spark's own classes from the ledger's folder "
                "drivers, before anybody has looked at them. Leave it out, or use the deploy mode client."
            )
        content = application_bundle(task.application, task.py_files)
        jar = stored_bundle(self.ledger, content)
        task.application_args = [*start_arguments(jar, content), *(task.application_args or [])]
        task.application, task._java_class, task.py_files = jar, PYTHON_RUNNER, None
