"""Run Spark on exactly the window's records."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms
from airflow_kafka_offsets.operators.base import failing_fast
from airflow_kafka_offsets.operators.driver_bundle import LOAD_APPLICATION, driver_bundle
from airflow_kafka_offsets.operators.outlets import SeenWindow, TellsLineage, note_outlets
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

    XCom: ``{"window", "attempt", "published_attempt", "rows", "revision", "lost", "output", "outside"}``.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "window", "kafka_conn_id")
    ui_color = "#fdebd0"

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
        try:
            with hook.get_conn() as client:
                if published is None:
                    pinned = readable(client, ledger, pinned, self.on_truncation)
                else:
                    check_readable(client, pinned.manifest)
        except WindowError as error:
            if published is None:
                raise
            # A worker that died after Spark had published, or a rerun after retention: nothing is left to do.
            self.log.warning("Window %s is published, and can't be read again to compare: %s", ref.window, error)
            return self._report(context, ref, ledger, pinned, published.attempt)
        if pinned.manifest.lost_offsets:
            self.log.warning(
                "Window %s is loaded without %s offsets that are gone: %s",
                ref.window,
                pinned.manifest.lost_offsets,
                shorten(f"{each.topic}-{each.partition}: {each.lost_offsets}" for each in pinned.manifest.lost()),
            )
        self.seen = SeenWindow(pinned, hook.settings().bootstrap_servers)
        attempt = self._begin(ledger.folder_of(pinned), context)
        try:
            self._submit(pinned, attempt, hook.java_settings(), context)
        except Exception as error:
            if published is None:
                self._explain_loss(hook, ledger, pinned, error)
            raise
        return self._report(context, ref, ledger, pinned, attempt)

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

    def _begin(self, folder: WindowFolder, context: Context) -> str:
        started_ms = now_ms()
        attempt = driver.new_attempt(started_ms)
        ti = context["ti"]
        run = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id, "try_number": ti.try_number}
        folder.record_attempt(attempt, {"started_at": iso_instant(started_ms), "airflow": run})
        return attempt

    def _submit(self, pinned: PinnedManifest, attempt: str, kafka: JavaSettings, context: Context) -> None:
        confs = {
            driver.MANIFEST: pinned.uri,
            driver.SHA256: pinned.sha256,
            driver.ATTEMPT: attempt,
            driver.ALLOW_GAPS: str(self.allow_gaps).lower(),
        }
        reader = {f"{driver.PREFIX}{key}": value for key, value in kafka.plain.items()}
        self.conf = reader | (self.conf or {}) | confs
        with driver_bundle() as bundle, self._secrets(kafka.secret):
            self.py_files = ",".join(filter(None, (self.py_files, bundle)))
            try:
                super().execute(context)
            except Exception as error:
                _explain_missing_java(self.env_vars or {}, error)
                raise

    @contextmanager
    def _secrets(self, secret: Mapping[str, str]) -> Iterator[None]:
        """Credentials reach the driver through its environment: a conf would show in logs, commands and Spark's UI."""
        if not secret:
            yield
            return
        if self._get_hook()._connection["deploy_mode"] == "cluster":
            raise ConfigurationError(
                f"Connection {self.kafka_conn_id} has credentials, which reach a driver only in client deploy mode. "
                "Use deploy_mode='client', or a connection without them and your cluster's own secrets."
            )
        os.environ[driver.SECRETS_VARIABLE] = json.dumps(dict(secret))
        try:
            yield
        finally:
            del os.environ[driver.SECRETS_VARIABLE]

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
        self.log.info(
            "Window %s: %s rows in %s", folder.id, published.rows, published.output or "no file (empty window)"
        )
        self.seen = replace(self.seen, output=published.output, rows=published.rows)
        counts = ledger.pinned(folder.id, folder.revision)
        report = {
            "window": folder.id,
            "attempt": attempt,
            "published_attempt": published.attempt,
            "rows": published.rows,
            "revision": folder.revision,
            "lost": counts.manifest.lost_offsets,
            "output": published.output,
            "outside": published.outside,
        }
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
