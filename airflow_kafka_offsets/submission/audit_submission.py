"""What ``spark-submit`` gets to audit a table: the windows' manifests, the table, and where to write what is found; and
what comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_kafka_offsets.client.connection.java_settings import JavaSettings
from airflow_kafka_offsets.errors import KafkaOffsetsError, SparkFailedError
from airflow_kafka_offsets.ledger.audits import failure_of
from airflow_kafka_offsets.offsets.audits.audited_table import AuditedTable
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.pipelines.audits import record
from airflow_kafka_offsets.pipelines.loads import ClientFactory
from airflow_kafka_offsets.spark.session.release import packages_in, table_confs
from airflow_kafka_offsets.submission.application import AUDIT_APPLICATION, driver_bundle
from airflow_kafka_offsets.submission.confs import confs_in_file, default_confs, not_given, window_confs
from airflow_kafka_offsets.submission.spark_arguments import ConnectorChoice, SparkArguments, Submitter, complete
from airflow_kafka_offsets.submission.spark_failure import last_words, printed_failure
from airflow_kafka_offsets.submission.spark_program import SparkProgram


@dataclass(frozen=True, slots=True)
class AuditSubmission:
    """One audit, before it is submitted.

    :param windows: those that are audited, by one driver.
    :param run: the audit's own name, 8 hex digits.
    :param writer_group, missing_to: as for :class:`~airflow_kafka_offsets.spark.audits.table_rows.AuditRequest`.
    :param allow_gaps: the topics may have offsets without a record.
    """

    windows: Sequence[Wanted]
    run: str
    table: AuditedTable
    writer_group: str | None = None
    missing_to: str | None = None
    allow_gaps: bool = False

    @property
    def words(self) -> list[str]:
        """The application's arguments."""
        given = {"--writer-group": self.writer_group, "--write-missing": self.missing_to}
        return [
            *("--table", json.dumps(self.table.to_json()), "--run", self.run),
            *(word for flag, value in given.items() if value is not None for word in (flag, value)),
        ]

    def _windows(self, given: Mapping[str, str]) -> dict[str, str]:
        """The confs that say what the driver reads; ``given`` are the user's."""
        in_order = sorted(self.windows, key=lambda each: (each.name, each.ledger.pipeline))
        return window_confs([(each, None) for each in in_order], given, allow_gaps=self.allow_gaps)

    def arguments(
        self, task: SparkSubmitOperator, by: Submitter, kafka: JavaSettings, connector: ConnectorChoice | None
    ) -> AbstractContextManager[SparkArguments]:
        """A task's arguments plus everything that the driver needs, which exists until the block ends."""
        return complete(task, by, kafka, self._windows(by.given.confs), connector, self.table.kinds)

    @contextmanager
    def command(
        self, program: SparkProgram, reader: Mapping[str, str], packages: str | None, others: Sequence[str]
    ) -> Iterator[list[str]]:
        """The words that run the audit on this machine, without Airflow; what they name exists until the block ends.

        :param reader: options of the Kafka reader that aren't secret.
        :param packages: the user's packages. Spark's Kafka connector and what the table's format needs are added,
            unless they, or ``others``, name them, or Spark's release can't be told.
        :param others: the user's other arguments of ``spark-submit``.
        :raises ConfigurationError: when nobody can tell which connector is needed.
        """
        program.refuse_mixed()
        given, release = packages_in(packages), program.release(ask=True)
        if release is not None:
            given = release.with_packages(self.table.kinds, given, " ".join(others))
        of_table = not_given(table_confs(self.table.kinds), confs_in_file(program.defaults()))
        by_name = of_table | default_confs(reader, {}) | self._windows({})
        confs = [word for name, value in by_name.items() for word in ("--conf", f"{name}={value}")]
        chosen = ["--packages", ",".join(given)] if given else []
        with driver_bundle() as bundle:
            yield [program.binary, *chosen, "--py-files", bundle, *confs, *others, AUDIT_APPLICATION, *self.words]

    def outcomes(
        self,
        client_factory: ClientFactory,
        who: Mapping[str, Any],
        printed: Sequence[str],
        error: Exception | None = None,
    ) -> dict[Wanted, AuditReport | Exception]:
        """Record what the driver has found. Returns the report of each window, or why there is none.

        :param who: the Airflow task and its try, or whoever else audits.
        :param printed: the last output of ``spark-submit``.
        :param error: what was raised when it was submitted; None if nothing was.
        """
        found = record(client_factory, self.windows, self.run, who)
        return {each: found.get(each) or self._failure(each, printed, error) for each in self.windows}

    def _failure(self, wanted: Wanted, printed: Sequence[str], error: Exception | None) -> Exception:
        """The exception for an audit that has left no report, which decides whether it is retried."""
        if isinstance(error, KafkaOffsetsError):
            return error
        note = failure_of(wanted.ledger, wanted.name, self.run) or printed_failure(printed)
        if note is not None:
            return note.as_error()
        if error is not None and not printed:
            return error
        return SparkFailedError(
            f"The audit of {self.table.name} has left no report: {last_words(printed)} All output of spark-submit is "
            "above."
        )
