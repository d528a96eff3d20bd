"""What ``spark-submit`` gets besides the user's arguments: confs, credentials, this package's bundle."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import conf

from airflow_kafka_offsets.client.connection.java_settings import JavaSettings
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.spark.session.release import names_connector, packages_in, table_confs
from airflow_kafka_offsets.spark.table_load import TableLoad
from airflow_kafka_offsets.submission.application import driver_bundle
from airflow_kafka_offsets.submission.batch import Batch
from airflow_kafka_offsets.submission.confs import (
    DRIVER_JAVA,
    GivenConfs,
    default_confs,
    not_given,
    token_endpoint_allowed,
    window_confs,
)
from airflow_kafka_offsets.submission.driver import DriverPlace, secrets_on_their_way
from airflow_kafka_offsets.submission.package_jars import Packages, jars_of
from airflow_kafka_offsets.submission.quick_java import quick_java, starts_quickly
from airflow_kafka_offsets.submission.spark_program import SparkProgram
from airflow_kafka_offsets.submission.tries import LoadTry

ConnectorChoice = Literal["auto", "given"]
"""``auto``: the task adds Spark's Kafka connector, and what a table needs, itself. ``given``: it adds nothing."""
_LOG_LEVEL = "spark.log.level"
"""From Spark 3.5 on. It applies where a session runs. What spark-submit itself says about drivers, applications and
pods, which the provider looks for, comes from a process without a session."""
_PROGRESS = {"spark.ui.showConsoleProgress": "true", "spark.ui.consoleProgress.update.interval": "10s"}
"""Where the driver's output is the task's log, Spark itself says there how far its stages are."""
PACKAGES = "spark.jars.packages"
_JARS = "spark.jars"
PY_FILES = "spark.submit.pyFiles"


@dataclass(frozen=True, slots=True)
class SparkArguments:
    """What is submitted instead of a task's own arguments; the task itself isn't changed.

    :param defaults: confs that the user's confs override; none that his properties file sets.
    :param confs: confs that override the user's.
    :param properties_file, py_files, packages, jars: as for ``SparkSubmitOperator``.
    """

    defaults: Mapping[str, str]
    confs: Mapping[str, str] = field(repr=False)
    properties_file: str | None
    py_files: str | None
    packages: str | None
    jars: str | None

    def hook(self, task: SparkSubmitOperator) -> SparkSubmitHook:
        """The provider's hook, as it makes one for a task with these arguments. The task's confs are read only now,
        because OpenLineage may have added some."""
        given = copy(task)
        given.conf = {**self.defaults, **(task.conf or {}), **self.confs}
        given.properties_file, given.py_files = self.properties_file, self.py_files
        given.packages, given.jars = self.packages, self.jars
        return SparkSubmitOperator._get_hook(given)


@dataclass(frozen=True, slots=True)
class Submitter:
    """What submits a task's driver, and where to.

    :param spark: the Spark connection, as the provider reads it.
    :param program: ``spark-submit``.
    :param given: the user's own confs.
    """

    spark: Mapping[str, Any]
    program: SparkProgram = field(repr=False)
    given: GivenConfs
    place: DriverPlace

    @classmethod
    def of(cls, task: SparkSubmitOperator) -> Self:
        """A task's. Raises as :meth:`.DriverPlace.of`."""
        spark = task._get_hook()._connection
        program = SparkProgram(spark["spark_binary"], task.env_vars or {})
        given = GivenConfs.of(task, program)
        return cls(spark, program, given, DriverPlace.of(spark, given))


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch of attempts, before it is submitted.

    :param allow_gaps: the topics may have offsets without a record.
    :param connector: whether Spark's Kafka connector, and what a table needs, are added to the user's packages.
    :param table: the ready-made load's arguments; None for another application.
    """

    load: LoadTry
    submitter: Submitter
    batch: Batch
    allow_gaps: bool
    connector: ConnectorChoice | None
    table: TableLoad | None = None

    @contextmanager
    def arguments(self, task: SparkSubmitOperator) -> Iterator[SparkArguments]:
        """A task's arguments plus everything that the driver needs, which exists until the block ends."""
        by, kinds = self.submitter, () if self.table is None else self.table.kinds
        given, told = by.given.confs, self.load.refs.driver_options()
        windows = window_confs(self.batch.numbers, given, allow_gaps=self.allow_gaps)
        is_quick = starts_quickly(by.place, by.program, task.application, self.batch.span, windows | given)
        java = quick_java(by.program, jars_folder()) if is_quick else nullcontext()
        with java as options, complete(task, by, told, windows, self.connector, kinds, java=options) as arguments:
            yield arguments


