"""Run Spark on exactly the window's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.arguments import as_milliseconds
from airflow_kafka_offsets.compat.airflow_versions import task_state
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    DriverGoneError,
    KafkaOffsetsError,
    LedgerError,
    SparkFailedError,
)
from airflow_kafka_offsets.ledger.entries import Attempted, Published
from airflow_kafka_offsets.lineage.links import SparkUILink, WindowLink, window_page
from airflow_kafka_offsets.lineage.task_window import note_outlets
from airflow_kafka_offsets.offsets.instants import now_ms
from airflow_kafka_offsets.offsets.proof.driver_notes import SparkApplication
from airflow_kafka_offsets.operators import failing_fast
from airflow_kafka_offsets.operators.spark_operator import KafkaLoadOperator, KafkaSparkOperator
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.references import WindowRefs
from airflow_kafka_offsets.submission.application import LOAD_APPLICATION
from airflow_kafka_offsets.submission.batch import Batch, found_application
from airflow_kafka_offsets.submission.driver import DriverStatus, require_deferrable
from airflow_kafka_offsets.submission.spark_arguments import Submission, Submitter
from airflow_kafka_offsets.submission.spark_failure import spark_failure
from airflow_kafka_offsets.submission.tries import LoadTry, Outcome, own_number, report_line
from airflow_kafka_offsets.triggers.ledger_looks import KafkaDriverEndedTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

_TOLD = 20
"""Of so many windows at most, each has a line in the log."""


class KafkaSparkSubmitOperator(KafkaLoadOperator, KafkaSparkOperator):
    """
    A ``SparkSubmitOperator`` whose application loads pinned windows, and that publishes each window once.

    A window that is published already is reported without Spark, and without asking Kafka. If somebody's driver has
    loaded and counted it, and died before it was published, it is published without Spark. So is a window without
    offsets, unless a table may have rows under its name, of a window that was voided or rewound. Otherwise it is
    checked that every record of the window is still there, and Spark is run: the application gets the manifest's URI
    and hash, never the offsets, the number of its attempt, and the driver's part of this package. All arguments of
    ``SparkSubmitOperator`` work as usual. When Spark has ended, the driver's counts are compared with the manifest,
    Kafka is asked once more whether the topics are unchanged, and the window is published.

    Of several windows, one that fails doesn't hold up the others: what is proved of them is published. In the end the
    task names those that failed, and why, in one table; a retry loads only those.

    Retries and parallel attempts read the same range, and only one of them is published. If a worker dies while its
    driver runs on a cluster, the retry goes on with that driver, as the Spark provider does.

    :param window: what ``KafkaResolveWindowOperator`` returned; or a list of it, such as the output of a mapped or a
        splitting one, of any pipelines with one Kafka connection: one Spark application loads them all. (templated)
    :param reload: load the window again, though it is published: once in a run of this task, however often it is
        retried. Readers keep the old rows until the new ones are published. A Dag lets its runs ask for it with
        ``"{{ dag_run.conf.get('reload', '') }}"``. (templated)
    :param connector: ``auto`` adds Spark's Kafka connector, in the version of the installed ``spark-submit``, to
        ``packages`` or, without them, to the user's conf ``spark.jars.packages``; for a :class:`TableLoad`, also the
        packages and confs of its table and formats. ``given`` leaves that to ``packages``, ``jars`` or the cluster. By
        default it is ``auto`` for a :class:`TableLoad`, and ``given`` for other applications.
    :param deferrable: in cluster mode, wait for the driver on the triggerer instead of a worker: for the driver's notes
        in the ledger, and for its status on the cluster. On YARN it needs ``yarn_track_via_rm_api=True``, on Kubernetes
        ``track_driver_via_k8s_api=True``.

    ``application``, ``application_args``, ``on_data_loss`` and ``allow_gaps`` are those of
    :class:`~airflow_kafka_offsets.operators.spark_operator.KafkaLoadOperator`.

    While Spark runs, links lead to its UI and to the window's folder in the ledger; in deploy mode ``client``, Spark
    itself logs how many tasks of each stage are done.

    XCom: ``{"window", "attempt", "rows", "output", "outputs", "offsets", "lost", "read", "written", "gaps", "seconds",
    "records_a_second", "application_id"}``, of the published attempt. ``seconds`` is the time from the start of the
    read to the count of the written rows, and None, like ``records_a_second``, if this task has run nothing; ``gaps``
    counts offsets without a record. Of a list of windows, a list of that, in the order given; each window once.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "window", "reload", "table")
    operator_extra_links = (SparkUILink(), WindowLink())
    ui_color = "#fdebd0"
    application_id: str | None = None
    _on_cluster: bool = False
    _running: tuple[LoadTry, Batch] | None = None

    def __init__(self, *, deferrable: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deferrable = deferrable
        self._refuse_without_output()

    def _refuse_without_output(self) -> None:
        """Refuse the ready-made load without an output, which would be found only once Spark has started."""
        words = self.application_args
        if self.application != LOAD_APPLICATION or not isinstance(words, list | tuple | None):
            return
        if not any(not isinstance(word, str) or word.startswith("--output") or "{{" in word for word in words or ()):
            raise ConfigurationError(
                "The ready-made load has no output. Say where its rows go: application=TableLoad('s3://lake/orders'); "
                "or name an application of your own."
            )

    @failing_fast()
    def execute(self, context: Context) -> Any:  # the parent returns nothing
        """Report what is published, or load the windows and publish them."""
        refs = WindowRefs.from_json(self.window)
        if not refs.refs:
            self.log.info("There are no windows to load")
            return []
        submitter = Submitter.of(self)
        self._check_deferrable(submitter)
        load = self._load(context, refs)
        self._on_cluster = submitter.place.on_cluster
        before = self._begun_before(load) if self._on_cluster else None
        if before is not None:
            return self._run(load, submitter, before)
        outcomes, batch = load.begin(submitter.program.refuse_missing)
        if not batch.attempts:
            return self._report(load, outcomes)
        if (failure := load.failure(outcomes)) is not None:
            self.log.error("Before Spark is started, %s", failure)
        return self._run(load, submitter, batch)

    def _load(self, context: Context, refs: WindowRefs) -> LoadTry:
        load = super()._load(context, refs)
        self._see(load.windows, load.kafka)
        return self._reloaded(load)

    def _check_deferrable(self, submitter: Submitter) -> None:
        if not self.deferrable:
            return
        if submitter.place.on_cluster:
            require_deferrable(self, submitter.place)
            return
        self.log.warning(
            "deferrable=True does nothing in deploy mode client: the driver runs on this worker and keeps it "
            "busy. Set deploy_mode='cluster' to free it."
        )

    def _begun_before(self, load: LoadTry) -> Batch | None:
        """The batch of an earlier try that the provider goes on with, as its driver runs or has succeeded."""
        batch, store = load.begun_before(), task_state(load.context)
        if batch is None or store is None:
            return None
        self._keep_drivers_of(batch)
        job_id = store.get(self.external_id_key)
        if job_id is None:
            return None
        status = DriverStatus.of(self, job_id, load.context)
        if status.active or status.succeeded:
            self.log.info("Continuing with driver %s (%s) of an earlier try", job_id, status.state)
            return batch
        self.log.warning("Driver %s of an earlier try is %s: not continuing with it", job_id, status.state)
        failure = status.failure(job_id)
        if failure is not None:
            load.leave(batch, failure)
        return None

    def _keep_drivers_of(self, batch: Batch) -> None:
        """Have the provider keep the id of a driver, for the task's next try, with that of its batch: the next try may
        make another one."""
        self.external_id_key = f"kafka_offsets_driver_{batch.id}"
        self._K8S_DRIVER_STATUS_KEY = f"kafka_offsets_driver_status_{batch.id}"

    def _run(self, load: LoadTry, submitter: Submitter, batch: Batch) -> Any:
        """Run a driver that makes a batch, or go on with one that the provider reconnects to; then publish."""
        self._running = load, batch
        self._keep_drivers_of(batch)
        self._tell(batch)
        connector = self.connector or (None if self.table is None else "auto")
        submission = Submission(load, submitter, batch, self.allow_gaps, connector, self.table)
        try:
            with found_application(batch.files(), self.log, partial(self._show_links, load.context)):
                failure = self._submit(load.context, submitter, submission.arguments(self))
        finally:
            self._running = None
        return self._ended(load, batch, None if failure is None else spark_failure(self._printed(), failure))

    def _tell(self, batch: Batch) -> None:
        for each, attempt in batch.attempts.items():
            if len(batch.attempts) <= _TOLD:
                folder = each.ledger.manifest_uri(each.window).rpartition("/")[0]
                self.log.info("Window %s is in %s; this is attempt %s", each.name, folder, attempt.number)
        if len(batch.attempts) > 1:
            self.log.info("One Spark application loads %s windows with %s offsets", len(batch.attempts), batch.span)

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait for the submitted driver, on this worker or on the triggerer."""
        hook = self._backend.hook
        if hook._is_yarn_cluster_mode:  # the provider notes it only where it submits, and on_kill() ends what is noted
            hook._yarn_application_id = external_id
        if not self.deferrable or self._running is None:
            super().poll_until_complete(external_id, context)
            return
        (load, batch), job_id = self._running, str(external_id)
        self._show_links(context)
        self.log.info("Waiting for driver %s on the triggerer", job_id)
        timeout_ms = as_milliseconds(self.execution_timeout, "execution_timeout")
        self._defer(load, batch, job_id, None if timeout_ms is None else now_ms() + timeout_ms)

    def _defer(self, load: LoadTry, batch: Batch, job_id: str, until_ms: int | None) -> NoReturn:
        """Wait for a driver until it has counted the last window of a batch.

        :param until_ms: how long, Unix milliseconds; None if the wait has no end.
        """
        last, attempt = list(batch.attempts.items())[-1]
        left = None if until_ms is None else max(timedelta(0), timedelta(milliseconds=until_ms - now_ms()))
        self.defer(
            trigger=KafkaDriverEndedTrigger(
                window=load.ref_of(last).to_json(),
                attempt=attempt.number,
                conn_id=self._conn_id,
                deploy_mode=self._deploy_mode,
                job_id=job_id,
                poll_interval_s=self._status_poll_interval,
            ),
            method_name="driver_ended",
            kwargs={"batch": batch.id, "job_id": job_id, "until_ms": until_ms},
            timeout=left,
        )

    @failing_fast()
    def driver_ended(
        self, context: Context, event: Mapping[str, Any], *, batch: str, job_id: str, until_ms: int | None = None
    ) -> Any:
        """Publish and report, once the triggerer has seen that the driver has ended. A driver that has noted the last
        window of several may still load others, as it loads some at once: then wait for these.

        :param event: the event of :class:`.ledger_looks.KafkaDriverEndedTrigger`.
        :param until_ms: when the wait ends, Unix milliseconds; None if it has no end.
        """
        load, self._on_cluster = self._load(context, WindowRefs.from_json(self.window)), True
        left = load.batch(batch).unnoted()
        if event["status"] == "noted" and left.attempts:
            self._defer(load, left, job_id, until_ms)
        self._get_hook()._run_post_submit_commands()
        failure = None
        if event["status"] == "ended":
            failure = DriverStatus(event["state"], event["active"], event["succeeded"]).failure(job_id)
        return self._ended(load, load.batch(batch), failure)

    def _ended(self, load: LoadTry, batch: Batch, failure: Exception | None) -> Any:
        """Publish what a driver has counted, now that it has ended."""
        outcomes = load.end(batch, failure, self._uncounted)
        for each, attempt in batch.attempts.items():
            found = outcomes[each]
            if failure is not None and not isinstance(found, Exception) and found.attempt != attempt.number:
                self.log.warning("Attempt %s at window %s has failed: %s", attempt.number, each.name, failure)
        return self._report(load, outcomes, batch)

    def _uncounted(self, wanted: Wanted, attempt: Attempted) -> KafkaOffsetsError:
        """Why there is nothing to publish, if no driver says so. The Spark provider treats a driver pod that vanished
        as a success."""
        if self._on_cluster:
            return DriverGoneError(
                f"The driver of attempt {attempt.number} is gone, and has counted nothing of window {wanted.name}: it "
                "was deleted or evicted before it could, or its application doesn't call write(). A retry runs "
                "the load again."
            )
        return LedgerError(
            f"Spark succeeded, but nothing of window {wanted.name} was counted. Does {self.application} call write()?"
        )

    def _report(self, load: LoadTry, outcomes: dict[Wanted, Outcome], batch: Batch | None = None) -> Any:
        outcomes |= load.not_begun(outcomes)
        published = {each: found for each, found in outcomes.items() if isinstance(found, Published)}
        outputs = {each.manifest: found.outputs for each, found in published.items()}
        self.seen = tuple(replace(each, outputs=outputs.get(each.sha256, ())) for each in self.seen)
        reports = load.reports(outcomes, batch)
        self.application_id = next(filter(None, (each["application_id"] for each in reports)), None)
        for each, report in zip(load.windows, reports[:_TOLD], strict=False):
            self.log.info(report_line(report, own_number(each, batch)))
        if len(reports) > 1:
            self.log.info(
                "All %s windows are published, with %s rows", len(reports), sum(each["rows"] for each in reports)
            )
        note_outlets(self, load.context, load.refs, reports)
        return load.refs.of(reports)

    def _show_links(self, context: Context, application: SparkApplication | None = None) -> None:
        """Show the links while Spark runs: Airflow by itself asks for them only when the task has ended."""
        pages: dict[str, str | None] = {WindowLink().xcom_key: window_page(self.seen[0])}
        if application is not None:
            self.application_id = application.id
            pages[SparkUILink().xcom_key] = application.ui
        for key, page in pages.items():
            if page:
                context["ti"].xcom_push(key=key, value=page)

    def on_kill(self) -> None:
        """End the driver, and record that what it hasn't proved has failed: the next try could still see it running for
        a while, and wait for it."""
        super().on_kill()
        if self._running is not None:
            _, batch = self._running
            batch.unfinished().end(SparkFailedError("The task was killed: it was cleared, marked or timed out."))
