"""One try of a load task: who it is, what it asks of the ledger before and after Spark, and what it returns."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from airflow_kafka_offsets.errors import (
    DataLossError,
    KafkaOffsetsError,
    SparkFailedError,
    WindowError,
    shorten,
)
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.attempt_files import AttemptFiles
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.state import Attempt, Publication, Window
from airflow_kafka_offsets.offsets.instants import now_ms, rate_text
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote
from airflow_kafka_offsets.offsets.proof.left import span_of
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy
from airflow_kafka_offsets.pipelines import loads
from airflow_kafka_offsets.pipelines.loads import Begun, Counted
from airflow_kafka_offsets.pipelines.preflight import lost_of
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.submission.spark_failure import noted_failure

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

_TASKS_LOG = "the load's own task says why, in the log of that try"


def instance_of(context: Context) -> dict[str, Any]:
    """The running task instance: ``dag_id``, ``run_id``, ``task_id`` and ``map_index``, which is -1 if the task isn't
    mapped."""
    ti: Any = context["ti"]
    index = getattr(ti, "map_index", None)
    of_run = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
    return of_run | {"map_index": -1 if index is None else index}


def who_of(context: Context) -> dict[str, Any]:
    """The running task instance and its try, as the ledger notes them with an attempt."""
    return instance_of(context) | {"try_number": context["ti"].try_number}


def run_of(context: Context) -> str:
    """A run of a task, with all its tries. Clearing the task begins another one: then, and at no other time, Airflow
    raises the number of tries that it may have."""
    ti: Any = context["ti"]
    return "/".join(map(str, (*instance_of(context).values(), ti.max_tries)))


@dataclass(frozen=True, slots=True)
class LoadTry:
    """One try at loading a window.

    :param ref: the resolved window.
    :param pinned: its manifest.
    """

    context: Context
    ref: WindowRef
    ledger: Ledger
    pinned: PinnedManifest
    kafka: KafkaOffsetsHook
    on_data_loss: DataLossPolicy

    @classmethod
    def of(cls, context: Context, window: Any, on_data_loss: DataLossPolicy) -> Self:
        """The running task's try.

        :param window: what resolve returned.
        :raises LedgerConflictError: when the window was voided, or has other offsets than those that were resolved.
        """
        ref = WindowRef.from_json(window)
        ledger = ref.ledger()
        return cls(context, ref, ledger, ledger.pinned(ref.window_in(ledger)), ref.hook(), on_data_loss)

    @property
    def window(self) -> Window:
        """The window, as the ledger was last read. Raises as :meth:`of`."""
        return self.ref.window_in(self.ledger)

    def files(self, attempt: Attempt) -> AttemptFiles:
        """What drivers have said of an attempt."""
        return self.ledger.attempt(self.ref.window, attempt.number)

    def reload(self) -> None:
        """Have the window loaded again, once in a run of the task: a retry goes on with what that began."""
        names, by = [self.ref.window], run_of(self.context)
        loads.refuse_unloadable(self.ledger, self.kafka.get_conn, names, by, self.on_data_loss)
        if loads.reload(self.ledger, names, by):
            log.info("Window %s is to be loaded again", self.ref.window)

    def begun_before(self) -> Attempt | None:
        """The attempt that an earlier try of this task has begun, and that hasn't failed as far as is known; None when
        there is none, another one began since, or the window is loaded."""
        newest, own = self.window.newest_attempt, instance_of(self.context)
        if newest is None or self.window.loaded is not None or not own.items() <= newest.who.items():
            return None
        return newest if noted_failure(self.files(newest)) is None else None

    def begin(self) -> Begun:
        """What there is to do: see :func:`.loads.begin`."""
        begun = loads.begin(
            self.ledger, self.kafka.get_conn, self.ref.window, self.ref.sha256, who_of(self.context), self.on_data_loss
        )
        if begun.attempt is not None and begun.attempt.lost:
            offsets, lost = span_of(begun.attempt.lost), shorten(map(str, begun.attempt.lost))
            log.warning(
                "Window %s is loaded without %s offsets that Kafka no longer has: %s", self.ref.window, offsets, lost
            )
        return begun

    def record(self, attempt: Attempt, failure: Exception) -> None:
        """Record that an attempt has failed: then what its driver may have counted isn't published, and the next try
        begins another attempt."""
        with suppress(Exception):  # stores raise errors of their own; the failure itself must be raised
            self.files(attempt).record_failure(FailureNote(type(failure).__name__, _TASKS_LOG, now_ms()))

    def counted(self, attempt: Attempt) -> Counted | None:
        """What the attempt's driver has counted, the proved one if several drivers have; None when there is nothing."""
        self.ledger.read()
        found = loads.counted(self.ledger, self.window, attempt.number)
        return max(found, key=lambda each: each.verdict.proved, default=None)

    def publish(self, counted: Counted) -> Publication:
        """Publish what was counted. Returns the publication that then counts."""
        with self.kafka.get_conn() as client:
            return loads.publish(client, self.ledger, counted)

    def overtaken(self, attempt: Attempt) -> Publication | None:
        """The publication of another attempt that satisfies this load meanwhile; None when there is none."""
        self.ledger.read()
        found = self.window.loaded
        return found if found is not None and found.attempt != attempt.number else None

    def superseded(self, number: int) -> Publication | None:
        """The publication of a later attempt, after which this one can't be published any more; None when there is
        none."""
        self.ledger.read()
        found = self.window.loaded
        return found if found is not None and found.attempt > number else None

    def explain(self, attempt: Attempt, failure: Exception) -> Exception:
        """The error to raise for a failed attempt: Spark fails too if records vanish while it reads them (S13).

        :returns: a DataLossError with partitions and exact counts, if that is what happened; or the error for another
            change to the window's topics, such as a re-created topic; otherwise the failure itself. If the next try is
            to load what is left, it is an error that is retried.
        """
        try:
            with self.kafka.get_conn() as client:
                lost = lost_of(client, self.pinned.manifest, self.on_data_loss)
        except WindowError as changed:
            return changed
        except KafkaOffsetsError:
            log.warning("Kafka can't be asked whether records vanished while Spark read them.")
            return failure
        if set(lost) == set(attempt.lost):
            return failure
        log.warning("Kafka has lost more of the window since this attempt began. The next try loads what is left.")
        return SparkFailedError(str(failure)) if isinstance(failure, DataLossError) else failure


