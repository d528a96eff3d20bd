"""What ``spark-submit`` gets besides the user's arguments: confs, credentials, this package's bundle."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import conf

from airflow_kafka_offsets.client.connection.java_settings import ALLOWED_URLS, TOKEN_ENDPOINT
from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.compat.spark_provider import submit_instead
from airflow_kafka_offsets.errors import ConfigurationError, shorten
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import live_revisions, month_of
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark.session import conf as driver_conf
from airflow_kafka_offsets.spark.session.release import names_connector, packages_in
from airflow_kafka_offsets.submission.driver_bundle import (
    PYTHON_RUNNER,
    application_bundle,
    driver_bundle,
    start_arguments,
    stored_bundle,
)
from airflow_kafka_offsets.submission.driver_place import secrets_on_their_way
from airflow_kafka_offsets.submission.given_confs import not_given
from airflow_kafka_offsets.submission.package_jars import Packages, jars_of
from airflow_kafka_offsets.submission.quick_java import DRIVER_JAVA, quick_java, starts_quickly
from airflow_kafka_offsets.submission.tries import LoadTry

log = logging.getLogger(__name__)

ConnectorChoice = Literal["auto"]
"""``auto``: the load adds Spark's Kafka connector itself."""
_LOG_LEVEL = "spark.log.level"
"""From Spark 3.5 on. It applies where a session runs. What spark-submit itself says about drivers, applications and
pods, which the provider looks for, comes from a process without a session."""
PACKAGES = "spark.jars.packages"
_JARS = "spark.jars"
_PY_FILES = "spark.submit.pyFiles"
_USERS_FIRST = "spark.driver.userClassPathFirst"
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
_JAVA_MODULES = " ".join(
    (
        "-XX:+IgnoreUnrecognizedVMOptions",  # Java 8 has no modules
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        "-Djdk.reflect.useDirectMethodHandle=false",
    )
)
_EARLIER_WINDOWS = 3
"""How many windows, this one among them, are searched for the size of a record: the newest may be empty, or not loaded
yet."""


@dataclass(frozen=True, slots=True)
class SparkArguments:
    """What is submitted instead of a task's own arguments; the task itself isn't changed.

    :param defaults: confs that the user's confs override; none that his properties file sets.
    :param confs: confs that override the user's.
    :param properties_file, application, application_args, java_class, py_files, packages, jars: as for
        ``SparkSubmitOperator``.
    """

    defaults: Mapping[str, str]
    confs: Mapping[str, str] = field(repr=False)
    properties_file: str | None
    application: str
    application_args: list[Any] | None
    java_class: str | None
    py_files: str | None
    packages: str | None
    jars: str | None

    def hook(self, task: SparkSubmitOperator) -> SparkSubmitHook:
        """The provider's hook, as it makes one for a task with these arguments. The task's confs are read only now,
        because OpenLineage may have added some."""
        given = copy(task)
        given.conf = {**self.defaults, **(task.conf or {}), **self.confs}
        given.properties_file, given.py_files, given.packages = self.properties_file, self.py_files, self.packages
        given.application_args, given._java_class, given.jars = self.application_args, self.java_class, self.jars
        hook = SparkSubmitOperator._get_hook(given)
        if self.application != task.application:  # application and bundle go to the cluster as one file
            submit_instead(hook, self.application)
        return hook


