"""The size of a record, for the split plan: what earlier windows had on average, else what the log takes on disk.

It only decides how many tasks read a window: where nobody knows it, the load goes without.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from airflow_kafka_offsets.client.offsets_client import OffsetsClient
from airflow_kafka_offsets.errors import shorten
from airflow_kafka_offsets.hooks.kafka_offsets import KafkaOffsetsHook
from airflow_kafka_offsets.ledger.ledger import Ledger
from airflow_kafka_offsets.ledger.window_folder import WindowFolder
from airflow_kafka_offsets.offsets.partitions import TopicPartition
from airflow_kafka_offsets.offsets.windows.ledger_names import live_revisions, month_of
from airflow_kafka_offsets.offsets.windows.manifest import Manifest
from airflow_kafka_offsets.spark import conf as driver

log = logging.getLogger(__name__)

_EARLIER_WINDOWS = 3
"""How many are looked at: the newest may not be loaded yet, or empty."""


def record_size_conf(hook: KafkaOffsetsHook, ledger: Ledger, manifest: Manifest) -> dict[str, str]:
    """The conf by which the driver learns what a record has on average; none when it can't be known."""
    if not manifest.span:
        return {}
    try:
        size_bytes = _loaded_size(ledger, manifest)
        if size_bytes is None:
            with hook.get_conn() as client:
                size_bytes = _stored_size(client, manifest)
    except Exception as error:  # whatever it is: a load must not fail for want of its plan
        log.info("How large records are isn't known, so that the plan of the read goes by its default: %r", error)
        return {}
    return {} if size_bytes is None else {driver.BYTES_PER_RECORD: f"{size_bytes:.1f}"}


def _loaded_size(ledger: Ledger, manifest: Manifest) -> float | None:
    """What the keys and values of the last windows up to this one had on average; None when none of them tells."""
    for folder in islice(_windows_before(ledger, manifest), _EARLIER_WINDOWS):
        publication = folder.publication()
        result = folder.result(publication.attempt) if publication else None
        if result and result.read.bytes_per_record:
            return result.read.bytes_per_record
    return None


def _windows_before(ledger: Ledger, manifest: Manifest) -> Iterator[WindowFolder]:
    """A window and those before it, latest first: of its own month, and of the one before. A backfill's windows are
    like their neighbours, not like the newest; and to list a whole ledger takes long."""
    own = month_of(manifest.window)
    first_day = datetime.strptime(own, "%Y%m").replace(tzinfo=UTC)
    for month in (own, f"{first_day - timedelta(days=1):%Y%m}"):
        live = live_revisions(ledger.window_folders.names([month]))
        for window in sorted(live, reverse=True):
            if window <= manifest.window:
                yield ledger.window_folders.revision(window, live[window][-1])


def _stored_size(client: OffsetsClient, manifest: Manifest) -> float | None:
    """What the window's logs take on the disks of their leaders, compressed as they are, over their offsets."""
    partitions = [TopicPartition(pinned.topic, pinned.partition) for pinned in manifest.non_empty()]
    sizes, extents = client.log_sizes(partitions), client.log_extents(partitions)
    failures = [*sizes.failures(), *extents.failures()]
    if failures:
        why = shorten(f"{name}: {error}" for name, error in failures)
        log.info("How large records are isn't known of %s partitions: %s", len(failures), why)
    size_bytes, offsets, known = 0, 0, extents.ok()
    for size in sizes.ok():
        extent = known.lookup(size.topic, size.partition)
        if extent is None or size.size_bytes is None:
            continue
        if extent.high_watermark is not None and extent.log_start_offset is not None:
            size_bytes += size.size_bytes
            offsets += extent.high_watermark - extent.log_start_offset
    return size_bytes / offsets if size_bytes and offsets else None
