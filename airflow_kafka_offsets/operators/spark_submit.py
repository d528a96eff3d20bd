"""Run Spark on exactly the window's records."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.arguments import one_of
from airflow_kafka_offsets.client.java_settings import JavaSettings
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    DataLossError,
    KafkaOffsetsError,
    LedgerError,
    WindowError,
    shorten,
)
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.window_ref import WindowRef
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, SparkApplication, WindowFolder
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.offsets.publication import Publication
from airflow_kafka_offsets.operators.base import failing_fast
from airflow_kafka_offsets.operators.driver_bundle import (
    LOAD_APPLICATION,
    PYTHON_RUNNER,
    application_bundle,
    driver_bundle,
    stored_bundle,
)
from airflow_kafka_offsets.operators.earlier_driver import (
    earlier_driver,
    forget_driver,
    note_attempt,
    wait_for_driver,
)
from airflow_kafka_offsets.operators.links import SparkUILink, WindowLink, show_link
from airflow_kafka_offsets.operators.load_report import load_report
from airflow_kafka_offsets.operators.outlets import SeenWindow, TellsLineage, note_outlets
from airflow_kafka_offsets.operators.record_size import record_size_conf
from airflow_kafka_offsets.operators.spark_progress import progress_told
from airflow_kafka_offsets.operators.spark_secrets import DriverPlace, secrets_on_their_way
from airflow_kafka_offsets.preflight import check_readable, readable
from airflow_kafka_offsets.spark import conf as driver

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_offsets.offsets.windows import TruncationPolicy


class KafkaSparkSubmitOperator(TellsLineage, SparkSubmitOperator):
    """
    A ``SparkSubmitOperator`` whose application reads one pinned window and publishes it once.

    Before Spark starts it checks that every record of the window is still there. It then hands the application the
    manifest's URI and hash, never the offsets, and the part of this package that a driver needs. Every argument of
    ``SparkSubmitOperator`` works as it does there.

    A retry, or a second attempt beside the first, reads the same range, and only one of them is published. A run of a
    window that is published already reads it again, proves that it gives the same rows, and leaves the published ones.

    :param window: what ``KafkaResolveWindowOperator`` returned. (templated)
    :param kafka_conn_id: connection id for the pre-flight and for the reader. (templated)
    :param on_truncation: what to do when records of the window are gone before Spark starts: ``fail`` (default), naming
        exact counts, or ``clamp``: load the rest, as the window's next revision, whose manifest says what is lost.
    :param allow_gaps: the topics may have offsets without a record, as transactions leave them.
    :param application: your own application, or by default the ready-made load, which takes ``--output URI`` among its
        ``application_args``. (templated)

    While Spark runs, the task's log tells how many of the window's records are read, how fast, and how long it will
    take still, wherever the worker reaches Spark's UI. Links lead to that UI and to the window's folder in the ledger.

    XCom: ``{"window", "attempt", "published_attempt", "rows", "revision", "lost", "output", "outside", "offsets",
    "read", "written", "gaps", "seconds", "records_a_second", "application_id"}``. ``seconds`` is the time from reading
    to the count of what was written; ``gaps`` are offsets without a record. Where the window was published before, they
    and what lies between are those of the attempt that published it.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "window", "kafka_conn_id")
    operator_extra_links = (SparkUILink(), WindowLink())
    ui_color = "#fdebd0"
    application_id: str | None = None

    def __init__(
        self,
        *,
        window: Any,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        on_truncation: TruncationPolicy = "fail",
        allow_gaps: bool = False,
        application: str = LOAD_APPLICATION,
        **kwargs: Any,
    ) -> None:
        super().__init__(application=application, **kwargs)
        self.window = window
        self.kafka_conn_id = kafka_conn_id
        self.on_truncation = on_truncation
        self.allow_gaps = allow_gaps

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # the parent returns nothing
        """Pre-flight, submit, and report what is published."""
        one_of("on_truncation", self.on_truncation, "fail", "clamp")
        ref = WindowRef.from_json(self.window)
        ledger = ref.ledger()
        hook = KafkaOffsetsHook(self.kafka_conn_id)
        pinned, published = ref.loaded(ledger)
        self.seen = SeenWindow(pinned, hook.settings().bootstrap_servers)
        place = self._driver_place()
        earlier = None if place is DriverPlace.HERE else earlier_driver(self, context, ref)
        if earlier is None:
            try:
                pinned = self._preflight(hook, ledger, pinned, published)
            except WindowError as error:
                if published is None:
                    raise
                # A worker that died after Spark had published, or a rerun after retention: nothing is left to do.
                self.log.warning("Window %s is published, and can't be read again to compare: %s", ref.window, error)
                return self._report(context, ref, ledger, pinned, published.attempt)
        self.seen = SeenWindow(pinned, hook.settings().bootstrap_servers)
        try:
            folder = ledger.folder_of(pinned)
            attempt = self._begin(folder, ref, place, context) if earlier is None else earlier.attempt
            with progress_told(folder, attempt, pinned.manifest.span, self.log, partial(self._show_links, context)):
                if earlier is None:
                    self._submit(ledger, pinned, attempt, hook.java_settings(), place, context)
                else:
                    wait_for_driver(self, context, earlier)
        except Exception as error:
            if published is None:
                self._explain_loss(hook, ledger, pinned, error)
            raise
        if place is not DriverPlace.HERE:
            forget_driver(self, context)
        return self._report(context, ref, ledger, pinned, attempt)

    def _show_links(self, context: Context, application: SparkApplication) -> None:
        self.application_id = application.id
        show_link(context, WindowLink(), WindowLink.of(self.seen))
        if application.ui is not None:
            show_link(context, SparkUILink(), application.ui)

    def _driver_place(self) -> DriverPlace:
        connection = self._get_hook()._connection
        return DriverPlace.of(connection["master"], connection["deploy_mode"])

    def _preflight(
        self, hook: KafkaOffsetsHook, ledger: Ledger, pinned: PinnedManifest, published: Publication | None
    ) -> PinnedManifest:
        """What can be read of the window, and is to be.

        :raises WindowError: when that isn't what was pinned.
        """
        with hook.get_conn() as client:
            if published is not None:
                check_readable(client, pinned.manifest)
                return pinned
            pinned = readable(client, ledger, pinned, self.on_truncation)
        if pinned.manifest.lost_offsets:
            self.log.warning(
                "Window %s is loaded without %s offsets that are gone: %s",
                pinned.manifest.window,
                pinned.manifest.lost_offsets,
                shorten(f"{each.topic}-{each.partition}: {each.lost_offsets}" for each in pinned.manifest.lost()),
            )
        return pinned

    def _explain_loss(self, hook: KafkaOffsetsHook, ledger: Ledger, pinned: PinnedManifest, error: Exception) -> None:
        """Spark fails when records vanish while it reads them (S13). The ledger notes which they are.

        :raises DataLossError: when that is what happened, and is to fail; names partitions and exact counts.
        """
        try:
            with hook.get_conn() as client:
                readable(client, ledger, pinned)
        except DataLossError as loss:
            if self.on_truncation == "fail":
                raise loss from error
            self.log.warning("%s The next try loads what is left.", loss)
        except KafkaOffsetsError:
            self.log.warning("Whether records vanished while Spark read them isn't known: Kafka can't be asked.")

    def _begin(self, folder: WindowFolder, ref: WindowRef, place: DriverPlace, context: Context) -> str:
        started_ms = now_ms()
        attempt = driver.new_attempt(started_ms)
        ti = context["ti"]
        run = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id, "try_number": ti.try_number}
        folder.record_attempt(attempt, {"started_at": iso_instant(started_ms), "airflow": run})
        if place is not DriverPlace.HERE:
            note_attempt(self, context, ref, attempt)
        return attempt

    def _submit(
        self,
        ledger: Ledger,
        pinned: PinnedManifest,
        attempt: str,
        kafka: JavaSettings,
        place: DriverPlace,
        context: Context,
    ) -> None:
        confs = {
            driver.MANIFEST: pinned.uri,
            driver.SHA256: pinned.sha256,
            driver.ATTEMPT: attempt,
            driver.ALLOW_GAPS: str(self.allow_gaps).lower(),
        }
        reader = {f"{driver.PREFIX}{key}": value for key, value in kafka.plain.items()}
        # A driver that YARN starts again would be refused: an attempt is made once.
        own = {"spark.yarn.maxAppAttempts": "1"} if place is DriverPlace.YARN else {}
        own |= record_size_conf(KafkaOffsetsHook(self.kafka_conn_id), ledger, pinned.manifest)
        self.conf = own | reader | (self.conf or {}) | confs
        with (
            self._python_files(ledger, place),
            secrets_on_their_way(place, kafka.secret, self.conf, self.properties_file) as way,
        ):
            self.conf |= way.confs
            self.properties_file = way.properties_file or self.properties_file
            self._hook = None  # the one that was asked for an earlier driver knows nothing of all this
            try:
                super().execute(context)
            except Exception as error:
                _explain_missing_java(self.env_vars or {}, error)
                raise

    @contextmanager
    def _python_files(self, ledger: Ledger, place: DriverPlace) -> Iterator[None]:
        """Have the driver's part of this package, and the application, where the driver can get them."""
        if place is DriverPlace.STANDALONE and self.application.endswith(".py"):
            self._send_as_one_file(ledger)
            yield
            return
        with driver_bundle() as bundle:
            self.py_files = ",".join(filter(None, (self.py_files, bundle)))
            yield

    def _send_as_one_file(self, ledger: Ledger) -> None:
        """``spark-submit`` takes no Python application for a standalone cluster's own workers. They do take a jar, and
        a class of Spark itself to run: here a zip as jar, and the class by which ``spark-submit`` starts Python too."""
        jar = stored_bundle(ledger, application_bundle(self.application, self.py_files))
        self.application_args = [jar.rpartition("/")[2], "", *(self.application_args or [])]
        self.application, self._java_class = jar, PYTHON_RUNNER
        self.files, self.py_files = ",".join(filter(None, (self.files, jar))), jar  # for Python on the executors

    def _report(
        self, context: Context, ref: WindowRef, ledger: Ledger, pinned: PinnedManifest, attempt: str
    ) -> dict[str, Any]:
        folder = ledger.window_folders.published(ref.window) or ledger.folder_of(pinned)
        published = folder.publication()
        if published is None:
            raise LedgerError(
                f"Spark ended well, but window {folder.id} is not published. Does {self.application} call publish()?"
            )
        if published.attempt != attempt:
            self.log.info("Window %s stays as attempt %s published it", folder.id, published.attempt)
        self.seen = replace(self.seen, output=published.output, rows=published.rows)
        counts = ledger.pinned(folder.id, folder.revision)
        report = load_report(folder, counts.manifest, published, attempt)
        self.application_id = report["application_id"]
        self.log.info(
            "Window %s: %s rows in %s; read, written and counted in %s s, %s a second",
            folder.id,
            published.rows,
            published.output or "no file (empty window)",
            report["seconds"],
            report["records_a_second"],
        )
        note_outlets(self, context, WindowRef.of(ref.ledger_root, counts), report)
        return report


def _explain_missing_java(env_vars: Mapping[str, str], error: Exception) -> None:
    """``spark-submit`` is a Java program on this worker, whatever the master; without Java only its own log says so.

    :raises ConfigurationError: when there is no Java here.
    """
    home = env_vars.get("JAVA_HOME") or os.environ.get("JAVA_HOME")
    if (Path(home) / "bin" / "java").is_file() if home else shutil.which("java"):
        return
    where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH and no JAVA_HOME"
    raise ConfigurationError(
        f"spark-submit needs Java 17 or newer on this worker: {where}. Install it or set JAVA_HOME."
    ) from error
