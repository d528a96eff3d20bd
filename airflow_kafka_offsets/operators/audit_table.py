"""Is a table complete that something else has written? Compared with exactly the window's records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, get_args

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.arguments import as_name, check_choice, constant
from airflow_kafka_offsets.compat.spark_provider import kept_output
from airflow_kafka_offsets.errors import ConfigurationError, IncompleteTableError, NotWrittenYetError
from airflow_kafka_offsets.ledger import audits
from airflow_kafka_offsets.ledger.files import audit_file
from airflow_kafka_offsets.lineage.links import TellsLineage
from airflow_kafka_offsets.lineage.task_window import TaskWindow, note_outlets
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.findings import is_only_late
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.windows.policies import IncompletePolicy
from airflow_kafka_offsets.operators.pipeline_operator import failing_fast
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

    :param window: what ``KafkaResolveWindowOperator`` returned. (templated)
    :param table: an :class:`~airflow_kafka_offsets.offsets.audits.audited_table.AuditedTable`. (templated)
    :param writer_group: the consumer group of the table's writer, such as ``connect-orders``. What is above its commits
        isn't missing, but not written yet: if nothing else is wrong, a retry audits again. (templated)
    :param allow_gaps: the topics may have offsets without a record, such as transactions leave: then the log's offsets
        are always read.
    :param on_incomplete: what to do if the table isn't complete: ``fail`` (default), or ``warn``.
    :param write_missing: a folder to write the missing records to, as Parquet with all of Kafka's columns, for whoever
        owns the table to merge. (templated)
    :param connector: ``auto`` adds Spark's Kafka connector, in the version of the installed ``spark-submit``; None
        (default) leaves it to ``packages``, ``jars`` or the cluster.

    XCom: ``{"window", "table", "verdict", "complete", "counts", "rows", "records", "looked_at", "findings", "written",
    "report", "seconds"}``. ``counts`` has the amounts by problem: ``missing``, ``doubled``, ``foreign``, ``not_yet``,
    ``unknowable``. ``findings`` are the first ranges, and ``report`` is the file with more of them.
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
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # the parent returns nothing
        """Audit the table, record the verdict, and fail unless it is complete."""
        self.table.check()
        ref = WindowRef.from_json(self.window)
        ledger, kafka = ref.ledger(), ref.hook()
        window = ref.window_in(ledger)
        pinned = ledger.pinned(window)
        self.seen = (TaskWindow.of(pinned, bootstrap_servers=kafka.settings().bootstrap_servers),)
        given = self.writer_group, self.write_missing, self.allow_gaps
        submission = AuditSubmission(ledger, pinned, token_hex(4), self.table, *given)
        self.application_args = submission.words
        submitter = Submitter.of(self)
        try:
            with submission.arguments(self, submitter, kafka.java_settings(), self.connector) as arguments:
                self._arguments, self._hook = arguments, None
                super().execute(context)
        except Exception as error:
            submitter.program.explain(error, self._printed(), self._conn_id)
            # The provider's own error repeats a long command, and output that the log has already.
            raise submission.failure(self._printed(), error) from None
        finally:
            self._arguments = None
        report = audits.record(ledger, window, submission.run, who_of(context))
        if report is None:
            raise submission.failure(self._printed())
        return self._told(context, ref, report, f"{ledger.uri}/{audit_file(ref.window, report.run)}")

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

    def _told(self, context: Context, ref: WindowRef, report: AuditReport, place: str) -> dict[str, Any]:
        """Log the verdict, and return it; or fail by it."""
        summary = _summary(report) | {"report": place}
        note_outlets(self, context, WindowRefs((ref,), is_list=False), [summary])
        said = f"Window {ref.window}: {report}"
        if report.is_complete:
            self.log.info("%s", said)
            return summary
        if report.written is not None:
            said += f" The missing records are in {report.written.output}."
        said += f" All that was found is in {place}."
        if self.on_incomplete == "warn":
            self.log.warning("%s", said)
            return summary
        raise (NotWrittenYetError if is_only_late(report.counts) else IncompleteTableError)(said)

    def _printed(self) -> list[str]:
        """The output of ``spark-submit``, without secrets."""
        return self._output() if self._output else []

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook() if self._arguments is None else self._arguments.hook(self)
        self._output = kept_output(hook)
        return hook


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