@contextmanager
def complete(
    task: SparkSubmitOperator,
    by: Submitter,
    kafka: JavaSettings,
    windows: Mapping[str, str],
    connector: ConnectorChoice | None,
    kinds: Collection[str],
    *,
    java: str | None = None,
) -> Iterator[SparkArguments]:
    """A task's arguments plus confs, packages, this package's bundle and the connection's credentials, until the block
    ends.

    :param windows: the confs that say what the driver reads.
    :param connector: as for :class:`Submission`.
    :param kinds: of the table and its values, which may need packages and confs too.
    :param java: the driver's Java options; None for the user's own alone.
    """
    given = by.given.confs
    of_table = not_given(table_confs(kinds), given) if connector == "auto" else {}
    defaults = of_table | _place_confs(by) | default_confs(kafka.plain, given)
    options = token_endpoint_allowed(kafka.plain, given)
    if java:
        options[DRIVER_JAVA] = f"{(given | options).get(DRIVER_JAVA, '')} {java}".strip()
    packages = _packages(task, by, connector, kinds)
    own = SparkArguments(defaults, windows, task.properties_file, task.py_files, packages, task.jars)
    own = _with_jars(own, task, by)
    with driver_bundle() as bundle, secrets_on_their_way(by.place, kafka.secret, by.given) as secrets:
        yield replace(
            own,
            confs={**own.confs, **options},
            properties_file=secrets or own.properties_file,
            py_files=",".join(filter(None, (own.py_files or given.get(PY_FILES), bundle))),
        )


def _place_confs(by: Submitter) -> dict[str, str]:
    """The confs of every driver that depend on who starts it, without those that the user sets."""
    given = by.given
    # A log4j2.properties sets the level too, which our conf would override.
    quiet = {} if given.file and (given.file.parent / "log4j2.properties").is_file() else {_LOG_LEVEL: "WARN"}
    return not_given({**by.place.defaults, **quiet, **({} if by.place.on_cluster else _PROGRESS)}, given.confs)


def _packages(
    task: SparkSubmitOperator, by: Submitter, connector: ConnectorChoice | None, kinds: Collection[str]
) -> str | None:
    """The task's packages; with the Kafka connector, if it was requested, all of the user's packages: Spark doesn't
    read the conf then.

    :raises ConfigurationError: when the given connector is another Spark's, or when nobody can tell which connector
        is needed.
    """
    given = by.given.confs
    by.program.refuse_mixed()
    packages, jars = task.packages or given.get(PACKAGES), task.jars or given.get(_JARS)
    if connector != "auto" and not names_connector(packages, jars):
        return task.packages
    release = by.program.release(ask=connector == "auto")
    if release is not None and by.place.runs_this_spark:
        release.refuse_other(packages, jars)
    if connector != "auto":
        return task.packages
    if release is None:
        raise ConfigurationError(
            f"The Spark version of {by.program.binary} is unknown: there is no spark-core jar beside it, and "
            "--version doesn't tell. Name its Kafka connector in packages= instead."
        )
    return ",".join(release.with_packages(kinds, packages_in(packages), jars))


def _with_jars(own: SparkArguments, task: SparkSubmitOperator, by: Submitter) -> SparkArguments:
    """Give the jars of all packages as files, so that ``spark-submit`` doesn't resolve them again; or the packages,
    if that can't be done here."""
    given = by.given.confs
    coordinates, spark = packages_in(own.packages or given.get(PACKAGES)), by.program.own_jars()
    if not coordinates or spark is None or not by.place.runs_this_spark:
        return own
    resolving = task.exclude_packages, task._repositories, task.properties_file
    packages = Packages(coordinates, spark[1].version, spark[0], given, by.given.in_task, *resolving)
    found = jars_of(packages, by.program.binary, by.program.environment, jars_folder())
    if found is None:
        return own
    # A driver and executors in one process don't need Spark's own jars again; a cluster may lack some of them.
    wanted = found.missing if by.spark["master"].startswith("local") else found.jars
    jars = [*packages_in(task.jars or given.get(_JARS)), *map(str, wanted)]
    python = [*packages_in(own.py_files or given.get(PY_FILES)), *map(str, found.python)]
    return replace(
        own,
        packages=None,
        jars=",".join(jars),
        py_files=",".join(python) or None,
        confs={**own.confs, **({PACKAGES: ""} if PACKAGES in given else {})},
    )


def jars_folder() -> Path:
    """The folder with the jars of packages: the setting, else in the user's cache. It may begin with ``~``."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(conf.get("kafka_offsets", "jars_folder") or f"{cache}/airflow-kafka-offsets/jars")
