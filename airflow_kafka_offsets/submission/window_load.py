"""One try at loading a window: the check before Spark starts, the publication afterwards, what the task returns."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_kafka_offsets.errors import DataLossError, KafkaOffsetsError, SparkFailedError, WindowError, shorten
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.offsets.instants import rate_text
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication
from airflow_kafka_offsets.offsets.proof.publication import Publication, counts_over
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.pipelines.preflight import readable
from airflow_kafka_offsets.pipelines.publisher import CountedAttempt, publish
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.submission.driver_secrets import DriverPlace
from airflow_kafka_offsets.submission.tries import Tries

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WindowLoad:
    """What a try works on.

    :param ref: the resolved window.
    :param spark: the Spark connection, as the provider reads it.
    :param tries: this try and those before it.
    """

    context: Context
    ref: WindowRef
    ledger: Ledger
    kafka: KafkaOffsetsHook
    on_data_loss: DataLossPolicy
    spark: Mapping[str, Any]
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
        """The window's publication that counts, if a driver looked at the window and left it as it was.

        :param note: the note of a driver that has counted nothing; None if it never reached ``write()``. A driver that
            was to write has ended too early: in a table, its rows may have replaced those that count.
        """
        if note is None or note.writes:
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
    if report["seconds"] is None:
        how = f"attempt {report['published_attempt']} published them before; this one counted them again"
    elif report["attempt"] == report["published_attempt"]:
        rate = rate_text(report["read"], report["seconds"])
        how = f"read, written and counted in {report['seconds']} s, {rate}"
    else:
        how = f"attempt {report['published_attempt']} came first, and what this one wrote doesn't count"
    output = report["output"] or "no file (empty window)"
    further = "".join(f", {each['rows']} of {each['name']} in {each['output']}" for each in report["further"])
    return f"Window {report['window']}: {report['rows']} rows in {output}{further}; {how}"
