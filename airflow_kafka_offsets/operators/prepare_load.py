"""Prepare a load for any way of submitting Spark: EMR, Dataproc, Databricks, Livy, Kubernetes, Glue."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from airflow.providers.common.compat.sdk import BaseOperator
from airflow.sdk import ObjectStoragePath

from airflow_kafka_offsets.arguments import check_choice
from airflow_kafka_offsets.errors import ConfigurationError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.windows.ledger_names import DRIVERS
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast
from airflow_kafka_offsets.pipelines.empty_window import count_nothing, needs_no_job
from airflow_kafka_offsets.pipelines.preflight import readable
from airflow_kafka_offsets.pipelines.publisher import left_to_publish, publish
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.spark.session import conf as driver_conf
from airflow_kafka_offsets.spark.session.release import SparkRelease, packages_in, usual_scala
from airflow_kafka_offsets.submission.driver_bundle import LOAD_APPLICATION
from airflow_kafka_offsets.submission.prepared_load import ClusterFiles, PreparedLoad, Program
from airflow_kafka_offsets.submission.spark_arguments import (
    PACKAGES,
    default_confs,
    token_endpoint_allowed,
    window_confs,
)
from airflow_kafka_offsets.submission.tries import instance_of

if TYPE_CHECKING:
    from airflow.sdk import Context

_SECRET_ENDINGS = ("password", "sasl.jaas.config", "ssl.keystore.key")
"""Endings of the Kafka Java client options that hold a secret."""
_SECRETIVE = re.compile(r"secret|password|token|credential$|(access|account|private|shared)[._-]?key|[.]sas[.]")
_OPEN = re.compile(
    r"access[._-]?key[._-]?id$|[.](file|path|location|provider[^.]*)$|token[.]endpoint[.]url$|redaction|"
    r"^spark[.]kubernetes[.](driver|executor)[.](secrets|secretkeyref)[.]"
)
"""Match lower-cased conf names of stores, catalogs and Spark: ``_SECRETIVE`` those that hold a secret, ``_OPEN`` the
ones among them that only say where it is."""
_REFERENCE = re.compile(r"[{][{]secrets/|EMR[.]secret@")
"""How a value starts that refers to the cluster's secret store, on Databricks and on EMR."""


