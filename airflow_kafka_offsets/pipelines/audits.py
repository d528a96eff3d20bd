"""Audits, as Airflow's side records them: what a driver has found about a table counts if it fits the window, and the
window's logs weren't truncated. And what can be counted of a window while the log has it all, so that tables can be
audited after retention has deleted the records."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import KafkaOffsetsError, LedgerCorruptError, LogTruncatedError, or_error, shorten
from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.entries import Audited, Entries, RecordsCounted
from airflow_kafka_offsets.ledger.files import audit_file
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.ledger.state import State
from airflow_kafka_offsets.ledger.storage import outcomes
from airflow_kafka_offsets.offsets.answers.records import LogContents
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.offsets.audits.report import AuditReport
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.manifest import Manifest, digest
from airflow_kafka_offsets.pipelines.attempts import Wanted
from airflow_kafka_offsets.pipelines.loads import ClientFactory, commit_each
from airflow_kafka_offsets.pipelines.log_changes import changes

log = logging.getLogger(__name__)

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
        """Record it; raises as :func:`.load_decisions.audit`."""
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
        return load_decisions.audit(state, wish, self.wanted.manifest)


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
    report, manifest = AuditReport.from_bytes(content), ledger.pinned(window).manifest
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


def count_records(client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest) -> None:
    """Count a window's records, unless that was done before. Reads all bytes of the window, a few MiB at a time, with
    the window's isolation level. Topics that are compacted are left out, as their logs go on losing records; and so are
    partitions of which some offsets are deleted already.

    :raises OffsetsError: when a log can't be read.
    :raises WindowError: when a topic isn't the one that was resolved, or a log was truncated since.
    """
    manifest = pinned.manifest
    facts = client.topic_facts(sorted(manifest.topics))  # one may have become compacted since
    compacted = {each.topic for each in (*facts.values(), *manifest.topics.values()) if each.compacted}
    ranges = [each.log_range for each in manifest.non_empty() if each.topic not in compacted]
    if not ranges or ledger.window(manifest.window).census is not None:
        return
    found = client.log_contents(ranges, isolation_level=manifest.isolation_level)
    if gone := [str(TopicPartition.of(each)) for each in found if each.is_gone]:
        log.warning("Records were deleted before they could be counted on %s", shorten(gone))
    contents = LogContents(each for each in found if not each.is_gone).raise_for_errors()
    if not contents:
        return
    for error in filter(None, changes(client, {manifest.window: manifest}).values()):
        raise error
    census = Census.of(contents)
    wish = RecordsCounted(manifest.window, ledger.contents.add_census(manifest.window, census), census.records)
    ledger.change(lambda state: load_decisions.count(state, wish, pinned.sha256))
    log.info("Window %s has %s records at %s offsets", manifest.window, census.records, manifest.span)
    unkept = [str(key) for key, each in census.partitions.items() if each.runs is None]
    if unkept:
        log.warning("Their offsets are too many to keep, or a compacted batch hides them, on %s", shorten(unkept))
