"""One try of a load task: who it is, what it asks of the ledger before and after Spark, and what it returns.

A task loads a list of windows; one window is a list of one. A window that fails doesn't hold up the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from airflow_kafka_offsets.arguments import DataLossPolicy
from airflow_kafka_offsets.errors import (
    DataLossError,
    KafkaOffsetsError,
    SparkFailedError,
    WindowError,
    or_error,
    shorten,
)
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.counted import Counted, counted
from airflow_kafka_offsets.ledger.entries import Attempted, Published
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Window
from airflow_kafka_offsets.ledger.storage import in_parallel, outcomes
from airflow_kafka_offsets.offsets.instants import rate_text
from airflow_kafka_offsets.offsets.partitions import LogRange, span_of
from airflow_kafka_offsets.pipelines.attempts import Wanted, begin_each, refuse_each, unloadable
from airflow_kafka_offsets.pipelines.loads import by_ledger_of, in_turn, publish_each
from airflow_kafka_offsets.pipelines.log_changes import lost_of_each
from airflow_kafka_offsets.references import WindowRef, WindowRefs
from airflow_kafka_offsets.submission.batch import BATCH, Batch, files_of, in_order, noted, record
from airflow_kafka_offsets.submission.spark_failure import noted_failure

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

Outcome: TypeAlias = Published | Exception
"""What has become of a window: its publication, or why there is none."""


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
    """One try at loading windows.

    :param refs: the resolved windows.
    :param windows: the same, in their ledgers, in the same order.
    :param refused: why, of those that are to be loaded again and can't be: their old rows stay published.
    """

    context: Context
    refs: WindowRefs
    windows: tuple[Wanted, ...]
    kafka: KafkaOffsetsHook
    on_data_loss: DataLossPolicy
    refused: Mapping[Wanted, Outcome] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, refs: WindowRefs, on_data_loss: DataLossPolicy) -> Self:
        """The running task's try.

        :param refs: the windows; at least one.
        :raises ConfigurationError: when they are of several Kafka connections.
        """
        hook = refs.hook()
        return cls(context, refs, tuple(refs.wanted()), hook, on_data_loss)

    def reload(self) -> Self:
        """The try, with its windows to be loaded again: once in a run of the task, as a retry goes on with what that
        began."""
        refused: dict[Wanted, Outcome] = {}
        by = run_of(self.context)
        for ledger, all_of_it in by_ledger_of(self.windows).items():
            there = [each for each in all_of_it if each.found is not None]
            if not there:
                continue
            names = [each.name for each in there]
            gone = unloadable(ledger, self.kafka.get_conn, names, by, self.on_data_loss)
            refused |= {each: gone[each.name] for each in there if each.name in gone}
            again = [name for name in names if name not in gone]
            if ledger.change(lambda state, again=again: load_decisions.reload(state, again, by)):  # type: ignore[misc]
                log.info("To be loaded again in %s: %s", ledger.pipeline, shorten(again))
        return replace(self, refused=refused)

    def begun_before(self) -> Batch | None:
        """What an earlier try of this task has begun, and of which one attempt hasn't ended, as far as is known; None
        when there is none, or another one began since."""
        own = instance_of(self.context)
        newest = [
            attempt
            for each in self.windows
            if (window := each.found) is not None
            and window.loaded is None
            and (attempt := window.newest_attempt) is not None
            and own.items() <= attempt.who.items()
        ]
        if not newest:
            return None
        last = max(newest, key=lambda attempt: (attempt.who["try_number"], attempt.begun_ms or 0))
        batch = self.batch(last.who[BATCH])
        failures = in_parallel(noted_failure, batch.unfinished().files())
        return batch if None in failures else None

    def batch(self, name: str) -> Batch:
        """What began together, without what counts already."""
        attempts = {}
        for each in self.windows:
            window = each.found
            attempt = window.newest_attempt if window is not None and window.loaded is None else None
            if attempt is not None and attempt.who.get(BATCH) == name:
                attempts[each] = attempt
        return Batch(name, in_order(attempts))

    def leave(self, batch: Batch, failure: Exception) -> None:
        """Record that a batch has failed whose driver nobody goes on with; what it has proved of several windows
        counts all the same."""
        with suppress(KafkaOffsetsError):
            self.end(batch, failure, lambda *_: failure)

    def ref_of(self, wanted: Wanted) -> WindowRef:
        """The reference to one of the windows."""
        return self.refs.refs[self.windows.index(wanted)]

    def begin(self, check: Callable[[], None] | None = None) -> tuple[dict[Wanted, Outcome], Batch]:
        """What there is to do: see :func:`.attempts.begin_each`.

        :param check: refuses what can't be run here, if something has to be.
        :returns: the windows with nothing to do, and those that can't be loaded; and what began.
        """
        name, wanted = token_hex(4), [each for each in self.windows if each not in self.refused]
        who = who_of(self.context) | {BATCH: name}
        try:
            begun = begin_each(wanted, self.kafka.get_conn, who, self.on_data_loss, check)
        except KafkaOffsetsError as error:
            refuse_each(dict.fromkeys(wanted, error), who)
            raise
        refuse_each({each: found for each, found in begun.items() if isinstance(found, KafkaOffsetsError)}, who)
        attempts = {each: found for each, found in begun.items() if isinstance(found, Attempted)}
        self._warn_of_losses(attempts)
        done = {each: found for each, found in begun.items() if not isinstance(found, Attempted)}
        return {**self.refused, **done}, Batch(name, in_order(attempts))

    def _warn_of_losses(self, attempts: Mapping[Wanted, Attempted]) -> None:
        for each, attempt in attempts.items():
            if attempt.lost:
                offsets, lost = span_of(attempt.lost), shorten(map(str, attempt.lost))
                log.warning(
                    "Window %s is loaded without %s offsets that Kafka no longer has: %s", each.name, offsets, lost
                )

    def end(
        self, batch: Batch, failure: Exception | None, uncounted: Callable[[Wanted, Attempted], Exception]
    ) -> dict[Wanted, Outcome]:
        """Publish what an application has counted, now that it has ended, and say what has become of each window.

        What is counted of a window counts, if all went well as far as is known. If the application failed after that,
        it may not have done all that it was to do with the window. But if it had several, another one is the reason,
        unless its driver says otherwise.

        :param failure: why the application has failed; None if it hasn't.
        :param uncounted: makes the error for a window of which nothing was counted although nothing failed.
        """
        outcomes(Ledger.read, dict.fromkeys(each.ledger for each in self.windows))
        found: dict[Wanted, Outcome] = {}
        failures: dict[Wanted, tuple[Attempted, Exception]] = {}
        for some in in_turn(list(batch.attempts)):
            looked = outcomes(lambda each: _counted(each, batch.attempts[each], batch, failure), some)
            left = {each: there for each, there in looked.items() if isinstance(there, Counted)}
            found |= publish_each(self.kafka.get_conn, left)
            for each, there in looked.items():
                if there is None:
                    attempt = batch.attempts[each]
                    failures[each] = attempt, noted(files_of(each, attempt), failure) or uncounted(each, attempt)
                elif not isinstance(there, Counted):
                    found[each] = there
        record(failures)
        return found | self.explained(failures)

    def explained(
        self,
        failures: Mapping[Wanted, tuple[Attempted | None, Exception]] | Mapping[Wanted, tuple[Attempted, Exception]],
    ) -> dict[Wanted, Outcome]:
        """The error to raise for each window that wasn't loaded: Spark fails too if records vanish while it reads them
        (S13).

        :param failures: with the attempt that has failed; None if none began.
        :returns: a DataLossError with partitions and exact counts, if that is what happened; or the error for another
            change to the window's topics, such as a re-created topic; otherwise the failure itself. If the next try is
            to load what is left, it is an error that is retried.
        """
        found: dict[Wanted, Outcome] = {each: error for each, (_, error) in failures.items()}
        there = [each for each in failures if each.found is not None]
        for some in in_turn(there):
            try:
                manifests = in_parallel(lambda each: each.ledger.pinned(each.window).manifest, some)
                with self.kafka.get_conn() as client:
                    lost = lost_of_each(client, dict(zip(some, manifests, strict=True)), self.on_data_loss)
            except KafkaOffsetsError:
                log.warning("Kafka can't be asked whether records vanished while Spark read them.")
                return found
            found |= {each: _explained(each, *failures[each], gone) for each, gone in lost.items()}
        return found

    def not_begun(self, outcomes: Collection[Wanted]) -> dict[Wanted, Outcome]:
        """What has become of the windows that a driver wasn't given by the try that began its batch.

        :param outcomes: all others.
        """
        found = {each: why for each, why in self.refused.items() if each not in outcomes}
        left: dict[Wanted, tuple[Attempted | None, Exception]] = {}
        for each in self.windows:
            if each in outcomes or each in found:
                continue
            window = or_error(lambda each=each: each.window)  # type: ignore[misc]
            if isinstance(window, KafkaOffsetsError):
                found[each] = window
            elif window.loaded is not None:
                found[each] = window.loaded
            else:
                left[each] = (None, SparkFailedError("It wasn't begun with the others. The next try loads it."))
        return found | self.explained(left)

    def failure(self, outcomes: Mapping[Wanted, Outcome]) -> Exception | None:
        """Why windows have failed, as of :meth:`.WindowRefs.failure`; None if none has so far."""
        return self.refs.failure(outcomes.get(each) for each in self.windows)

    def reports(self, outcomes: Mapping[Wanted, Outcome], batch: Batch | None) -> list[dict[str, Any]]:
        """What is published of each window, for XCom; in the order given.

        :param batch: what this task has run.
        :raises WindowsFailedError: when one isn't loaded; if the task was given no list, the reason itself.
        """
        self.refs.raise_failed(outcomes[each] for each in self.windows)

        def report(each: Wanted) -> dict[str, Any]:
            published = outcomes[each]
            assert not isinstance(published, Exception)
            return load_report(each.ledger, each.window, published, own_number(each, batch))

        return in_parallel(report, self.windows)


def own_number(wanted: Wanted, batch: Batch | None) -> int | None:
    """Number of the attempt at a window that a task has run; None when there was nothing to do."""
    attempt = None if batch is None else batch.attempts.get(wanted)
    return None if attempt is None else attempt.number


def _counted(wanted: Wanted, attempt: Attempted, batch: Batch, failure: Exception | None) -> Published | Counted | None:
    """What is to be published of a window, or is already; None when there is nothing. Of several drivers' counts, the
    proved ones."""
    window = wanted.window
    if window.loaded is not None:
        return window.loaded
    if failure is not None and len(batch.attempts) == 1:
        return None
    found = counted(wanted.ledger, window, attempt.number)
    return max(found, key=lambda each: each.verdict.proved, default=None)


def _explained(
    wanted: Wanted,
    attempt: Attempted | None,
    failure: Exception,
    lost: tuple[LogRange, ...] | KafkaOffsetsError,
) -> Exception:
    if isinstance(lost, WindowError):
        return lost
    if isinstance(lost, KafkaOffsetsError) or attempt is None or set(lost) == set(attempt.lost):
        return failure
    log.warning(
        "Kafka has lost more of window %s since this attempt began. The next try loads what is left.", wanted.name
    )
    return SparkFailedError(str(failure)) if isinstance(failure, DataLossError) else failure


def load_report(ledger: Ledger, window: Window, published: Published, own: int | None) -> dict[str, Any]:
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