class KafkaPrepareLoadOperator(BaseOperator):
    """
    Prepares the load of one pinned window for any operator that submits Spark. The next task submits it;
    ``KafkaVerifyWindowOperator`` with ``load=`` then waits for the driver's counts and publishes the window.

    It checks that every record of the window is still there, records the load in the ledger, stores the application
    and the driver's part of this package where the cluster can read them, and returns what to submit. That contains no
    secret: the cluster's own secret store has to give credentials to the driver.

    It publishes a window without offsets itself: then nothing needs to be submitted, and a driver that is submitted
    all the same finds the window published. Where all offsets of a window are lost, rows of its earlier revision may be
    in the output, so that needs a driver.

    A retry of this task prepares a new load. A retry of the submitting task may submit the same load again: each
    driver is an attempt of its own, and only one of them is published.

    :param window: what ``KafkaResolveWindowOperator`` returned. (templated)
    :param application: your application, a file on this worker or a URI that the cluster can read; by default the
        ready-made load, which takes ``--output URI``. (templated)
    :param application_args: arguments of the application. (templated)
    :param py_files: more Python files for the driver: files on this worker, or URIs. (templated)
    :param packages: more Maven coordinates. (templated)
    :param conf: more Spark confs; the ones that name the window aren't allowed. (templated)
    :param spark_version: the cluster's Spark version, such as ``3.5.6``: adds its Kafka connector to the packages. None
        (default) if the cluster has the connector, or ``packages`` names it. (templated)
    :param scala_version: Scala version of that Spark; by default 2.12 for Spark 3, and 2.13 for Spark 4.
    :param files: folder that the cluster can read, for application and Python files; by default ``drivers`` in the
        pipeline's ledger. Anyone who can write there decides what the cluster runs. (templated)
    :param s3_scheme: the cluster's S3 URI scheme: ``s3`` (default; EMR, Glue, Databricks) or ``s3a`` (plain Hadoop).
    :param kafka_conn_id: connection id for the check and for the reader. (templated)
    :param driver_has_credentials: the cluster gives the driver the connection's credentials, in the environment
        variable ``KAFKA_OFFSETS_SECRETS``. Unless it is set, a connection with credentials is refused.
    :param on_data_loss: what to do when records of the window are deleted: ``fail`` (default), or ``load_rest``.
    :param allow_gaps: the topics may have offsets without a record, such as transactions leave.

    XCom: ``{"window", "ref", "load", "conf", "application", "py_files", "packages", "arguments", "conf_args",
    "options_text", "submit", "needs_driver"}``. ``ref`` is the reference to the window, in the revision to load.
    ``conf`` includes the packages, as ``spark.jars.packages``. ``conf_args`` holds the confs as words (``--conf``,
    ``name=value``), ``submit`` everything after ``spark-submit``, and ``options_text`` what of that comes before the
    application, as one string. ``needs_driver`` is false where this task has published the window itself.
    """

    template_fields: Sequence[str] = (
        *("window", "application", "application_args", "py_files", "packages", "conf", "spark_version", "files"),
        "kafka_conn_id",
    )
    ui_color = "#fdebd0"

    def __init__(
        self,
        *,
        window: Any,
        application: str = LOAD_APPLICATION,
        application_args: Sequence[str] = (),
        py_files: Sequence[str] = (),
        packages: Sequence[str] = (),
        conf: Mapping[str, str] | None = None,
        spark_version: str | None = None,
        scala_version: str | None = None,
        files: str | None = None,
        s3_scheme: str = "s3",
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        driver_has_credentials: bool = False,
        on_data_loss: DataLossPolicy = "fail",
        allow_gaps: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.window = window
        self.application = application
        self.application_args = application_args
        self.py_files = py_files
        self.packages = packages
        self.conf = conf
        self.spark_version = spark_version
        self.scala_version = scala_version
        self.files = files
        self.s3_scheme = s3_scheme
        self.kafka_conn_id = kafka_conn_id
        self.driver_has_credentials = driver_has_credentials
        self.on_data_loss = on_data_loss
        self.allow_gaps = allow_gaps

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        """Check the window, store the files, record the load, and return what to submit."""
        check_choice("on_data_loss", self.on_data_loss, *get_args(DataLossPolicy))
        check_choice("s3_scheme", self.s3_scheme, "s3", "s3a")
        ref, kafka = WindowRef.from_json(self.window), KafkaOffsetsHook(self.kafka_conn_id)
        ledger, settings = ref.ledger(), kafka.java_settings()
        if settings.secret and not self.driver_has_credentials:
            raise ConfigurationError(
                f"Connection {self.kafka_conn_id} has credentials ({', '.join(sorted(settings.secret))}), which this "
                "task never stores or returns. Have the cluster's secret store give them to the driver as "
                f"{driver_conf.SECRETS_VARIABLE}, then set driver_has_credentials=True."
            )
        folder = ledger.folder / DRIVERS if self.files is None else ObjectStoragePath(self.files)
        files = ClusterFiles(folder, self.s3_scheme)
        program = Program(
            application=files.python_file(self.application),
            py_files=[files.bundle(), *map(files.python_file, self.py_files)],
            packages=self._packages(),
            arguments=[str(word) for word in self.application_args],
        )
        arguments_hash = program.arguments_hash(self.conf or {}, allow_gaps=self.allow_gaps)
        pinned = self._readable(ref, ledger, kafka, arguments_hash)
        load = driver_conf.new_attempt()
        confs = self._confs(kafka, ledger, pinned, settings.plain, load)
        confs |= {PACKAGES: ",".join(program.packages)} if program.packages else {}
        prepared = PreparedLoad(WindowRef.of(ref.ledger_root, pinned), load, confs, program)
        ledger.window_folders.of(pinned).record_attempt(load, self._note(context) | {"arguments_hash": arguments_hash})
        needs_driver = not needs_no_job(pinned)
        if not needs_driver:
            with kafka.get_conn() as client:
                publish(client, ledger, count_nothing(ledger, pinned, load, allow_gaps=self.allow_gaps))
            self.log.info("Window %s has no offsets: published it, and nothing needs to be submitted", ref.window)
        else:
            self.log.info("Window %s is ready to be loaded as %s", ref.window, load)
        return prepared.to_json() | {"needs_driver": needs_driver}

    def _readable(self, ref: WindowRef, ledger: Ledger, kafka: KafkaOffsetsHook, arguments_hash: str) -> PinnedManifest:
        """The revision to load. If an earlier load of the same kind was counted but not published, it is published
        first: it may hold records that retention has deleted since, and the new driver then only counts its rows."""
        pinned, published = ref.loaded(ledger)
        if published is not None:
            return pinned
        left = left_to_publish(
            ledger, pinned, lambda folder, attempt: folder.attempt(attempt).get("arguments_hash") == arguments_hash
        )
        with kafka.get_conn() as client:
            if left is None:
                return readable(client, ledger, pinned, self.on_data_loss)
            publish(client, ledger, left)
        self.log.info(
            "Attempt %s of an earlier load had loaded and counted window %s: published it now",
            left.result.attempt,
            ref.window,
        )
        return ref.loaded(ledger)[0]

    def _confs(
        self, kafka: KafkaOffsetsHook, ledger: Ledger, pinned: PinnedManifest, reader: Mapping[str, str], load: str
    ) -> dict[str, str]:
        given = dict(self.conf or {})
        own = window_confs(pinned, {driver_conf.LOAD: load}, allow_gaps=self.allow_gaps)
        if taken := sorted(given.keys() & {*own, driver_conf.ATTEMPT, driver_conf.NOTE_KEY}):
            raise ConfigurationError(f"conf= can't set {', '.join(taken)}: this task sets that itself.")
        if secret := sorted(name for name, value in given.items() if _holds_a_secret(name, str(value))):
            raise ConfigurationError(
                f"conf= can't set {', '.join(secret)}: this task's XCom would show the secret. Have the cluster's "
                f"secret store give Kafka's secrets to the driver in {driver_conf.SECRETS_VARIABLE}, and keep those of "
                "other systems in the cluster's own configuration."
            )
        defaults = default_confs(kafka, ledger, pinned.manifest, reader, given)
        return {**defaults, **given, **token_endpoint_allowed(reader, given), **own}

    def _packages(self) -> list[str]:
        given = [*self.packages, *packages_in((self.conf or {}).get(PACKAGES))]
        if self.spark_version is None:
            return given
        release = SparkRelease(self.spark_version, self.scala_version or usual_scala(self.spark_version))
        release.refuse_other(*given)
        return release.with_connector(given)

    def _note(self, context: Context) -> dict[str, Any]:
        task = instance_of(context) | {"try_number": context["ti"].try_number}
        return {"started_at": iso_instant(now_ms()), "airflow": task}


def _holds_a_secret(name: str, value: str) -> bool:
    """Whether a conf holds a secret, of Kafka or of another system, that belongs in the cluster's secret store."""
    own = name.removeprefix(driver_conf.PREFIX).lower()
    if name.startswith(driver_conf.PREFIX):
        return name == driver_conf.SECRETS or own.endswith(_SECRET_ENDINGS)
    return bool(_SECRETIVE.search(own)) and not _OPEN.search(own) and not _REFERENCE.match(value)
