"""Counting which offsets of a window have a record, while the log has them all: so that tables can be audited after
retention has deleted the records."""

from __future__ import annotations

import logging

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.ledger import load_decisions
from airflow_kafka_offsets.ledger.entries import RecordsCounted
from airflow_kafka_offsets.ledger.ledger import Ledger, PinnedManifest
from airflow_kafka_offsets.offsets.audits.census import Census
from airflow_kafka_offsets.pipelines.log_changes import changes

log = logging.getLogger(__name__)


def count_records(client: OffsetsClient, ledger: Ledger, pinned: PinnedManifest) -> None:
    """Count a window's records, unless that was done before. Reads all bytes of the window, a few MiB at a time, with
    the window's isolation level. Topics that are compacted are left out, as their logs go on losing records.

    :raises OffsetsError: when a log can't be read, or no longer has all offsets of the window.
    :raises WindowError: when a topic isn't the one that was resolved, or a log was truncated since.
    """
    manifest = pinned.manifest
    facts = client.topic_facts(sorted(manifest.topics))  # one may have become compacted since
    compacted = {each.topic for each in (*facts.values(), *manifest.topics.values()) if each.compacted}
    ranges = [each.log_range for each in manifest.non_empty() if each.topic not in compacted]
    if not ranges or ledger.window(manifest.window).census is not None:
        return
    contents = client.log_contents(ranges, isolation_level=manifest.isolation_level).raise_for_errors()
    for error in filter(None, changes(client, {manifest.window: manifest}).values()):
        raise error
    census = Census.of(contents)
    wish = RecordsCounted(manifest.window, ledger.contents.add_census(manifest.window, census), census.records)
    ledger.change(lambda state: load_decisions.count(state, wish, pinned.sha256))
    log.info("Window %s has %s records at %s offsets", manifest.window, census.records, manifest.span)
    unkept = [str(key) for key in census.counts if key not in census.runs]
    if unkept:
        log.warning("Their offsets are too many to keep, or a compacted batch hides them, on %s", shorten(unkept))