@dataclass(frozen=True, slots=True)
class Submission:
    """One attempt, before it is submitted.

    :param pinned: the manifest to load.
    :param note_key: the key with which its driver signs its note.
    :param allow_gaps: the topics may have offsets without a record.
    :param connector: whether Spark's Kafka connector is added to the user's packages.
    """

    load: LoadTry
    pinned: PinnedManifest
    attempt: str
    note_key: str = field(repr=False)
    allow_gaps: bool
    connector: ConnectorChoice | None

    @contextmanager
    def arguments(self, task: SparkSubmitOperator) -> Iterator[SparkArguments]:
        """A task's arguments plus everything that the driver needs, which exists until the block ends."""
        load, kafka = self.load, self.load.kafka.java_settings()
        named = {driver_conf.ATTEMPT: self.attempt, driver_conf.NOTE_KEY: self.note_key}
        defaults = self._defaults(kafka.plain)
        span, confs = self.pinned.manifest.span, defaults | load.given.confs
        is_quick = starts_quickly(load.place, load.program, task.application, span, confs)
        own = SparkArguments(
            defaults,
            window_confs(self.pinned, named, allow_gaps=self.allow_gaps),
            *(task.properties_file, task.application, task.application_args, task._java_class, task.py_files),
            *(self._packages(task), task.jars),
        )
        own = self._with_jars(own, task)
        with (
            quick_java(load.program, jars_folder()) if is_quick else nullcontext() as java,
            self._with_python_files(own) as own,
            secrets_on_their_way(load.place, kafka.secret, load.given) as way,
        ):
            properties_file = way.properties_file or own.properties_file
            confs = {**own.confs, **self._java_options(kafka.plain, java), **way.confs}
            yield replace(own, confs=confs, properties_file=properties_file)

    def _defaults(self, reader: Mapping[str, str]) -> dict[str, str]:
        load, given = self.load, self.load.given
        # A log4j2.properties sets the level too, which our conf would override.
        quiet = {} if given.file and (given.file.parent / "log4j2.properties").is_file() else {_LOG_LEVEL: "WARN"}
        own = {**load.place.defaults, **quiet}
        return not_given(own, given.confs) | default_confs(
            load.kafka, load.ledger, self.pinned.manifest, reader, given.confs
        )

    def _java_options(self, reader: Mapping[str, str], quick: str | None) -> dict[str, str]:
        """The confs with the Java options of driver and executors, appended to the user's own options."""
        given = self.load.given.confs
        options = token_endpoint_allowed(reader, given)
        own = _JAVA_MODULES if self.load.place.takes_a_jar_alone else quick
        if own:
            options[DRIVER_JAVA] = f"{(given | options).get(DRIVER_JAVA, '')} {own}".strip()
        return options

    def _packages(self, task: SparkSubmitOperator) -> str | None:
        """The task's packages; with the Kafka connector, if it was requested, all of the user's packages: Spark doesn't
        read the conf then.

        :raises ConfigurationError: when the given connector is another Spark's, when nobody can tell which connector is
            needed, or when it would not reach the executors.
        """
        load, given = self.load, self.load.given.confs
        load.program.refuse_mixed()
        packages, jars = task.packages or given.get(PACKAGES), task.jars or given.get(_JARS)
        alone = (self.connector is not None or names_connector(packages)) and not names_connector(jars)
        if load.place.takes_a_jar_alone and alone:
            raise ConfigurationError(
                "On a standalone cluster in deploy mode cluster, Spark gives packages only to the driver, and the "
                "executors don't find the Kafka connector: name its jars in jars=, as URIs that every node can reach, "
                "and leave connector= and the package out. Or use deploy mode client."
            )
        if self.connector is None and not names_connector(packages, jars):
            return task.packages
        release = load.program.release(ask=self.connector == "auto")
        if release is not None and load.place.runs_this_spark:
            release.refuse_other(packages, jars)
        if self.connector is None:
            return task.packages
        if release is None:
            raise ConfigurationError(
                f"The Spark version of {load.program.binary} is unknown: there is no spark-core jar beside it, and "
                "--version doesn't tell. Name its Kafka connector in packages= instead."
            )
        return ",".join(release.with_connector(packages_in(packages)))

    def _with_jars(self, own: SparkArguments, task: SparkSubmitOperator) -> SparkArguments:
        """Give the jars of all packages as files, so that ``spark-submit`` doesn't resolve them again; or the packages,
        if that can't be done here."""
        load, given = self.load, self.load.given.confs
        coordinates, spark = packages_in(own.packages or given.get(PACKAGES)), load.program.own_jars()
        if not coordinates or spark is None or not load.place.resolves_here:
            return own
        resolving = task.exclude_packages, task._repositories, task.properties_file
        packages = Packages(coordinates, spark[1].version, spark[0], given, load.given.in_task, *resolving)
        found = jars_of(packages, load.program.binary, load.program.environment, jars_folder())
        if found is None:
            return own
        # A driver and executors in one process don't need Spark's own jars again; a cluster may lack some of them.
        wanted = found.missing if load.spark["master"].startswith("local") else found.jars
        jars = [*packages_in(task.jars or given.get(_JARS)), *map(str, wanted)]
        python = [*packages_in(own.py_files or given.get(_PY_FILES)), *map(str, found.python)]
        return replace(
            own,
            packages=None,
            jars=",".join(jars),
            py_files=",".join(python) or None,
            confs={**own.confs, **({PACKAGES: ""} if PACKAGES in given else {})},
        )

    @contextmanager
    def _with_python_files(self, own: SparkArguments) -> Iterator[SparkArguments]:
        """Put this package's bundle and the application where the driver can get them."""
        if self.load.place.takes_a_jar_alone and own.application.endswith(".py"):
            yield self._as_one_file(own)
            return
        given = own.py_files or self.load.given.confs.get(_PY_FILES)
        with driver_bundle() as bundle:
            yield replace(own, py_files=",".join(filter(None, (given, bundle))))

    def _as_one_file(self, own: SparkArguments) -> SparkArguments:
        """The jar is our zip, and the class to run is Spark's own, with which ``spark-submit`` starts Python too."""
        if self.load.given.is_true(_USERS_FIRST):
            raise ConfigurationError(
                f"The conf {_USERS_FIRST}=true would have the driver load Spark's own classes from the folder drivers "
                "in the ledger before they have been checked. Leave it out, or use the deploy mode client. It is set "
                f"in {self.load.given.source(_USERS_FIRST)}."
            )
        content = application_bundle(own.application, own.py_files)
        jar = stored_bundle(self.load.ledger, content)
        arguments = [*start_arguments(jar, content), *(own.application_args or [])]
        return replace(own, application=jar, application_args=arguments, java_class=PYTHON_RUNNER, py_files=None)


