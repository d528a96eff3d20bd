"""Is a table complete that something else has written? Compared with exactly the window's records."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, get_args

from airflow_kafka_offsets.arguments import IncompletePolicy, as_name, check_choice, constant
from airflow_kafka_offsets.errors import ConfigurationError, IncompleteTableError, NotWrittenYetError
from airflow_kafka_offsets.ledger.files import audit_file
from airflow_kafka_offsets.lineage.task_window import note_outlets
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.report import AuditReport, Problem
from airflow_kafka_offsets.operators import failing_fast
from airflow_kafka_offsets.operators.spark_operator import KafkaSparkOperator
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.references import WindowRef, WindowRefs
from airflow_kafka_offsets.submission.application import AUDIT_APPLICATION
from airflow_kafka_offsets.submission.audit_submission import AuditSubmission
from airflow_kafka_offsets.submission.spark_arguments import Submitter
from airflow_kafka_offsets.submission.tries import who_of

if TYPE_CHECKING:
    from airflow.sdk import Context

_SHOWN = 20
"""How many findings are in the XCom; the report in the ledger has more."""


class KafkaAuditTableOperator(KafkaSparkOperator):
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
        *KafkaSparkOperator.template_fields,
        *("window", "table", "writer_group", "write_missing"),
    )
    ui_color = "#e8f4e0"

    def __init__(
        self,
        *,
        window: Any,
        table: AuditedTable,
        writer_group: str | None = None,
        allow_gaps: bool = False,
        on_incomplete: IncompletePolicy = "fail",
        write_missing: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"application": AUDIT_APPLICATION, **kwargs})
        self.window = window
        self.table = table
        self.writer_group = writer_group
        self.allow_gaps = allow_gaps
        self.on_incomplete = on_incomplete
        self.write_missing = write_missing
        WindowRef.check(window)
        check_choice("on_incomplete", on_incomplete, *get_args(IncompletePolicy))
        if not isinstance(table, AuditedTable):
            raise ConfigurationError(
                f'table= takes an AuditedTable, such as AuditedTable(table="lake.orders"), not {table!r}.'
            )
        replace(table, preset=constant(table.preset, "kafka")).check()
        if writer_group is not None:
            as_name(constant(writer_group, "group"), "writer_group")

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
        kafka, windows = refs.hook(), refs.wanted()
        self._see(windows, kafka)
        given = self.writer_group, self.write_missing, self.allow_gaps
        submission = AuditSubmission(windows, token_hex(4), self.table, *given)
        self.application_args = submission.words
        submitter = Submitter.of(self)
        arguments = submission.arguments(self, submitter, kafka.java_settings(), self.connector)
        failure = self._submit(context, submitter, arguments)
        outcomes = submission.outcomes(kafka.get_conn, who_of(context), self._printed(), failure)
        summaries = [_summary(each, found) for each, found in outcomes.items() if isinstance(found, AuditReport)]
        if len(summaries) == len(outcomes):
            note_outlets(self, context, refs, summaries)
        refs.raise_failed(
            self._judged(each, found) if isinstance(found, AuditReport) else found for each, found in outcomes.items()
        )
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


def _place(window: Wanted, report: AuditReport) -> str:
    return f"{window.ledger.uri}/{audit_file(window.name, report.run)}"


def _summary(window: Wanted, report: AuditReport) -> dict[str, Any]:
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
        "report": _place(window, report),
    }
