"""Tries of one load task: what a try does before and after Spark, what it returns, and what it notes with its attempt,
so that the next try recognizes its own."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.errors import DataLossError, KafkaOffsetsError, SparkFailedError, WindowError, shorten
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.instants import iso_instant, now_ms, rate_text
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication
from airflow_kafka_offsets.offsets.proof.publication import Publication, counts_over
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.preflight import readable
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt, left_to_publish, publish
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.submission.driver_place import DriverPlace
from airflow_kafka_offsets.submission.given_confs import GivenConfs
from airflow_kafka_offsets.submission.spark_program import SparkProgram

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy

log = logging.getLogger(__name__)

_DECIDES = (
    *("application", "application_args", "conf", "env_vars", "properties_file", "files", "py_files", "_archives"),
    *("jars", "_java_class", "packages", "exclude_packages", "_repositories", "driver_class_path", "allow_gaps"),
)
"""The operator's arguments that decide which rows its driver writes; not those that decide how it runs, such as
memory."""


@dataclass(frozen=True, slots=True)
class Tries:
    """One task instance, and what its driver is given.

    :param instance: see :func:`instance_of`.
    :param max_tries: how many tries it may have: Airflow raises this whenever the task is cleared, and at no other
        time.
    :param arguments_hash: of the arguments that decide which rows are written, and of the local files that they name. A
        result with another hash, of an earlier try from before the Dag or a file was changed, isn't this try's.
    """

    instance: Mapping[str, Any]
    try_number: int
    max_tries: int
    arguments_hash: str

    @classmethod
    def of(cls, context: Context, task: SparkSubmitOperator) -> Self:
        """The tries of the running task."""
        ti: Any = context["ti"]
        return cls(instance_of(context), ti.try_number, ti.max_tries, _arguments_hash(task))

    def fields(self) -> dict[str, Any]:
        """Fields for an attempt's note."""
        tried = {**self.instance, "try_number": self.try_number, "max_tries": self.max_tries}
        return {"airflow": tried, "arguments_hash": self.arguments_hash}

    def counted(self, ledger: Ledger, pinned: PinnedManifest, failed: str | None) -> CountedAttempt | None:
        """What an earlier try loaded and counted before it died without publishing it; None if there is nothing.

        :param pinned: the revision that this try loads. Once a window has been resolved again, the result of an earlier
            revision no longer counts as a load of it.
        :param failed: an attempt whose driver failed after it had counted.
        """

        def is_meant(folder: WindowFolder, attempt: str) -> bool:
            return attempt != failed and self._is_own(folder.attempt(attempt))

        return left_to_publish(ledger, pinned, is_meant)

    def published(self, folder: WindowFolder, published: Publication) -> str | None:
        """The attempt of an earlier try that published the window, but died before it could report that; None if
        another task published it. Tries from before the task was cleared don't count: whoever clears the task wants the
        published rows counted again.

        :param folder: the published revision's folder.
        """
        noted = folder.attempt(published.attempt)
        own = self._is_own(noted) and noted["airflow"]["max_tries"] == self.max_tries
        return published.attempt if own else None

    def _is_own(self, noted: Mapping[str, Any]) -> bool:
        run = noted.get("airflow") or {}
        return noted.get("arguments_hash") == self.arguments_hash and self.instance.items() <= run.items()


def instance_of(context: Context) -> dict[str, Any]:
    """The running task instance: ``dag_id``, ``run_id``, ``task_id`` and ``map_index``, which is -1 if the task isn't
    mapped."""
    ti: Any = context["ti"]
    index = getattr(ti, "map_index", None)
    of_run = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
    return of_run | {"map_index": -1 if index is None else index}


def _arguments_hash(task: SparkSubmitOperator) -> str:
    given = {name: getattr(task, name, None) for name in _DECIDES}
    text = json.dumps(given, sort_keys=True, ensure_ascii=False, default=str)
    found = sha256(text.encode())
    # A whole text may name a file, or a part of it: an item of a list, a URI's path, an option's value.
    for path in sorted(filter(os.path.isfile, {*text.split('"'), *re.split('[",:#=]', text)})):
        with suppress(OSError), Path(path).open("rb") as file:  # spark-submit says what is wrong with the file
            found.update(f"\n{path} {file_digest(file, 'sha256').hexdigest()}".encode())
    return found.hexdigest()


