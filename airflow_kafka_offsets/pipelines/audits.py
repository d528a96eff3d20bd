"""Audits, as Airflow's side records them: what a driver has found about a table counts if it fits the window, and the
window's logs weren't truncated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerCorruptError, LogTruncatedError, or_error
from airflow_kafka_offsets.ledger.audits import audited
from airflow_kafka_offsets.ledger.decisions import Entries
from airflow_kafka_offsets.ledger.entries import Audited
from airflow_kafka_offsets.ledger.files import audit_file
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.ledger.storage import outcomes
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.windows.ledger_names import json_of
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.pipelines.loads import ClientFactory, commit_each
from airflow_kafka_offsets.pipelines.log_changes import changes

Outcomes = dict[Wanted, AuditReport | KafkaOffsetsError]


class _Left(NamedTuple):
    """What an audit has left of a window.

    :param sha256: hash of the report's file.
    """

    wanted: Wanted
    report: AuditReport
    sha256: str
    manifest: Manifest

    def decide(self, state: State, who: Mapping[str, Any]) -> Entries:
        """Record it; raises as :func:`.ledger.audits.audited`."""
        report = self.report
        wish = Audited(
            window=report.window,
            table=report.table.name,
            run=report.run,
            report=self.sha256,
            counts=dict(report.counts),
            rows=report.rows,
            records=report.records,
            who=who,
            audited_ms=report.audited_ms,
        )
        return audited(state, wish, self.wanted.manifest)


def record(client_factory: ClientFactory, windows: Iterable[Wanted], run: str, who: Mapping[str, Any]) -> Outcomes:
    """Record what an audit has found of some windows: all of a ledger by one commit.

    :returns: the report of each, without those of which it has left none. Or an error; one doesn't hold up the others:

        - LedgerCorruptError when the report is damaged, contradicts itself or the window, or is another audit's.
        - LedgerConflictError when the window is gone, or is another one of that name.
        - TopicChangedError when the table doesn't tell everything, and a topic is missing or was re-created.
        - LogTruncatedError when a log was truncated below the window's end since it was resolved.
        - Others when Kafka can't be asked about that, unless the table's own sums have told everything.
    """
    found = outcomes(lambda each: _left(each, run), windows)
    errors = {each: error for each, error in found.items() if isinstance(error, KafkaOffsetsError)}
    return errors | _recorded(client_factory, [each for each in found.values() if isinstance(each, _Left)], who)


def _left(wanted: Wanted, run: str) -> _Left | None:
    """What an audit has left of a window, if anything; raises as :func:`record`."""
    window, ledger = wanted.window, wanted.ledger
    content = ledger.files.read(audit_file(window.name, run))
    if content is None:
        return None
    report, manifest = AuditReport.from_json(json_of(content)), ledger.pinned(window).manifest
    if (report.run, report.window, report.manifest_sha256) != (run, window.name, window.manifest):
        raise LedgerCorruptError(
            f"{audit_file(window.name, run)} is the report of audit {report.run} of window {report.window}, manifest "
            f"{report.manifest_sha256}."
        )
    report.check(manifest)
    return _Left(wanted, report, digest(content), manifest)


def _recorded(client_factory: ClientFactory, left: Sequence[_Left], who: Mapping[str, Any]) -> Outcomes:
    errors = {wanted: error for wanted, error in _refused(client_factory, left).items() if error is not None}
    good = [each for each in left if each.wanted not in errors]
    errors |= commit_each({each.wanted: (each.wanted.ledger, partial(each.decide, who=who)) for each in good})
    return {each.wanted: errors.get(each.wanted, each.report) for each in left}


def _refused(client_factory: ClientFactory, left: Sequence[_Left]) -> dict[Wanted, KafkaOffsetsError | None]:
    """Why Kafka says that a report doesn't count; None if it doesn't say so. Where the table's own sums have told
    everything, the window's offsets are enough, whatever has become of the topic: but not if they belong to other
    records now."""

    def ask() -> dict[Wanted, KafkaOffsetsError | None]:
        with client_factory() as client:
            return changes(client, {each.wanted: each.manifest for each in left})

    found = or_error(ask) if left else {}

    def refused(each: _Left) -> KafkaOffsetsError | None:
        error = found if isinstance(found, KafkaOffsetsError) else found[each.wanted]
        return error if each.report.looked_at or isinstance(error, LogTruncatedError) else None

    return {each.wanted: refused(each) for each in left}
