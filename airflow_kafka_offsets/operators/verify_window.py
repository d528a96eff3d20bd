"""Prove a window: read = written = log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, conf

from airflow_kafka_offsets.arguments import as_milliseconds, check_choice
from airflow_kafka_offsets.compat.airflow_versions import TaskDeferralTimeout
from airflow_kafka_offsets.errors import CommitConflictError, ConfigurationError, LedgerError, UnprovenError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.hooks.metrics import tell
from airflow_kafka_offsets.ledger.file_lists import files_of
from airflow_kafka_offsets.ledger.holes import Surroundings
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest
from airflow_kafka_offsets.lineage.task_window import TaskWindow, TellsLineage, note_outlets
from airflow_kafka_offsets.offsets.answers.records import GapCauses, LogContents
from airflow_kafka_offsets.offsets.instants import duration_text, now_ms
from airflow_kafka_offsets.offsets.measures import Measure
from airflow_kafka_offsets.offsets.proof.audit import Verdict, explain, judge, ranges_with_gaps
from airflow_kafka_offsets.offsets.proof.publication import Publication
from airflow_kafka_offsets.offsets.proof.run_result import RunResult
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.offsets.windows.policies import HolePolicy
from airflow_kafka_offsets.offsets.windows.topic_identity import check_topics
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast
from airflow_kafka_offsets.pipelines.log_changes import changed_since
from airflow_kafka_offsets.pipelines.publisher import handed_over, proved_for, publish, take_over
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.runs.loader import Loader, SeenHoles, refusal
from airflow_kafka_offsets.submission.prepared_load import PreparedLoad
from airflow_kafka_offsets.triggers.window_loaded import KafkaWindowLoadedTrigger, is_loaded

if TYPE_CHECKING:
    from airflow.sdk import Context


class KafkaVerifyWindowOperator(TellsLineage, BaseOperator):
    """
    Publishes a loaded window, unless it is published already; checks the published attempt against the manifest, and
    the manifest against its neighbours.

    ``KafkaSparkSubmitOperator`` publishes what it loads. If something else submits Spark (the classic operator,
    ``@task.pyspark``, a notebook), this operator publishes: after the driver has counted, the counts are proved, and
    Kafka has confirmed that the topics are still those that were resolved.

    It proves three claims: the rows read fit the manifest; the rows written are the rows read; and the window meets
    its neighbours without gap or overlap, both the windows that touch it and the nearest published ones on each side.
    The verdict is recorded in the ledger.

    Offsets between the nearest earlier published window and this one that no published window covers are a hole. The
    parts of it that pinned windows cover, or that queued or running Dag runs will load, count as being loaded: they are
    logged, and pass. A hole after this window is only logged; the later window fails on it.

    Offsets without a record pass if the load was given ``allow_gaps``, and on compacted topics. ``explain_gaps``
    explains them: it reads the log again, with all its bytes, where rows are missing. The number of written rows must
    equal the number of records there; all other offsets must be markers, aborted or compacted records.

    :param window: what ``KafkaResolveWindowOperator`` returned. (templated)
    :param result: what ``PinnedWindow.write(...)`` returned, as JSON (``.to_json()``), if the driver can't reach the
        ledger, such as a Spark Connect client; by default the result in the ledger. (templated)
    :param load: what ``KafkaPrepareLoadOperator`` returned, if it prepared the load. A failure that a driver recorded
        then fails the try, once all drivers that started have ended, or fails the task if a retry can't help; and the
        counts of a load that was asked for different rows are not published. (templated)
    :param explain_gaps: explain offsets without a record from the log, or fail. Needs the ACL Read on the topics, and
        must run before retention reaches the window.
    :param on_hole: what to do about a hole before this window that nobody is loading: ``fail`` (default), naming it and
        the command that loads it, so that a retry succeeds once it is loaded; or ``warn``.
    :param kafka_conn_id: connection id, to explain gaps and to check that the cluster, topic ids and leader epochs
        haven't changed; of type ``kafka`` or ``kafka_offsets``. (templated)
    :param deferrable: wait on the triggerer for a window that isn't loaded yet, because its load runs elsewhere;
        default ``[operators] default_deferrable``. Without it, such a window fails the task.
    :param poke_interval: time between checks of the ledger, a timedelta or seconds.
    :param timeout: longest wait, a timedelta or seconds; then the task fails without retries. None waits forever.

    XCom: ``{"window", "attempt", "output", "offsets", "lost", "read", "written", "further", "gaps", "explained",
    "outside_window", "verdict", "source", "tiling"}``; ``source`` is ``"unchanged"``, or how the topics have changed
    since they were loaded; ``explained`` is ``{"markers", "aborted", "compacted", "removed_since"}``, or ``None``
    without ``explain_gaps``.
    """

    template_fields: Sequence[str] = ("window", "result", "load", "kafka_conn_id")
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        window: Any,
        result: Any = None,
        load: Any = None,
        explain_gaps: bool = False,
        on_hole: HolePolicy = "fail",
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
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
        self.kafka_conn_id = kafka_conn_id
        self.deferrable = deferrable
        self.poke_interval = poke_interval
        self.timeout = timeout

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:
        """Verify the window, after waiting for it if necessary; fail unless it is proved."""
        check_choice("on_hole", self.on_hole, *get_args(HolePolicy))
        return self._verify_loaded(context, None)

    def _verify_loaded(self, context: Context, until_ms: int | None) -> dict[str, Any]:
        """Verify the window if it is loaded, or wait for it. Wait too if verifying fails because another driver has
        started meanwhile, whose rows replace the ones to publish.

        :param until_ms: when a wait that has already begun ends, Unix milliseconds; None when none has, or it has no
            end.
        """
        given = WindowRef.from_json(self.window)
        ledger = given.ledger()
        ref, load = self._of_load(given, ledger)
        self._wait_unless_loaded(ref, ledger, load, until_ms)
        try:
            return self._verify(ref, ledger, load, context)
        except (UnprovenError, CommitConflictError):
            self._wait_unless_loaded(ref, ledger, load, until_ms)
            raise

    def _wait_unless_loaded(self, ref: WindowRef, ledger: Ledger, load: str | None, until_ms: int | None) -> None:
        if self.result is None and (self.deferrable or load) and not is_loaded(ref, ledger, load) and self.deferrable:
            self._wait(ref, load, until_ms)

    def _of_load(self, ref: WindowRef, ledger: Ledger) -> tuple[WindowRef, str | None]:
        """The window, in the revision of the prepared load, and the load's name."""
        if self.load is None:
            return ref, None
        prepared = PreparedLoad.from_json(self.load)
        if not prepared.ref.is_same_window(ref):
            raise ConfigurationError(
                f"load= is for window {prepared.ref.window} of {prepared.ref.pipeline}, but window= is {ref.window} of "
                f"{ref.pipeline}: give both from the same run."
            )
        if prepared.ref.revision >= ref.revision:
            return prepared.ref, prepared.load
        if ref.loaded(ledger)[1] is None:
            raise ConfigurationError(
                f"load= is for revision {prepared.ref.revision} of window {ref.window}, but the window has been "
                f"resolved again since: window= is revision {ref.revision}. Clear the task that prepares the load too."
            )
        return ref, prepared.load

    def _wait(self, ref: WindowRef, load: str | None, until_ms: int | None) -> NoReturn:
        longest = self._longest_wait()
        if until_ms is not None:
            longest = timedelta(milliseconds=until_ms - now_ms())
            if longest <= timedelta(0):
                raise AirflowFailException(self._took_too_long())
        elif longest is not None:
            until_ms = now_ms() + longest // timedelta(milliseconds=1)
        poll_interval_ms = as_milliseconds(self.poke_interval, "poke_interval") or 0
        self.defer(
            trigger=KafkaWindowLoadedTrigger(window=ref.to_json(), poll_interval_s=poll_interval_ms / 1000, load=load),
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

    def _verify(self, ref: WindowRef, ledger: Ledger, load: str | None, context: Context) -> dict[str, Any]:
        pinned, publication = self._published(ref, ledger, load)
        folder, manifest = ledger.window_folders.of(pinned), pinned.manifest
        result = folder.published_result(publication)
        ledger.file_lists.refresh(ref.window, files_of(result))  # a crash may have skipped it
        verdict = self._explained(manifest, result, judge(manifest, result, publication))
        around = Surroundings(ledger, manifest)
        tiling = around.tiling()
        loader = Loader.of(context, folder.attempt(result.attempt))
        holes = SeenHoles.around(around, loader)
        told = replace(tiling, problems=(*tiling.problems, *map(str, holes.missing)))
        self.seen = TaskWindow(pinned, output=result.output, further=result.further, verdict=verdict, tiling=told)
        if not verdict.proved or not tiling.tiles:
            raise UnprovenError(
                f"Window {ref.window} isn't proved: {'; '.join((str(verdict), *tiling.problems))}."
                + ("" if verdict.proved else f" {ref.take_back()}")
            )
        source = self._source_now(ledger, pinned)
        for line in holes.told():
            self.log.warning("Window %s: %s", ref.window, line)
        if holes.missing and self.on_hole == "fail":
            raise refusal(ref.window, [holes.before] if holes.before else [], loader)
        if folder.record_verified(result.attempt, verdict):
            self._keep_day(ledger, folder.id, around)
        report = _report(manifest, result, verdict) | {"source": source or "unchanged", "tiling": _describe(holes)}
        self.log.info(
            "Window %s: %s%s%s; %s; rows with a timestamp outside it: %s",
            ref.window,
            verdict,
            "" if result.derived else f", {result.rows_written} rows",  # for a job, the verdict has them
            f", {manifest.lost_offsets} offsets lost before it was loaded" if manifest.lost_offsets else "",
            report["tiling"],
            _outside(manifest.timed, report["outside_window"]),
        )
        tell(_measures(manifest, result))
        note_outlets(self, context, WindowRef.of(ref.ledger_root, pinned), report)
        return report

    def _published(self, ref: WindowRef, ledger: Ledger, load: str | None) -> tuple[PinnedManifest, Publication]:
        """The revision that counts, and its publication. If a driver's counts aren't published yet, they are published
        first: in a table, its rows may have replaced the published ones. So may a result that was handed over, and any
        attempt that started later.

        :raises UnprovenError: when nothing is published, and nothing can be.
        """
        pinned, published = ref.loaded(ledger)
        result = None if self.result is None else handed_over(self.result, "result=")
        if result is None and published is not None and published.apart:
            return pinned, published
        if result is not None and result.manifest_sha256 != pinned.sha256:
            pinned = ref.read(ledger)
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            if result is None:
                proved = proved_for(ledger, pinned, None if published else load)
                counted = proved[-1] if proved else None
            else:
                counted = take_over(client, ledger, pinned, result)
            if counted is not None:
                published = publish(client, ledger, counted)
        if published is None:
            raise ref.unpublished()
        if counted is not None:
            self.log.info(
                "Window %s is published: %s rows of attempt %s", ref.window, published.rows, published.attempt
            )
        if published.revision != pinned.manifest.revision:
            pinned = ledger.pinned(ref.window, published.revision)
        return pinned, published

    def _keep_day(self, ledger: Ledger, window: str, around: Surroundings) -> None:
        """Write the day's checkpoint, which only saves reading. A damaged file of another window doesn't fail this
        one: ``ledger verify`` names it."""
        try:
            ledger.keep_day(window, around.index)
        except LedgerError as error:
            self.log.warning("Window %s: no checkpoint of its day, as a window of it is damaged: %s", window, error)

    def _source_now(self, ledger: Ledger, pinned: PinnedManifest) -> str | None:
        """How the window's topics have changed since it was loaded; None if they haven't. This doesn't affect the
        verdict: Kafka told the driver after the read that the window came from the resolved topics."""
        if not pinned.manifest.span:
            return None
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            changed = changed_since(client, ledger, pinned)
        if changed:
            self.log.warning(
                "Window %s was read from the topics that were resolved, as Kafka confirmed to the driver. They have "
                "changed since: %s",
                pinned.manifest.window,
                changed,
            )
        return changed

    def _explained(self, manifest: Manifest, result: RunResult, verdict: Verdict) -> Verdict:
        """The verdict, with its gaps explained from the logs if ``explain_gaps`` is set and the window is proved."""
        if not self.explain_gaps or not verdict.proved:
            return verdict
        ranges = ranges_with_gaps(manifest, result)
        if not ranges:
            return replace(verdict, explained=GapCauses())
        span = sum(gaps.end_offset - gaps.start_offset for gaps in ranges)
        self.log.info("Explaining %s gaps: reading %s offsets in %s partitions", verdict.gaps, span, len(ranges))
        with KafkaOffsetsHook(self.kafka_conn_id).get_conn() as client:
            topics = client.topic_facts(sorted(manifest.topics))
            check_topics(manifest, client.cluster_id(), topics)
            contents = client.log_contents(ranges, isolation_level=manifest.isolation_level)
        LogContents(content for content in contents if not content.is_gone).raise_for_errors()
        facts = (*manifest.topics.values(), *topics.values())
        causes, problems = explain(result, contents, {topic.topic for topic in facts if topic.compacted})
        return replace(verdict, explained=causes, read_problems=problems)


def _report(manifest: Manifest, result: RunResult, verdict: Verdict) -> dict[str, Any]:
    return {
        "window": manifest.window,
        "attempt": result.attempt,
        "output": result.output,
        "offsets": manifest.span,
        "lost": manifest.lost_offsets,
        "read": result.read.count,
        "written": result.rows_written,
        "further": [asdict(output) for output in result.further],
        "gaps": verdict.gaps,
        "explained": None if verdict.explained is None else asdict(verdict.explained),
        "outside_window": result.read.outside_window if manifest.timed else None,
        "verdict": str(verdict),
    }


def _measures(manifest: Manifest, result: RunResult) -> Iterator[Measure]:
    """How large the window is, how long its load took, and how long ago it ended."""
    tags = {"pipeline": manifest.pipeline}
    yield Measure("window_records", result.records, tags)
    yield Measure("window_seconds", result.seconds, tags)
    if manifest.timed:
        yield Measure("window_age", (now_ms() - manifest.end_ms) / 1000, tags)


def _outside(timed: bool, rows: int | None) -> str:
    """How many rows have a timestamp outside the window, for a log line."""
    if not timed:
        return "not applicable, as the window isn't between two instants"
    return "not counted" if rows is None else f"{rows:,}"


def _describe(seen: SeenHoles) -> str:
    """How the window meets its neighbours, for the log and XCom."""
    return "; ".join(seen.told()) or ("no neighbour yet" if seen.alone else "tiles")