def load_report(ledger: Ledger, window: Window, published: Publication, own: int | None) -> dict[str, Any]:
    """The XCom of ``KafkaSparkSubmitOperator``: what is published, whoever has loaded it.

    :param own: number of the attempt that this task has run; None when there was nothing to do.
    :raises LedgerCorruptError: when the ledger lacks the published counts.
    """
    result, attempt = ledger.published_result(window.name, published), window.attempt(published.attempt)
    lost = 0 if attempt is None else span_of(attempt.lost)
    seconds = result.seconds if own == published.attempt else None
    return {
        "window": window.name,
        "attempt": published.attempt,
        "rows": published.rows,
        "output": published.output,
        "outputs": [output._asdict() for output in published.outputs],
        "offsets": window.offsets,
        "lost": lost,
        "read": result.read.count,
        "written": result.rows_written,
        "gaps": max(0, window.offsets - lost - result.read.count),
        "seconds": seconds,
        "records_a_second": round(result.read.count / seconds, 3) if seconds else None,
        "application_id": result.application_id,
    }


def report_line(report: Mapping[str, Any], own: int | None) -> str:
    """For the log: how many rows are where, and what this task did.

    :param own: as for :func:`load_report`.
    """
    if not report["offsets"]:
        how = "the window has no offsets"
    elif own is None:
        how = f"attempt {report['attempt']} has loaded them, so Spark isn't started"
    elif own == report["attempt"]:
        how = f"read, written and counted in {report['seconds']} s, {rate_text(report['read'], report['seconds'])}"
    else:
        how = f"attempt {report['attempt']} came first, and what attempt {own} wrote doesn't count"
    return f"Window {report['window']}: {report['rows']} rows{_places(report)}; {how}"


def _places(report: Mapping[str, Any]) -> str:
    """Where the rows are, as a part of a sentence."""
    outputs = report["outputs"]
    named = [f"{each['rows']} of {each['name']} in {each['output']}" for each in outputs if each["name"]]
    if len(named) == len(outputs):  # each topic has its own
        return f": {shorten(named)}"
    return "".join([f" in {report['output'] or 'no file (empty window)'}", *(f", {each}" for each in named)])