@dataclass(frozen=True, slots=True)
class LoadTry:
    """One try at loading a window: the check before Spark starts, and the publication afterwards.

    :param ref: the resolved window.
    :param spark: the Spark connection, as the provider reads it.
    :param program: what submits.
    :param given: the user's own confs.
    :param tries: this try and those before it.
    """

    context: Context
    ref: WindowRef
    ledger: Ledger
    kafka: KafkaOffsetsHook
    on_data_loss: DataLossPolicy
    spark: Mapping[str, Any]
    program: SparkProgram = field(repr=False)
    given: GivenConfs
    place: DriverPlace
    tries: Tries

    def preflight(self, pinned: PinnedManifest) -> PinnedManifest:
        """What to read for a window that isn't published.

        :returns: the window as it was pinned; or its next revision, if it is to be loaded without lost offsets.
        :raises WindowError: when it can't be read as it was pinned, and must then fail.
        """
        with self.kafka.get_conn() as client:
            pinned = readable(client, self.ledger, pinned, self.on_data_loss)
        if pinned.manifest.lost_offsets:
            lost = shorten(f"{each.topic}-{each.partition}: {each.lost_offsets}" for each in pinned.manifest.lost())
            without = pinned.manifest.window, pinned.manifest.lost_offsets, lost
            log.warning("Window %s is loaded without %s offsets that Kafka no longer has: %s", *without)
        return pinned

    def record(self, pinned: PinnedManifest, attempt: str) -> None:
        """Record an attempt of this try before it begins."""
        fields = {"started_at": iso_instant(now_ms())} | self.tries.fields()
        self.ledger.window_folders.of(pinned).record_attempt(attempt, fields)

    def explain(self, pinned: PinnedManifest, failure: Exception) -> Exception:
        """Spark fails if records vanish while it reads them (S13). The ledger notes which ones.

        :returns: a DataLossError with partitions and exact counts, if that is what happened; or the error for another
            change to the window's topics, such as a re-created topic; otherwise the failure itself. If the next try is
            to load what is left, it is an error that is retried.
        """
        try:
            with self.kafka.get_conn() as client:
                readable(client, self.ledger, pinned)
        except DataLossError as loss:
            if self.on_data_loss != "load_rest":
                return loss
            log.warning("%s The next try loads what is left.", loss)
            return SparkFailedError(str(failure)) if isinstance(failure, DataLossError) else failure
        except WindowError as changed:
            return changed
        except KafkaOffsetsError:
            log.warning("Kafka can't be asked whether records vanished while Spark read them.")
        return failure

    def publish(self, counted: CountedAttempt) -> Publication:
        """Publish an attempt's counts. Returns the publication that then counts."""
        with self.kafka.get_conn() as client:
            return publish(client, self.ledger, counted)

    def published_over(self, pinned: PinnedManifest, note: SparkApplication | None) -> Publication | None:
        """The window's publication that counts, if a driver has found its rows and left them as they were.

        :param note: the note of a driver that has no result; None if it never reached ``write()``. A driver that was to
            write has ended too early: in a table, other rows may have replaced those that count.
        """
        if note is None or not note.recounted:
            return None
        found = self.ledger.window_folders.publication(self.ref.window)
        return found if found is not None and counts_over(found, pinned.manifest) else None


def load_report(
    folder: WindowFolder, manifest: Manifest, published: Publication, attempt: str, own: RunResult | None
) -> dict[str, Any]:
    """The XCom of ``KafkaSparkSubmitOperator``. If the window was published before, the rows read and written are those
    of the attempt that published it: a later attempt reads nothing from Kafka, so it has no read time.

    :param folder: the published revision, with its manifest.
    :param attempt: the attempt that has just ended.
    :param own: what that attempt read and wrote of this revision; None if nothing.
    :raises LedgerCorruptError: when the ledger lacks the published counts.
    """
    result = own or folder.published_result(published)
    rate = round(own.read.count / own.seconds, 3) if own is not None and own.seconds else None
    return {
        "window": folder.id,
        "attempt": attempt,
        "published_attempt": published.attempt,
        "rows": published.rows,
        "revision": folder.revision,
        "lost": manifest.lost_offsets,
        "output": published.output,
        "outside": published.outside,
        "further": [asdict(output) for output in published.further],
        "offsets": manifest.span,
        "read": result.read.count,
        "written": result.rows_written,
        "gaps": max(0, manifest.span - result.read.count),
        "seconds": None if own is None else own.seconds,
        "records_a_second": rate,
        "application_id": result.application_id,
    }


def report_line(report: Mapping[str, Any]) -> str:
    """For the log: how many rows are where, and what this attempt did."""
    if not report["offsets"]:
        how = "the window has no offsets"
    elif report["seconds"] is None:
        how = f"attempt {report['published_attempt']} published them before; this one counted them again"
    elif report["attempt"] == report["published_attempt"]:
        rate = rate_text(report["read"], report["seconds"])
        how = f"read, written and counted in {report['seconds']} s, {rate}"
    else:
        how = f"attempt {report['published_attempt']} came first, and what this one wrote doesn't count"
    output = report["output"] or "no file (empty window)"
    further = "".join(f", {each['rows']} of {each['name']} in {each['output']}" for each in report["further"])
    return f"Window {report['window']}: {report['rows']} rows in {output}{further}; {how}"
