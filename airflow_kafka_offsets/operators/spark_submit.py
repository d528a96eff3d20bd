"""Run Spark on exactly the window's records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, get_args

from airflow.sdk.log import mask_secret

from airflow_kafka_offsets.arguments import check_choice
from airflow_kafka_offsets.compat.spark_provider import kept_output
from airflow_kafka_offsets.errors import DriverGoneError, KafkaOffsetsError, LedgerCorruptError, LedgerError
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.window_folder import PinnedManifest, WindowFolder
from airflow_kafka_offsets.lineage.links import SparkUILink, WindowLink, window_page
from airflow_kafka_offsets.lineage.task_window import TaskWindow, TellsLineage, note_outlets
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.driver_notes import FailureNote, SparkApplication
from airflow_kafka_offsets.offsets.proof.publication import Publication, counts_over
from airflow_kafka_offsets.offsets.windows.policies import DataLossPolicy
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast
from airflow_kafka_offsets.pipelines.empty_window import count_nothing, needs_no_job
from airflow_kafka_offsets.pipelines.publisher import counted_attempt
from airflow_kafka_offsets.references.window_ref import WindowRef
from airflow_kafka_offsets.spark.session.conf import new_attempt
from airflow_kafka_offsets.submission.driver_bundle import LOAD_APPLICATION
from airflow_kafka_offsets.submission.driver_place import DriverPlace
from airflow_kafka_offsets.submission.driver_status import (
    DriverStatus,
    FollowedDriver,
    SubmittedDriver,
    require_deferrable,
)
from airflow_kafka_offsets.submission.earlier_driver import DriverMemory, EarlierDriver
from airflow_kafka_offsets.submission.given_confs import GivenConfs
from airflow_kafka_offsets.submission.spark_arguments import ConnectorChoice, SparkArguments, Submission
from airflow_kafka_offsets.submission.spark_failure import noted_failure, spark_failure
from airflow_kafka_offsets.submission.spark_program import SparkProgram
from airflow_kafka_offsets.submission.spark_progress import Watched, progress_told
from airflow_kafka_offsets.submission.tries import LoadTry, Tries, load_report, report_line
from airflow_kafka_offsets.triggers.driver_ended import KafkaDriverEndedTrigger

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context


_TASKS_LOG = "the load's own task says why, in the log of that try"


class KafkaSparkSubmitOperator(TellsLineage, FollowedDriver):
    """
    A ``SparkSubmitOperator`` whose application loads one pinned window, and that publishes the window once.

    Before Spark starts, it checks that every record of the window is still there. It gives the application the
    manifest's URI and hash, never the offsets, and the driver's part of this package. All arguments of
    ``SparkSubmitOperator`` work as usual. When Spark has ended, it compares the driver's counts with the manifest,
    asks Kafka once more whether the topics are unchanged, and publishes the window.

    Retries and parallel attempts read the same range, and only one of them is published. If an earlier try of the task
    died after its driver had counted, the retry publishes or reports that attempt without Spark. If the window is
    already published, a cleared task or another run counts the published rows again, leaves them as they are, and
    doesn't ask Kafka. A window without offsets is published without Spark.

    :param window: what ``KafkaResolveWindowOperator`` returned. (templated)
    :param kafka_conn_id: connection id for the pre-flight check and for the reader. (templated)
    :param on_data_loss: what to do when records of the window are deleted before Spark starts: ``fail`` (default),
        naming exact counts, or ``load_rest``: load the rest as the window's next revision, whose manifest records the
        loss.
    :param allow_gaps: the topics may have offsets without a record, such as transactions leave.
    :param connector: ``auto`` adds Spark's Kafka connector, in the version of the installed ``spark-submit``, to
        ``packages`` or, without them, to the user's conf ``spark.jars.packages``; None (default) leaves it to
        ``packages``, ``jars`` or the cluster.
    :param deferrable: in cluster mode, wait for the driver on the triggerer instead of a worker: for the driver's notes
        in the ledger, and for its status on the cluster. On YARN it needs ``yarn_track_via_rm_api=True``, on Kubernetes
        ``track_driver_via_k8s_api=True``.
    :param application: your own application; by default the ready-made load, which takes ``--output URI`` among its
        ``application_args``. (templated)

    While Spark runs, the task log reports how many tasks of the stage are done and the remaining time, if the worker
    can reach Spark's UI. Links lead to that UI and to the window's folder in the ledger.

    XCom: ``{"window", "attempt", "published_attempt", "rows", "revision", "lost", "output", "outside", "further",
    "offsets", "read", "written", "gaps", "seconds", "records_a_second", "application_id"}``. ``seconds`` is the time
    from the start of the read to the count of the written rows; ``gaps`` counts offsets without a record. If the window
    was already published, nothing is read: ``seconds`` and ``records_a_second`` are None, and the counts are those of
    the published attempt.
    """

    template_fields: Sequence[str] = (*FollowedDriver.template_fields, "window", "kafka_conn_id")
    operator_extra_links = (SparkUILink(), WindowLink())
    ui_color = "#fdebd0"
    application_id: str | None = None
    _arguments: SparkArguments | None = None
    _memory: DriverMemory | None = None
    _output: Callable[[], list[str]] | None = None
    _watched_for: tuple[PinnedManifest, str] | None = None
    """The revision and the attempt whose driver this task waits for."""

    def __init__(
        self,
        *,
        window: Any,
        kafka_conn_id: str = KafkaOffsetsHook.default_conn_name,
        on_data_loss: DataLossPolicy = "fail",
        allow_gaps: bool = False,
        connector: ConnectorChoice | None = None,
        deferrable: bool = False,
        application: str = LOAD_APPLICATION,
        **kwargs: Any,
    ) -> None:
        super().__init__(application=application, **kwargs)
        self.window = window
        self.kafka_conn_id = kafka_conn_id
        self.on_data_loss = on_data_loss
        self.allow_gaps = allow_gaps
        self.connector = connector
        self.deferrable = deferrable

    @failing_fast()
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # the parent returns nothing
        """Check, submit, publish and report; or continue where an earlier try ended."""
        check_choice("on_data_loss", self.on_data_loss, *get_args(DataLossPolicy))
        if self.connector is not None:
            check_choice("connector", self.connector, "auto")
        load = self._load(context)
        ref, place = load.ref, load.place
        if self.deferrable and not place.on_cluster:
            self.log.warning(
                "deferrable=True does nothing in deploy mode client: the driver runs on this worker and keeps it "
                "busy. Set deploy_mode='cluster' to free it."
            )
        elif self.deferrable:
            require_deferrable(self, place)
        pinned, published = ref.loaded(load.ledger)
        self._see(load, pinned)
        self._memory = DriverMemory(self, context) if place.on_cluster else None
        earlier = None if self._memory is None else self._memory.earlier(ref, load.tries.arguments_hash)
        if earlier is not None:
            return self._go_on(load, earlier, published)
        done = self._done_before(load, pinned, published)
        if done is not None:
            return self._report(load, *done)
        # If the window is published, Spark only counts its rows and doesn't read Kafka: no pre-flight check is needed.
        pinned = pinned if published else load.preflight(pinned)
        if needs_no_job(pinned):
            return self._report(load, pinned, published.attempt if published else self._without_spark(load, pinned))
        return self._run_anew(load, pinned, published)

    def _load(self, context: Context) -> LoadTry:
        """What this task loads and how, and where its driver runs."""
        ref = WindowRef.from_json(self.window)
        kafka, ledger, spark = KafkaOffsetsHook(self.kafka_conn_id), ref.ledger(), self._get_hook()._connection
        program = SparkProgram(spark["spark_binary"], self.env_vars or {})
        given = GivenConfs.of(self, program)
        place, tries = DriverPlace.of(spark, given), Tries.of(context, self)
        return LoadTry(context, ref, ledger, kafka, self.on_data_loss, spark, program, given, place, tries)

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait for the submitted driver, on this worker or on the triggerer."""
        if not self.deferrable or self._watched_for is None:
            super().poll_until_complete(external_id, context)
            return
        pinned, attempt = self._watched_for
        driver, revision = SubmittedDriver(self._conn_id, self._deploy_mode, str(external_id)), pinned.manifest.revision
        self._show_links(context)
        self.log.info("Waiting for driver %s on the triggerer", external_id)
        self.defer(
            trigger=KafkaDriverEndedTrigger(
                window=WindowRef.from_json(self.window).to_json(),
                revision=revision,
                attempt=attempt,
                driver=driver.to_json(),
                poll_interval_s=self._status_poll_interval,
            ),
            method_name="driver_ended",
            kwargs={"attempt": attempt, "revision": revision, "job_id": driver.job_id},
            timeout=self.execution_timeout,
        )

    @failing_fast()
    def driver_ended(
        self, context: Context, event: Mapping[str, Any], *, attempt: str, revision: int, job_id: str
    ) -> dict[str, Any]:
        """Publish and report, once the triggerer has seen that the driver has ended.

        :param event: the event of :class:`.driver_ended.KafkaDriverEndedTrigger`.
        """
        load = self._load(context)
        self._memory = DriverMemory(self, context)
        pinned = load.ledger.pinned(load.ref.window, revision)
        self._see(load, pinned)
        self._get_hook()._run_post_submit_commands()
        note = noted_failure(load.ledger.window_folders.of(pinned), attempt)
        error = None if note is None else note.as_error()
        if error is None and event["status"] == "ended":
            error = DriverStatus(event["state"], event["active"], event["succeeded"]).failure(job_id)
        if error is not None:
            _, published = load.ref.loaded(load.ledger)
            raise self._failure(load, pinned, attempt, published, error) from None
        self._memory.forget()
        return self._report(load, pinned, attempt)

    def _done_before(
        self, load: LoadTry, pinned: PinnedManifest, published: Publication | None
    ) -> tuple[PinnedManifest, str] | None:
        """The revision and the attempt that an earlier try of this task loaded, but died before it reported them."""
        window = load.ref.window
        own = None if published is None else load.tries.published(load.ledger.window_folders.of(pinned), published)
        if own is not None:
            self.log.info("Attempt %s of an earlier try has published window %s: not running Spark again", own, window)
            return pinned, own
        counted = load.tries.counted(load.ledger, pinned, None if self._memory is None else self._memory.failed)
        if counted is None:
            return None
        if published is not None and counts_over(published, pinned.manifest, written_ms=counted.written_ms):
            return None  # Spark checks that the published rows are there
        self.log.info(
            "Attempt %s of an earlier try has loaded and counted window %s: publishing it now, without running Spark",
            counted.result.attempt,
            window,
        )
        return counted.pinned, counted.result.attempt

    def _run_anew(self, load: LoadTry, pinned: PinnedManifest, published: Publication | None) -> dict[str, Any]:
        attempt, note_key = new_attempt(), token_hex(16)
        mask_secret(note_key)
        self._begin(load, pinned, attempt)
        submission = Submission(load, pinned, attempt, note_key, self.allow_gaps, self.connector)
        with (
            self._watched(load, pinned, attempt, note_key, published),
            submission.arguments(self) as self._arguments,
        ):
            self._hook = None  # the hook that was used for an earlier driver doesn't have these arguments
            try:
                super().execute(load.context)
            except Exception as error:
                load.program.explain(error, self._printed(), self._conn_id)
                raise
            finally:
                self._arguments = None
        return self._report(load, pinned, attempt)

    def _without_spark(self, load: LoadTry, pinned: PinnedManifest) -> str:
        """An attempt at a window without offsets: it reads and writes nothing. Returns its name."""
        attempt = new_attempt()
        self.log.info("Window %s has no offsets: publishing it without Spark", pinned.manifest.window)
        load.record(pinned, attempt)
        count_nothing(load.ledger, pinned, attempt, allow_gaps=self.allow_gaps)
        return attempt

    def _go_on(self, load: LoadTry, earlier: EarlierDriver, published: Publication | None) -> dict[str, Any]:
        assert self._memory is not None
        pinned = load.ledger.pinned(load.ref.window, earlier.revision)
        with self._watched(load, pinned, earlier.attempt, None, published):
            self._memory.wait(earlier)
        return self._report(load, pinned, earlier.attempt)

    @contextmanager
    def _watched(
        self,
        load: LoadTry,
        pinned: PinnedManifest,
        attempt: str,
        note_key: str | None,
        published: Publication | None,
    ) -> Iterator[None]:
        """Log the driver's progress while the block waits for it, and raise why it failed; forget the driver after."""
        self._see(load, pinned)
        self.log.info("Window %s is in %s", pinned.manifest.window, pinned.uri.rpartition("/")[0])
        folder, show = load.ledger.window_folders.of(pinned), partial(self._show_links, load.context)
        watched = Watched(attempt, note_key, on_yarn=load.spark["master"].startswith("yarn"))
        self._watched_for = pinned, attempt
        try:
            with progress_told(folder, watched, self.log, show):
                yield
        except Exception as error:
            failure = spark_failure(folder, attempt, self._printed(), error)
            # The provider's own error repeats a long command, and output that the log has already.
            raise self._failure(load, pinned, attempt, published, failure) from None
        if self._memory is not None:
            self._memory.forget()

    def _failure(
        self,
        load: LoadTry,
        pinned: PinnedManifest,
        attempt: str,
        published: Publication | None,
        failure: Exception,
    ) -> Exception:
        """Record that an attempt has failed. Returns the error to raise, with what Kafka says about the window."""
        with suppress(Exception):  # stores raise errors of their own; the failure itself must be raised
            load.ledger.window_folders.of(pinned).record_failure(
                attempt, FailureNote(type(failure).__name__, _TASKS_LOG, now_ms())
            )
        return failure if published is not None else load.explain(pinned, failure)

    def _printed(self) -> list[str]:
        """The output of ``spark-submit``, without secrets."""
        return self._output() if self._output else []

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook() if self._arguments is None else self._arguments.hook(self)
        self._output = kept_output(hook)
        return hook

    def on_kill(self) -> None:
        """End the driver, and forget it: the next try could still see it running for a while, and wait for it."""
        super().on_kill()
        if self._memory is None:
            return
        try:
            self._memory.forget()
        except Exception as error:  # the task ends anyway
            self.log.warning(
                "Couldn't forget the driver that was told to end, so the next try may wait for it: %r", error
            )

    def _see(self, load: LoadTry, pinned: PinnedManifest) -> None:
        self.seen = TaskWindow(pinned, load.kafka.settings().bootstrap_servers)

    def _show_links(self, context: Context, application: SparkApplication | None = None) -> None:
        """Show the links while Spark runs: Airflow by itself asks for them only when the task has ended."""
        pages: dict[str, str | None] = {WindowLink().xcom_key: window_page(self.seen.pinned)}
        if application is not None:
            self.application_id = application.id
            pages[SparkUILink().xcom_key] = application.ui
        for key, page in pages.items():
            if page:
                context["ti"].xcom_push(key=key, value=page)

    def _begin(self, load: LoadTry, pinned: PinnedManifest, attempt: str) -> None:
        load.record(pinned, attempt)
        if self._memory is not None:
            self._memory.note(load.ref, load.tries.arguments_hash, attempt, pinned.manifest.revision)

    def _report(self, load: LoadTry, pinned: PinnedManifest, attempt: str) -> dict[str, Any]:
        tried = load.ledger.window_folders.of(pinned)
        note = _note(tried, attempt)
        counted = counted_attempt(load.ledger, pinned, attempt)
        if counted is not None:
            published: Publication | None = load.publish(counted)
        else:
            failed = attempt in tried.listing().failures  # the application may have continued after its failure
            published = None if failed else load.published_over(pinned, note)
        if published is None:
            raise self._uncounted(tried, attempt)
        self.seen = replace(self.seen, output=published.output, rows=published.rows, further=published.further)
        same = published.revision == pinned.manifest.revision
        counts = pinned if same else load.ledger.pinned(tried.id, published.revision)
        folder = load.ledger.window_folders.of(counts)
        own = counted.result if counted is not None and same else None
        report = load_report(folder, counts.manifest, published, attempt, own)
        self.application_id = note.id if note else report["application_id"]
        self.log.info(report_line(report))
        note_outlets(self, load.context, WindowRef.of(load.ref.ledger_root, counts), report)
        return report

    def _uncounted(self, folder: WindowFolder, attempt: str) -> KafkaOffsetsError:
        """Why there is nothing to publish. The Spark provider treats a driver pod that vanished as a success."""
        note = noted_failure(folder, attempt)
        if note is not None:  # the application caught the error and continued
            return note.as_error()
        if self._memory is not None:
            return DriverGoneError(
                f"The driver of attempt {attempt} is gone, and has counted nothing of window {folder.id}: it was "
                "deleted or evicted before it could, or its application doesn't call write(). A retry runs "
                "the load again."
            )
        return LedgerError(
            f"Spark succeeded, but nothing of window {folder.id} was counted. Does {self.application} call write()?"
        )


def _note(folder: WindowFolder, attempt: str) -> SparkApplication | None:
    """The driver's note; None when there is none, or it is incomplete."""
    with suppress(LedgerCorruptError):
        return folder.application(attempt)
    return None
