"""Is a table complete that something else has written? Compared with exactly the window's records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, get_args

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.arguments import as_name, check_choice, constant
from airflow_kafka_offsets.compat.spark_provider import kept_output
from airflow_kafka_offsets.errors import (
    ConfigurationError,
    FailedWindow,
    IncompleteTableError,
    NotWrittenYetError,
    WindowsFailedError,
)
from airflow_kafka_offsets.ledger.files import audit_file
from airflow_kafka_offsets.ledger.storage import in_parallel
from airflow_kafka_offsets.lineage.links import TellsLineage
from airflow_kafka_offsets.lineage.task_window import TaskWindow, note_outlets
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.findings import Problem
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.windows.policies import IncompletePolicy
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.references.window_ref import WindowRef, WindowRefs
from airflow_kafka_offsets.submission.audit_submission import AuditSubmission
from airflow_kafka_offsets.submission.driver_bundle import AUDIT_APPLICATION
from airflow_kafka_offsets.submission.spark_arguments import ConnectorChoice, SparkArguments, Submitter
from airflow_kafka_offsets.submission.tries import who_of

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context

_SHOWN = 20
"""How many findings are in the XCom; the report in the ledger has more."""


class KafkaAuditTableOperator(TellsLineage, SparkSubmitOperator):
    """
    Audits a table that something else has written (a sink connector, Flink, a stream): does it have each record of the
    window, once, and no other row of it? Nothing has to be loaded by this package, and nothing is changed.

    The table is read first. If every offset has a record, and the table's own counts and checksums show each offset
    once, Kafka isn't read at all. Otherwise the log's offsets are read where the table differs, with the window's
    isolation level: a transaction's marker, an aborted record, and what compaction removed are never missing. The
    verdict is recorded in the ledger, so it outlives the topic's retention.

    All other arguments of ``SparkSubmitOperator`` work as usual, but ``application`` and ``application_args``.

    :param window: what ``KafkaResolveWindowOperator`` returned; or a list of it, of any pipelines with one Kafka
        connection: one Spark application audits them all, and reads the table once. (templated)
    :param table: an :class:`~airflow_kafka_offsets.offsets.audits.audited_table.AuditedTable`. (templated)
    :param writer_group: the consumer group of the table's writer, such as ``connect-orders``. What is above its commits
        isn't missing, but not written yet: if nothing else is wrong, a retry audits again. (templated)
    :param allow_gaps: the topics may have offsets without a record, such as transactions leave: then the log's offsets
        are always read.
    :param on_incomplete: what to do if the table isn't complete: ``fail`` (default), or ``warn``.
    :param write_missing: a folder to write the missing records to, as Parquet with all of Kafka's columns, for whoever
        owns the table to merge. (templated)
    :param connector: ``auto`` adds Spark's Kafka connector, in the version of the installed ``spark-submit``, and what
        the table's ``format`` needs; None (default) leaves it to ``packages``, ``jars`` or the cluster.

    XCom: ``{"window", "table", "verdict", "complete", "counts", "rows", "records", "looked_at", "findings", "written",
    "report", "seconds"}``; of a list of windows, a list of that. ``counts`` has the amounts by problem: ``missing``,
    ``doubled``, ``foreign``, ``not_yet``, ``unknowable``. ``findings`` are the first ranges, and ``report`` is the file
    with more of them.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        *("window", "table", "writer_group", "write_missing"),
    )
    ui_color = "#e8f4e0"
    _arguments: SparkArguments | None = None
    _output: Callable[[], list[str]] | None = None

    def __init__(
        self,
        *,
        window: Any,
        table: AuditedTable,
        writer_group: str | None = None,
        allow_gaps: bool = False,
        on_incomplete: IncompletePolicy = "fail",
        write_missing: str | None = None,
        connector: ConnectorChoice | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"application": AUDIT_APPLICATION, **kwargs})
        self.window = window
        self.table = table
        self.writer_group = writer_group
        self.allow_gaps = allow_gaps
        self.on_incomplete = on_incomplete
        self.write_missing = write_missing
        self.connector = connector
        WindowRef.check(window)
        self._check()

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        """Render a copy of the table: Airflow renders an object in place, and tasks may share it."""
        self.table = copy(self.table)
        super().render_template_fields(context, jinja_env)

    @failing_fast()
    def execute(self, context: Context) -> Any:  # the parent returns nothing
        """Audit the table, record the verdicts, and fail unless it is complete."""
        self.table.check()
        refs = WindowRefs.from_json(self.window)
        if not refs.refs:
            self.log.info("There are no windows to audit")
            return []
        kafka, ledgers = refs.hook(), refs.ledgers()
        windows = [Wanted(ledger, ref.window, ref.sha256) for ref, ledger in zip(refs.refs, ledgers, strict=True)]
        servers = kafka.settings().bootstrap_servers
        pinned = in_parallel(lambda each: each.ledger.pinned(each.window), windows)
        self.seen = tuple(TaskWindow.of(each, bootstrap_servers=servers) for each in pinned)
        given = self.writer_group, self.write_missing, self.allow_gaps
        submission = AuditSubmission(windows, token_hex(4), self.table, *given)
        self.application_args = submission.words
        submitter, failure = Submitter.of(self), None
        try:
            with submission.arguments(self, submitter, kafka.java_settings(), self.connector) as arguments:
                self._arguments, self._hook = arguments, None
                super().execute(context)
        except Exception as error:
            submitter.program.explain(error, self._printed(), self._conn_id)
            # The provider's own error repeats a long command, and output that the log has already.
            failure = error
        finally:
            self._arguments = None
        outcomes = submission.outcomes(kafka.get_conn, who_of(context), self._printed(), failure)
        return self._told(context, refs, outcomes)

    def _check(self) -> None:
        check_choice("on_incomplete", self.on_incomplete, *get_args(IncompletePolicy))
        if self.connector is not None:
            check_choice("connector", self.connector, *get_args(ConnectorChoice))
        if not isinstance(self.table, AuditedTable):
            raise ConfigurationError(
                f'table= takes an AuditedTable, such as AuditedTable(table="lake.orders"), not {self.table!r}.'
            )
        replace(self.table, preset=constant(self.table.preset, "kafka")).check()
        if self.writer_group is not None:
            as_name(constant(self.writer_group, "group"), "writer_group")

    def _told(self, context: Context, refs: WindowRefs, outcomes: Mapping[Wanted, AuditReport | Exception]) -> Any:
        """Log the verdicts, and return them; or fail by them."""
        failed = []
        for each, found in outcomes.items():
            error = found if isinstance(found, Exception) else self._judged(each, found)
            if error is not None:
                failed.append(FailedWindow(each.name, each.ledger.pipeline, error))
        reports = [(each, found) for each, found in outcomes.items() if isinstance(found, AuditReport)]
        summaries = [_summary(found) | {"report": _place(each, found)} for each, found in reports]
        if len(summaries) == len(outcomes):
            note_outlets(self, context, refs, summaries)
        if failed and len(outcomes) == 1:
            raise failed[0].error from None
        if failed:
            raise WindowsFailedError(failed, len(outcomes)) from None
        return refs.of(summaries)

    def _judged(self, window: Wanted, report: AuditReport) -> IncompleteTableError | None:
        """Log a verdict. Returns the error that it is."""
        said = f"Window {window.name}: {report}"
        if report.is_complete:
            self.log.info("%s", said)
            return None
        if report.repair is not None:
            said += f" {report.repair}"
        said += f" All that was found is in {_place(window, report)}."
        if self.on_incomplete == "warn":
            self.log.warning("%s", said)
            return None
        return (NotWrittenYetError if set(report.counts) == {Problem.NOT_YET} else IncompleteTableError)(said)

    def _printed(self) -> list[str]:
        """The output of ``spark-submit``, without secrets."""
        return self._output() if self._output else []

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook() if self._arguments is None else self._arguments.hook(self)
        self._output = kept_output(hook)
        return hook


def _place(window: Wanted, report: AuditReport) -> str:
    return f"{window.ledger.uri}/{audit_file(window.name, report.run)}"


def _summary(report: AuditReport) -> dict[str, Any]:
    return {
        "window": report.window,
        "table": report.table.name,
        "verdict": str(report),
        "complete": report.is_complete,
        "counts": dict(report.counts),
        "rows": report.rows,
        "records": report.records,
        "looked_at": report.looked_at,
        "findings": [each._asdict() for each in report.findings[:_SHOWN]],
        "written": None if report.written is None else report.written._asdict(),
        "seconds": report.seconds,
    }