def jars_folder() -> Path:
    """The folder with the jars of packages: the setting, else in the user's cache. It may begin with ``~``."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(conf.get("kafka_offsets", "jars_folder") or f"{cache}/airflow-kafka-offsets/jars")


def window_confs(pinned: PinnedManifest, named: Mapping[str, str], *, allow_gaps: bool) -> dict[str, str]:
    """The confs that say what a driver reads, plus ``named``: the confs that name its attempt or its load."""
    confs = {
        driver_conf.MANIFEST: pinned.uri,
        driver_conf.SHA256: pinned.sha256,
        driver_conf.ALLOW_GAPS: str(allow_gaps).lower(),
    }
    return confs | dict(named)


def default_confs(
    kafka: KafkaOffsetsHook,
    ledger: Ledger,
    manifest: Manifest,
    reader: Mapping[str, str],
    given: Mapping[str, str],
) -> dict[str, str]:
    """The confs of every load that the user's confs override, without those that he gives himself.

    :param reader: options of the Kafka reader that aren't secret.
    :param given: the user's confs.
    """
    size = {} if driver_conf.BYTES_PER_RECORD in given else record_size_conf(kafka, ledger, manifest)
    read_by = {f"{driver_conf.PREFIX}{name}": value for name, value in reader.items()}
    return not_given({**driver_conf.GIVEN_BACK, **size, **read_by}, given)


def token_endpoint_allowed(reader: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Confs that allow Kafka's Java client, on driver and executors, to get tokens from the connection's endpoint;
    appended to the ``given`` Java options."""
    endpoint = reader.get(TOKEN_ENDPOINT)
    if endpoint is None:
        return {}
    options = {name: given.get(name, "") for name in (DRIVER_JAVA, "spark.executor.extraJavaOptions")}
    allows = f"-D{ALLOWED_URLS}={endpoint}"
    return {name: f"{text} {allows}".strip() for name, text in options.items() if ALLOWED_URLS not in text}


def record_size_conf(hook: KafkaOffsetsHook, ledger: Ledger, manifest: Manifest) -> dict[str, str]:
    """The conf with the average size of a record: from earlier windows, else from the log's size on disk; empty if
    unknown. It only decides how many tasks read a window."""
    if not manifest.span:
        return {}
    try:
        size_bytes = _loaded_size(ledger, manifest)
        if size_bytes is None:
            with hook.get_conn() as client:
                size_bytes = _stored_size(client, manifest)
    except Exception as error:  # of any kind: a load must not fail for lack of a plan
        log.info("The size of a record is unknown, so the split plan uses its default: %r", error)
        return {}
    return {} if size_bytes is None else {driver_conf.BYTES_PER_RECORD: f"{size_bytes:.1f}"}


def _loaded_size(ledger: Ledger, manifest: Manifest) -> float | None:
    """Average size of key and value in the last windows up to this one; None if none of them has it."""
    for folder in islice(_windows_before(ledger, manifest), _EARLIER_WINDOWS):
        publication = folder.publication()
        result = folder.result(publication.attempt) if publication else None
        if result and result.read.bytes_per_record:
            return result.read.bytes_per_record
    return None


def _windows_before(ledger: Ledger, manifest: Manifest) -> Iterator[WindowFolder]:
    """This window and earlier ones, latest first, of its own month and the month before. A backfill's windows resemble
    their neighbours, not the newest windows, and listing a whole ledger takes long."""
    own = month_of(manifest.window)
    first_day = datetime.strptime(own, "%Y%m").replace(tzinfo=UTC)
    for month in (own, f"{first_day - timedelta(days=1):%Y%m}"):
        live = live_revisions(ledger.window_folders.names([month]))
        for window in sorted(live, reverse=True):
            if window <= manifest.window:
                yield ledger.window_folders.folder(window, live[window][-1])


def _stored_size(client: OffsetsClient, manifest: Manifest) -> float | None:
    """Average bytes per offset in the logs of the window's partitions, as stored on the leaders' disks (compressed)."""
    partitions = list(map(TopicPartition.of, manifest.non_empty()))
    sizes, extents = client.log_sizes(partitions), client.log_extents(partitions)
    failures = [*sizes.failures(), *extents.failures()]
    if failures:
        why = shorten(f"{name}: {error}" for name, error in failures)
        log.info("The size of a record is unknown for %s partitions: %s", len(failures), why)
    size_bytes, offsets, known = 0, 0, extents.ok()
    for size in sizes.ok():
        extent = known.lookup(size.topic, size.partition)
        if extent is None or size.size_bytes is None:
            continue
        if extent.high_watermark is not None and extent.log_start_offset is not None:
            size_bytes += size.size_bytes
            offsets += extent.high_watermark - extent.log_start_offset
    return size_bytes / offsets if size_bytes and offsets else None
