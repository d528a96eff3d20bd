"""Prove a window: read = written = log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, conf

from airflow_kafka_offsets.arguments import as_milliseconds, check_choice
from airflow_kafka_offsets.compat.airflow_versions import TaskDeferralTimeout
from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, UnprovenError
from airflow_kafka_offsets.hooks.metrics import tell
from airflow_kafka_offsets.ledger import file_lists, load_decisions
from airflow_kafka_offsets.ledger.entries import Verified
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.state import Publication
from airflow_kafka_offsets.lineage.links import TellsLineage
from airflow_kafka_offsets.lineage.task_window import TaskWindow, note_outlets
from airflow_kafka_offsets.offsets.answers.records import GapCauses, LogContents
from airflow_kafka_offsets.offsets.instants import duration_text, now_ms
from airflow_kafka_offsets.offsets.measures import Measure
from airflow_kafka_offsets.offsets.proof.audit import Verdict, explain, ranges_with_gaps
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.policies import HolePolicy
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast
from airflow_kafka_offsets.pipelines.loads import (
    Counted,
    handed_over,
    left_to_publish,
    publish,
    published_counts,
    take_over,
)
from airflow_kafka_offsets.pipelines.log_changes import changed_since
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.runs.around import Around, is_backfill, refusal
from airflow_kafka_offsets.submission.prepared_load import PreparedLoad
from airflow_kafka_offsets.triggers.window_loaded import KafkaWindowLoadedTrigger, is_loaded

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaVerifyWindowOperator(TellsLineage, BaseOperator):
    """
    Publishes a loaded window, unless it is published already; checks the published attempt against the manifest, and
    looks for holes beside the window.

    ``KafkaSparkSubmitOperator`` publishes what it loads. If something else submits Spark (the classic operator,
    ``@task.pyspark``, a notebook), this operator publishes: after the driver has counted, the counts are proved, and
    Kafka has confirmed that the topics are still those that were resolved.

    It proves three claims: the rows read fit the manifest; the rows written are the rows read; and the window meets
    the nearest published windows on both sides. The verdict is recorded in the ledger.

    Offsets between two windows that no window has are a hole. A window answers for the holes that it skipped when it
    was pinned: from the last window that was there before it. A window that was pinned when a later one was there fills
    a hole itself, and answers for none. Neither does one of a backfill, whose runs pin their windows in any order:
    Airflow shows those that fail. What no window answers for is logged, and so is what is pinned, but not loaded yet.

    Offsets without a record pass if the load was given ``allow_gaps``, and on compacted topics. ``explain_gaps``
    explains them: it reads the log again, with all its bytes, where rows are missing. The number of written rows must
    equal the number of records there; all other offsets must be markers, aborted or compacted records.

    :param window: what ``KafkaResolveWindowOperator`` returned. (templated)
    :param result: what ``PinnedWindow.write(...)`` returned, as JSON (``.to_json()``), if the driver can't reach the
        ledger, such as a Spark Connect client; by default the result in the ledger. (templated)
    :param load: what ``KafkaPrepareLoadOperator`` returned, if it prepared the load. A failure that a driver recorded
        then fails the try, once all drivers that started have ended, or fails the task if a retry can't help.
        (templated)
    :param explain_gaps: explain offsets without a record from the log, or fail. Needs the ACL Read on the topics, and
        must run before retention reaches the window.
    :param on_hole: what to do about a hole that this window answers for: ``fail`` (default), naming it and the command
        that loads it, so that a retry succeeds once it is pinned; or ``warn``.
    :param deferrable: wait on the triggerer for a window that isn't loaded yet, because its load runs elsewhere;
        default ``[operators] default_deferrable``. Without it, such a window fails the task.
    :param poke_interval: time between checks of the ledger, a timedelta or seconds.
    :param timeout: longest wait, a timedelta or seconds; then the task fails without retries. None waits forever.

    XCom: ``{"window", "attempt", "output", "outputs", "rows", "offsets", "lost", "read", "written", "gaps",
    "explained", "verdict", "source", "tiling"}``; ``source`` is ``"unchanged"``, or how the topics have changed since
    they were loaded; ``explained`` is ``{"markers", "aborted", "compacted", "removed_since"}``, or ``None`` without
    ``explain_gaps``.
    """

    template_fields: Sequence[str] = ("window", "result", "load")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        window: Any,
        result: Any = None,
        load: Any = None,
        explain_gaps: bool = False,
        on_hole: HolePolicy = "fail",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        poke_interval: timedelta | float = 60,
        timeout: timedelta | float | None = timedelta(days=7),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.window = window
        self.result = result
        self.load = load
        self.explain_gaps = explain_gaps
        self.on_hole = on_hole
        self.deferrable = deferrable
        self.poke_interval = poke_interval
        self.timeout = timeout
        WindowRef.check(window)
        check_choice("on_hole", on_hole, *get_args(HolePolicy))
        as_milliseconds(poke_interval, "poke_interval")
        as_milliseconds(timeout, "timeout")

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        """Verify the window, after waiting for it if necessary; fail unless it is proved."""
        return self._verify_loaded(context, None)

    def _verify_loaded(self, context: Context, until_ms: int | None) -> dict[str, Any]:
        """Verify the window if it is loaded, or wait for it. Wait too if verifying fails because another attempt has
        begun meanwhile, whose rows replace the ones to publish.

        :param until_ms: when a wait that has already begun ends, Unix milliseconds; None when none has, or it has no
            end.
        """
        ref = WindowRef.from_json(self.window)
        attempt, ledger = self._attempt(ref), ref.ledger()
        self._wait_unless_loaded(ref, ledger, attempt, until_ms)
        try:
            return self._verify(ref, ledger, context)
        except (UnprovenError, CommitConflictError):
            ledger.read()
            self._wait_unless_loaded(ref, ledger, attempt, until_ms)
            raise

    def _attempt(self, ref: WindowRef) -> int | None:
        """The attempt of the prepared load; None when there is none."""
        if self.load is None:
            return None
        prepared = PreparedLoad.from_json(self.load)
        if not prepared.ref.is_same_window(ref):
            raise ConfigurationError(
                f"load= is for window {prepared.ref.window} of {prepared.ref.pipeline}, but window= is {ref.window} of "
                f"{ref.pipeline}: give both from the same run."
            )
        return prepared.attempt

    def _wait_unless_loaded(self, ref: WindowRef, ledger: Ledger, attempt: int | None, until_ms: int | None) -> None:
        """Wait if nothing is published, and nothing can be."""
        asks = self.result is None and (self.deferrable or attempt is not None)
        if asks and not is_loaded(ref, ledger, attempt) and self.deferrable:
            self._wait(ref, attempt, until_ms)

    def _wait(self, ref: WindowRef, attempt: int | None, until_ms: int | None) -> NoReturn:
        longest = self._longest_wait()
        if until_ms is not None:
            longest = timedelta(milliseconds=until_ms - now_ms())
            if longest <= timedelta(0):
                raise AirflowFailException(self._took_too_long())
        elif longest is not None:
            until_ms = now_ms() + longest // timedelta(milliseconds=1)
        poll_interval_s = (as_milliseconds(self.poke_interval, "poke_interval") or 0) / 1000
        self.defer(
            trigger=KafkaWindowLoadedTrigger(window=ref.to_json(), poll_interval_s=poll_interval_s, attempt=attempt),
            method_name="execute_complete",
            kwargs={"until_ms": until_ms},
            timeout=longest,
        )

    def _longest_wait(self) -> timedelta | None:
        timeout_ms = as_milliseconds(self.timeout, "timeout")
        return None if timeout_ms is None else timedelta(milliseconds=timeout_ms)

    @failing_fast()
    def execute_complete(
        self, context: Context, event: Mapping[str, Any], until_ms: int | None = None
    ) -> dict[str, Any]:
        """Check again, because a driver may have started since the trigger's check. A retriable failure that the
        trigger reported fails the try only if it still holds.

        :param until_ms: when the wait ends, Unix milliseconds; None when it has no end.
        """
        if event.get("status") != "done" and not event.get("retriable"):
            raise AirflowFailException(
                event.get("message") or f"The trigger sent an unexpected event, {event!r}: clear the task."
            )
        return self._verify_loaded(context, until_ms)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Name the window that the task waited for when the wait times out."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            raise AirflowFailException(self._took_too_long()) from error

    def _took_too_long(self) -> str:
        window, longest = WindowRef.from_json(self.window).window, self._longest_wait()
        within = "its time" if longest is None else duration_text(longest.total_seconds())
        return (
            f"Window {window} was not loaded within {within}: find out what happened to its load, then clear this task."
        )

    def _verify(self, ref: WindowRef, ledger: Ledger, context: Context) -> dict[str, Any]:
        published = self._published(ref, ledger)
        loaded = published_counts(ledger, ref.window_in(ledger), published)
        verdict = self._explained(ref, loaded)
        around = Around.of(ledger, loaded.window)
        self.seen = TaskWindow(loaded.pinned, outputs=published.outputs, verdict=verdict, holes=around.holes)
        if not verdict.proved:
            raise UnprovenError(
                f"Window {ref.window} isn't proved: {verdict}. It stays published until it is loaded again: run "
                f"kafka-offsets ledger reload {ref.pipeline} {ref.window}, which names the command that clears its run."
            )
        source = self._source_now(ref, loaded.pinned.manifest)
        for line in around.told():
            self.log.warning("Window %s: %s", ref.window, line)
        if around.skipped and self.on_hole == "fail" and not is_backfill(context):
            raise refusal(context, loaded.attempt.who, ref.window, around.skipped)
        # Whoever published may have died before it wrote the list.
        if published.verdict is None and not file_lists.correct(ledger, ref.window, loaded.result):
            file_lists.refresh(ledger, {ref.window: loaded.result})
        wish = Verified(ref.window, loaded.attempt.number, _stored(verdict))
        ledger.change(lambda state: load_decisions.record_verdict(state, wish))
        report = _report(loaded, published, verdict) | {"source": source or "unchanged", "tiling": str(around)}
        rows = "" if loaded.result.derived else f", {published.rows} rows"  # for a job, the verdict has them
        self.log.info("Window %s: %s%s; %s", ref.window, verdict, rows, around)
        tell(_measures(loaded))
        note_outlets(self, context, ref, report)
        return report

    def _published(self, ref: WindowRef, ledger: Ledger) -> Publication:
        """The publication. If a driver's counts aren't published yet, they are published first.

        :raises UnprovenError: when nothing is published, and nothing can be.
        """
        window = ref.window_in(ledger)
        if window.loaded is not None:
            return window.loaded
        result = None if self.result is None else handed_over(self.result, "result=")
        counted = left_to_publish(ledger, window) if result is None else None
        if result is None and counted is None:
            raise ref.unpublished(window)
        with ref.hook().get_conn() as client:
            if result is not None:
                counted = take_over(client, ledger, window, result.attempt, result)
            assert counted is not None, "one of the two was found"
            published = publish(client, ledger, counted)
        self.log.info("Window %s is published: %s rows of attempt %s", ref.window, published.rows, published.attempt)
        return published

    def _source_now(self, ref: WindowRef, manifest: Manifest) -> str | None:
        """How the window's topics have changed since it was loaded; None if they haven't. This doesn't affect the
        verdict: Kafka told the driver after the read that the window came from the resolved topics."""
        if not manifest.span:
            return None
        with ref.hook().get_conn() as client:
            changed = changed_since(client, manifest)
        if changed:
            self.log.warning(
                "Window %s was read from the topics that were resolved, as Kafka confirmed to the driver. They have "
                "changed since: %s",
                manifest.window,
                changed,
            )
        return changed

    def _explained(self, ref: WindowRef, loaded: Counted) -> Verdict:
        """The verdict, with its gaps explained from the logs if ``explain_gaps`` is set and the window is proved."""
        verdict = loaded.verdict
        if not self.explain_gaps or not verdict.proved:
            return verdict
        manifest = loaded.pinned.manifest
        ranges = ranges_with_gaps(manifest, loaded.result, loaded.attempt.lost)
        if not ranges:
            return replace(verdict, explained=GapCauses())
        span = sum(gaps.end_offset - gaps.start_offset for gaps in ranges)
        self.log.info("Explaining %s gaps: reading %s offsets in %s partitions", verdict.gaps, span, len(ranges))
        with ref.hook().get_conn() as client:
            topics = client.topic_facts(sorted(manifest.topics))
            check_topics(manifest, client.cluster_id(), topics)
            contents = client.log_contents(ranges, isolation_level=manifest.isolation_level)
        LogContents(content for content in contents if not content.is_gone).raise_for_errors()
        facts = (*manifest.topics.values(), *topics.values())
        causes, problems = explain(loaded.result, contents, {topic.topic for topic in facts if topic.compacted})
        return replace(verdict, explained=causes, read_problems=problems)


def _stored(verdict: Verdict) -> dict[str, Any]:
    """The verdict, as the ledger keeps it: short, as a checkpoint has those of all windows."""
    explained = {} if verdict.explained is None else {"explained": asdict(verdict.explained)}
    return {"verdict": str(verdict)} | explained


def _report(loaded: Counted, published: Publication, verdict: Verdict) -> dict[str, Any]:
    result = loaded.result
    return {
        "window": loaded.window.name,
        "attempt": published.attempt,
        "output": published.output,
        "outputs": [each._asdict() for each in published.outputs],
        "rows": published.rows,
        "offsets": loaded.window.offsets,
        "lost": verdict.lost,
        "read": result.read.count,
        "written": result.rows_written,
        "gaps": verdict.gaps,
        "explained": None if verdict.explained is None else asdict(verdict.explained),
        "verdict": str(verdict),
    }


def _measures(loaded: Counted) -> Iterator[Measure]:
    """How large the window is, how long its load took, and how long ago it ended."""
    manifest, result = loaded.pinned.manifest, loaded.result
    tags = {"pipeline": manifest.pipeline}
    yield Measure("window_records", result.records, tags)
    yield Measure("window_seconds", result.seconds, tags)
    if manifest.timed:
        yield Measure("window_age", (now_ms() - manifest.end_ms) / 1000, tags)
